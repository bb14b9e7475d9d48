"""A model behind a scheduler, without HTTP: what the application and a Ray deployment share."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from symlight.base.errors import UserError
from symlight.model.package import Package
from symlight.model.sampling import exp_table
from symlight.model.v1.package import V1Package

from ..bench.sensors import sensor_of
from ..device.machine import Machine, Progress, silent
from ..device.opening import DeviceOptions, OpenedDevice
from ..library.chat_template import ChatTemplate
from .backends import backend_for, check_wish
from .job import Finish, Job, Piece, Wish
from .metrics import Metrics
from .prefix_cache import PrefixCache
from .requests import BadRequest, Message, checked_text
from .scheduler import Scheduler
from .settings import ServerSettings


class Service:
    """Runs wishes on a device.

    Parameters
    ----------
    package : Package | V1Package
    options : DeviceOptions
    settings : ServerSettings
    """

    def __init__(
        self,
        package: Package | V1Package,
        options: DeviceOptions,
        settings: ServerSettings,
        progress: Progress = silent,
    ):
        self.package, self.settings = package, settings
        self.name = package.meta.name
        self._template = ChatTemplate(package.meta.chat_template, f"the chat template of {self.name}")
        self._options, self._opened = options, OpenedDevice(options, package, progress)
        self._machine: Machine = self._opened.machine
        exp_table()  # made at its first use, for which no request shall wait
        self.metrics = Metrics(package.shape, self._machine.clock_mhz)
        self._cache = PrefixCache(settings.cache_bytes)
        backend = backend_for(self._machine, self._reopen, package.meta.eos, settings.max_running)
        self.scheduler = Scheduler(
            backend,
            self._cache,
            max_queue=settings.max_queue,
            max_running=settings.max_running,
            observer=self.metrics,
        )
        if port_bytes := getattr(self._machine, "port_bytes", None):
            self.metrics.watch_ports(port_bytes)
        if (sensor := sensor_of(self._machine)[0]) is not None:
            self.metrics.watch_power(sensor)
        self.metrics.watch("queue_length", "Choices that wait.", lambda: self.scheduler.waiting)
        self.metrics.watch("running", "Choices in progress.", lambda: self.scheduler.running)
        self.metrics.watch("kept_states", "States of ingested texts.", lambda: len(self._cache))
        self.metrics.watch("kept_states_bytes", "Memory of these.", lambda: self._cache.used)

    @property
    def device(self) -> str:
        return self._machine.name

    def _reopen(self) -> Machine:
        self._opened = OpenedDevice(self._options, self.package)
        self._machine = self._opened.machine
        return self._machine

    # ---- text ----

    def encode(self, text: str, field: str = "prompt", *, special: bool = True) -> list[int]:
        """Token ids of a text; with `special` begun as the package says."""
        text = checked_text(text, field)
        try:
            return self.package.encode(text) if special else self.package.tokenizer.encode(text)
        except UserError as error:
            raise BadRequest(str(error), field) from error

    def chat_text(self, messages: Sequence[Message]) -> str:
        """The text that the model continues after `messages`."""
        try:
            return self._template([(message.role, message.text) for message in messages])
        except UserError as error:
            raise BadRequest(str(error), "messages") from error

    def spell(self, token: int) -> str:
        """Text of a token by itself; its id in brackets where it has none."""
        if self.package.tokenizer_bytes is not None:
            text = self.package.tokenizer.decode([token])
            if text:
                return text
        return f"<{token}>"

    # ---- jobs ----

    def jobs(self, wishes: Sequence[Wish], sink: "Sink", client: str, deadline: float | None) -> list[Job]:
        """A job per wish, checked against the device; not yet queued."""
        made = []
        for wish in wishes:
            try:
                job = Job(wish, self.package, sink.emit, client=client, deadline=deadline)
                check_wish(self._machine, job)
            except UserError as error:
                raise BadRequest(str(error)) from error
            made.append(job)
        return made

    def close(self) -> None:
        self.scheduler.close(self.settings.grace)


class Sink:
    """Takes what the jobs of a request emit, in the scheduler's thread, to the request's event loop.

    What comes while the loop is busy is handed over together.

    Parameters
    ----------
    live : bool
        Hand on every piece at once; otherwise all pieces of a job together with its finish.
    """

    def __init__(self, live: bool):
        self._live = live
        self._loop = asyncio.get_running_loop()
        self._emitted: deque[tuple[Job, Piece | Finish]] = deque()
        self._news, self._called = asyncio.Event(), False
        self._kept: dict[Job, list[Piece]] = {}

    def emit(self, job: Job, what: Piece | Finish) -> None:
        """Called by a job, in the scheduler's thread."""
        if isinstance(what, Piece) and not self._live:
            self._kept.setdefault(job, []).append(what)
            return
        self._emitted.extend((job, one) for one in (*self._kept.pop(job, ()), what))
        if self._called:
            return
        self._called = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop has ended: nobody reads any more
            job.cancel()

    def _wake(self) -> None:
        self._called = False  # first: what is emitted from now on calls again
        self._news.set()

    async def events(self, jobs: Sequence[Job]) -> AsyncIterator[list[tuple[int, Piece | Finish]]]:
        """(number of the job, what it emitted), as many as have come, until all jobs are finished."""
        numbers = {id(job): index for index, job in enumerate(jobs)}
        left = len(jobs)
        while left:
            await self._news.wait()
            self._news.clear()
            found = [self._emitted.popleft() for _ in range(len(self._emitted))]
            left -= sum(isinstance(what, Finish) for _, what in found)
            if found:
                yield [(numbers[id(job)], what) for job, what in found]
