"""Jobs on a machine with one session, which take turns; and which backend a machine has."""

from collections.abc import Callable

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.cpu.engine import CHUNK, Engine
from symlight.model.state import State

from ..device.choosing import Logits, RunOptions
from ..device.cpu_machine import CpuMachine
from ..device.machine import Machine
from .backend import Backend, Counts, Handle, Outcome
from .cpu_backend import CpuBackend
from .job import Job

SLICE_TOKENS = 8  # tokens generated in a slice on a machine, before another session may have it
SLICE_PROMPT = 64  # prompt tokens ingested in a slice


class MachineBackend:
    """One job per step on a machine that holds one session; states are swapped when jobs take turns."""

    most = 1

    def __init__(self, machine: Machine, reopen: Callable[[], Machine], eos: int | None):
        self._machine, self._reopen, self._eos = machine, reopen, eos
        self._on_device: Handle | None = None
        self._swaps = 0

    def open(self, state: State | None) -> Handle:
        return Handle(state)

    def ingested(self, handle: Handle) -> int:
        assert handle is self._on_device
        return self._machine.position

    def snapshot(self, handle: Handle) -> State:
        assert handle is self._on_device
        state = self._machine.read_state()
        state.pending = None
        return state

    def step(self, work):
        ((job, handle),) = work
        self._bring(handle)
        machine, counts = self._machine, Counts()
        due = list(job.due[:SLICE_PROMPT])
        whole = len(due) == len(job.due)
        outcome = Outcome(handed=len(due))
        scored = job.in_prompt and job.wish.scores_prompt
        if handle.foreseen and due:
            if machine.pending != due[0]:
                machine.replace_pending(due[0])
            due, handle.foreseen = due[1:], False
        if not (whole and job.wants_head):
            wanted = Logits.ALL if scored else Logits.NONE
            if due or machine.pending is not None:
                self._count(counts, result := machine.run(due, 0, None, None, RunOptions(None, wanted)))
                if scored:  # the newest token stays pending: nothing follows it, so its row is not needed
                    outcome.prompt_rows = result.logits
        elif scored or job.needs_host or (job.settings is not None and not machine.features.sampling):
            self._host_chooses(job, handle, due, scored, outcome, counts)
        else:
            most = min(job.left, SLICE_TOKENS)
            result = machine.run(due, most, self._eos, None, RunOptions(job.settings, Logits.NONE))
            self._count(counts, result)
            outcome.tokens = result.tokens
            outcome.handed += len(result.tokens)
        counts.swaps, self._swaps = self._swaps, 0
        return [outcome], counts

    def _host_chooses(self, job, handle, due, scored, outcome, counts) -> None:
        logits = job.needs_logits or scored
        wanted = Logits.ALL if scored else Logits.GENERATED if logits else Logits.NONE
        result = self._machine.run(due, 1, None, None, RunOptions(None, wanted))
        self._count(counts, result)
        handle.foreseen = True
        outcome.chosen = result.tokens[-1]
        if logits:
            outcome.logits = present(result.logits)[-1]
            outcome.chosen = None if job.needs_logits else outcome.chosen
        if scored:
            outcome.prompt_rows = result.logits

    def _bring(self, handle: Handle) -> None:
        """Put the handle's session on the machine."""
        if self._on_device is handle:
            return
        if self._on_device is not None:
            self._on_device.state = self._machine.read_state()
            self._swaps += 1
        self._on_device = None
        self._machine.reset()
        if handle.state is not None:
            self._machine.write_state(handle.state)
            handle.state = None
        self._on_device = handle

    def drop(self, handle: Handle) -> None:
        if self._on_device is handle:
            self._on_device = None

    def restart(self) -> None:
        self._on_device = None
        try:
            self._machine.close()
        finally:
            self._machine = self._reopen()

    def close(self) -> None:
        self._machine.close()

    @staticmethod
    def _count(counts: Counts, result) -> None:
        counts.passes += result.passes
        counts.heads += len(result.tokens)
        counts.active = result.active if counts.active is None else counts.active + result.active
        if result.cycles is not None:
            counts.cycles += result.cycles.total
        if result.drafts is not None:
            counts.drafted += result.drafts.proposed
            counts.accepted += result.drafts.accepted
        if result.bytes_read is not None:
            counts.bytes_read = (counts.bytes_read or 0) + sum(result.bytes_read.values())


def backend_for(machine: Machine, reopen: Callable[[], Machine], eos: int | None, most: int) -> Backend:
    """The backend of an opened machine; `reopen` opens it again after a fault."""
    if isinstance(machine, CpuMachine):

        def reopened() -> Engine:
            again = reopen()
            assert isinstance(again, CpuMachine)
            return again.engine

        return CpuBackend(machine.engine, reopened, min(most, CHUNK))
    return MachineBackend(machine, reopen, eos)


def check_wish(machine: Machine, job: Job) -> None:
    """A `UserError` unless the machine can do what the job asks for."""
    features = machine.features
    needs = job.needs_logits and (job.settings is None or job.needs_host or not features.sampling)
    if needs and not features.logits:
        raise UserError(
            f"the device {machine.name} gives no logits back, so it can neither sample nor score; "
            "use temperature 0 and no logprobs"
        )
