"""Worker: the CPU engine. `python -m symlight.tools.bench_cpu.ours PACKAGE`"""

import sys
import time
from statistics import median

import numpy as np

from symlight.cpu.drafts import MOST, NgramDrafts
from symlight.cpu.engine import Engine, Fed, Feed, Session, Undo, Want
from symlight.cpu.isa import find
from symlight.cpu.layout import BY_ROW, MATRICES
from symlight.cpu.library import Library
from symlight.cpu.store import stored_weights
from symlight.cpu.weights import Weights
from symlight.host.device.choosing import PLAIN
from symlight.host.device.cpu_machine import CpuMachine, Run
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.host.device.packages import open_any, open_package
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.model.package import load_package

from .worker import answer, seconds_of

LAYOUTS = {"mixed": BY_ROW, "rows": frozenset(MATRICES), "columns": frozenset()}
QUOTING = (  # the text of a public-domain book, and its beginning once more: what follows can be copied
    "And God said, Let there be light: and there was light. And God saw the light, that it was good: and God "
    "divided the light from the darkness.\nAnd God said, Let there be light: and there was light. And God saw"
)


class Given(Run):
    """A run whose tokens are given: its passes are those of a model that writes this text itself."""

    def __init__(self, text: list[int], *arguments):
        super().__init__(*arguments)
        self._text = text

    def _chosen(self, fed: Fed, index: int, position: int) -> int:
        return self._text[len(self.tokens) + index]


class Ours:
    """Engines over one package, by layout, threads, and whether the rows of zeros are read."""

    def __init__(self, path: str):
        self._package = load_package(path, lazy=True)
        self._library = Library(find(None))
        self._weights: dict[str, Weights] = {}
        self._engines: dict[tuple, Engine] = {}
        self._prompt = np.random.default_rng(1).integers(0, self._package.shape.vocab, 512).tolist()

    def engine(self, layout: str = "mixed", threads: int = 1, every_row: bool = False) -> Engine:
        key = (layout, threads, every_row)
        if layout not in self._weights:
            package = self._package
            self._weights[layout] = stored_weights(
                package.digest,
                package.shape,
                package.numerics,
                lambda: package.model,
                self._library,
                by_row=LAYOUTS[layout],
            )
        if key not in self._engines:
            self._engines[key] = Engine(
                self._weights[layout], threads, library=self._library, every_row=every_row
            )
        return self._engines[key]

    def bandwidth(self, threads: int) -> float:
        """Bytes per second of reading all weights."""
        engine, read = self.engine(threads=threads), []
        seconds = seconds_of(lambda: read.append(engine.read_weights()), 5, threads)
        return read[0] / median(seconds)

    def decode(self, prefix: int, tokens: int, **engine) -> dict:
        """Seconds of decode passes after `prefix` tokens, and the bytes of weights of one."""
        machine = self.engine(**engine)
        session = Session.new(machine.shape)
        machine.run([Feed(session, self._prompt[: prefix - 1])])
        token = [self._prompt[prefix - 1]]

        def step() -> None:
            token[0] = machine.run([Feed(session, token, Want.LAST)])[0].tokens[0]

        before = sum(read for _, read in machine.profile().values())
        seconds = seconds_of(step, tokens, machine.threads)
        read = sum(read for _, read in machine.profile().values()) - before
        return {"seconds": seconds, "bytes": read / tokens}

    def prefill(self, prefix: int, threads: int) -> list[float]:
        """Seconds a token of ingesting a prompt."""
        machine = self.engine(threads=threads)
        prompt = self._prompt[:prefix]
        once = seconds_of(
            lambda: machine.run([Feed(Session.new(machine.shape), prompt, Want.LAST)]), 1, threads
        )
        return [seconds / prefix for seconds in once]

    def sessions(self, count: int, tokens: int, threads: int) -> list[float]:
        """Seconds a token of several sessions that advance together."""
        machine = self.engine(threads=threads)
        sessions = [Session.new(machine.shape) for _ in range(count)]
        machine.run([Feed(one, self._prompt[i : i + 6]) for i, one in enumerate(sessions)])
        newest = self._prompt[:count]

        def step() -> None:
            feeds = [Feed(one, [token], Want.LAST) for one, token in zip(sessions, newest, strict=True)]
            newest[:] = [fed.tokens[0] for fed in machine.run(feeds)]

        return [seconds / count for seconds in seconds_of(step, tokens, threads)]

    def given(self, tokens: int, drafts: bool) -> dict:
        """The text of `Quoting` on this model, whose random weights would write none: seconds a token."""
        machine, quoting = self.engine(), Quoting()
        text = quoting.run(tokens, False)["tokens"]
        session = Session.new(machine.shape)
        guesses = NgramDrafts() if drafts else None
        run = Given(text, machine, session, PLAIN, guesses, Undo(machine.shape, MOST + 1) if drafts else None)
        *ingested, session.state.pending = quoting.prompt
        run.ingest(ingested)
        if guesses is not None:
            guesses.append(quoting.prompt)
        (seconds,) = seconds_of(lambda: run.generate(tokens, None, None), 1, machine.threads)
        fared = None if run.drafts is None else run.drafts.to_json()
        return {"seconds": seconds / tokens, "drafts": fared, "tokens": run.tokens}

    def load(self) -> float:
        """Seconds from the package's path to an engine, with packed weights in the cache."""
        began = time.perf_counter()
        with OpenedDevice(DeviceOptions(device="cpu:1"), open_any(str(self._package.path), lazy=True)):
            return time.perf_counter() - began

    def golden(self, prefix: int, tokens: int, reference: bool) -> float:
        """Seconds of the golden model beside a run, whose tokens it is told (`HostMachine.guess`)."""
        prompt, engine = self._prompt[:prefix], CpuMachine(self.engine())
        known = engine.run(prompt, tokens, None).tokens
        machine = ReferenceMachine(self._package.model) if reference else engine
        machine.reset()
        machine.guess(known)
        return seconds_of(lambda: machine.run(prompt, tokens, None), 1, 1)[0]


class Quoting:
    """The shipped model on a text that quotes itself, with drafts and without."""

    def __init__(self):
        package = open_package("demo")
        engine = Engine(Weights.pack(package.model), 1)
        self._machines = {drafts: CpuMachine(engine, drafts=drafts) for drafts in (False, True)}
        self.prompt = package.encode(QUOTING)

    def run(self, tokens: int, drafts: bool) -> dict:
        """Seconds a token, and how the drafts fared."""
        machine = self._machines[drafts]
        machine.reset()
        machine.run(self.prompt, 0, None)
        results = []
        (seconds,) = seconds_of(lambda: results.append(machine.run([], tokens, None)), 1, 1)
        fared = results[0].drafts
        return {
            "seconds": seconds / tokens,
            "drafts": None if fared is None else fared.to_json(),
            "tokens": results[0].tokens,
        }


if __name__ == "__main__":
    ours, quoting = Ours(sys.argv[1]), Quoting()
    names = ("bandwidth", "decode", "prefill", "sessions", "given", "golden", "load")
    answer({name: getattr(ours, name) for name in names} | {"quoting": quoting.run})
