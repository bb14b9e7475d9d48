"""`python -m symlight.tools.bench_cpu.run`: measure the CPU engine and its peers; cpu.json, plot, table.

Every round measures every cell once, in workers of their own, so that a change of the machine's load meets
all alike. Figures are medians over the rounds; ratios are medians of the ratios within a round. What was
measured is kept in the build folder, so that a run that was interrupted, or had a time limit, goes on.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import symlight
from symlight.base.cache import room
from symlight.base.files import write_whole
from symlight.base.provenance import commit
from symlight.cpu.layout import matrix_sizes
from symlight.host.bench import table
from symlight.model.package import Package, load_package

from .cells import CELLS, Cell, Round
from .report import figures, plot, write_table

HERE = Path(__file__).parent
WAIT = 600  # seconds for an answer


class Worker:
    """A process that answers requests (worker.py)."""

    def __init__(self, command: list[str]):
        self._command = command
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout
        self.requests: list[str] = self._read()["ready"]

    def _read(self) -> dict:
        line = self._output.readline()
        if not line:
            raise RuntimeError(f"{self._command[:3]} ended with status {self._process.wait()}")
        answer: dict = json.loads(line)
        return answer

    def ask(self, request: str, **arguments):
        """The answer to a request."""
        print(json.dumps({"request": request, **arguments}), file=self._input, flush=True)
        return self._read()["result"]

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait(WAIT)


Workers = dict[str, Worker | str]  # a text says why there is none


@contextmanager
def workers(package: Package, peers: str, build: Path, wanted: set[str]) -> Iterator[Workers]:
    """The wanted workers by name."""
    shape, sizes = package.shape, matrix_sizes(package.shape)
    of_layers = shape.layers * sum(a * b for name, (a, b) in sizes.items() if name not in ("prior", "fused"))
    of_head = sum(sizes[name][0] * sizes[name][1] for name in ("prior", "fused"))
    llama = [str(HERE / "llama_worker.py"), str(build / "llama-q8_0.gguf"), "llama"]
    weights = map(str, (of_layers, of_head, shape.layers, shape.width))
    model = json.dumps(shape.to_json())
    commands = {
        "ours": [sys.executable, "-m", "symlight.tools.bench_cpu.ours", str(package.path)],
        "llama": [peers, *llama, *weights],
        "rwkv7": [peers, str(HERE / "llama_worker.py"), str(build / "rwkv7-q8_0.gguf"), "rwkv7"],
        "torch_fp32": [peers, str(HERE / "torch_worker.py"), model, "fp32"],
        "torch_int8": [peers, str(HERE / "torch_worker.py"), model, "int8"],
    }
    with ExitStack() as stack:
        found: Workers = {}
        for name in sorted(wanted):
            command = commands[name]
            try:
                found[name] = worker = Worker(command)
                stack.callback(worker.close)
            except (RuntimeError, OSError) as error:
                if name == "ours":
                    raise
                found[name] = str(error)
        yield found


@dataclass
class Record:
    """What was measured so far, in `file`; `about` must stay the same from run to run."""

    file: Path
    about: dict
    rounds: list[Round] = field(default_factory=list)
    notes: dict[str, dict] = field(default_factory=dict)  # of the workers

    @classmethod
    def read(cls, file: Path, about: dict) -> "Record":
        """The record that is there, if it is of the same thing; else an empty one."""
        record = cls(file, about)
        with suppress(OSError, ValueError):
            known = json.loads(file.read_text(encoding="utf-8"))
            if known["about"] == about:
                record.rounds, record.notes = known["rounds"], known["notes"]
        return record

    def write(self) -> None:
        parts = {"about": self.about, "rounds": self.rounds, "notes": self.notes}
        write_whole(self.file, json.dumps(parts) + "\n")


def measure(
    found: dict[str, Worker | str], cells: list[Cell], rounds: int, record: Record, end: float
) -> bool:
    """Every cell once a round, unless it is in the record; False when the time ended before that."""
    for number in range(rounds):
        if number == len(record.rounds):
            record.rounds.append({})
        one = record.rounds[number]
        for cell in cells:
            worker = found[cell.worker]
            if isinstance(worker, str) or cell.name in one or (cell.once and number):
                continue
            if time.monotonic() > end:
                return False
            one[cell.name] = cell.seconds(worker.ask(cell.request, **cell.arguments))
            record.write()
            shown = {key: value for key, value in one[cell.name].items() if key != "tokens"}
            print(f"  round {number + 1} of {rounds}, {cell.name}: {shown}", file=sys.stderr)
    return True


def note_workers(found: Workers, record: Record) -> None:
    """What the workers say about themselves."""
    for name, worker in found.items():
        if isinstance(worker, str):
            record.notes[name] = {"missing": worker}
            continue
        note = {}
        if name != "ours":
            note["about"] = worker.ask("about")
        if "bytes" in worker.requests:
            note["bytes"] = worker.ask("bytes")
        record.notes[name] = note
    record.write()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks"))
    parser.add_argument("--build", type=Path, default=Path("build"), help="where the peers' models are kept")
    parser.add_argument("--model", help="package; default: the 194M package of the benchmark table")
    parser.add_argument(
        "--peers", default=sys.executable, help="Python that has llama-cpp-python, gguf, torch"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="measure the cells whose names match this expression")
    parser.add_argument("--readme", type=Path, help="page whose table is rewritten")
    parser.add_argument(
        "--limit",
        type=float,
        default=float("inf"),
        help="seconds; the same command then goes on",
    )
    given = parser.parse_args(arguments)
    for folder in (given.build, given.out):
        folder.mkdir(parents=True, exist_ok=True)
    package = load_package(given.model) if given.model else table.table_package(room(None, ""), table.MODEL)
    cells = [cell for cell in CELLS if re.search(given.only, cell.name)]
    about = {
        "commit": commit(),
        "version": symlight.__version__,
        "machine": f"{platform.machine()}, {_processor()}",
        "package": package.digest,
        "synthetic": package.meta.synthetic,
        "rounds": given.rounds,
        "cells_measured": given.only or "all",
    }
    record = Record.read(given.build / "cpu-rounds.json", about)
    end = time.monotonic() + given.limit
    with workers(package, given.peers, given.build, {cell.worker for cell in cells}) as found:
        complete = measure(found, cells, given.rounds, record, end)
        note_workers(found, record)
    if not complete:
        raise SystemExit(f"the time ended; the same command goes on ({record.file})")
    notes = record.notes
    result = {
        **about,
        "load_average": round(os.getloadavg()[1], 1),
        "peers": {name: note["about"] for name, note in notes.items() if "about" in note},
        "peers_bytes": {name: note["bytes"] for name, note in notes.items() if "bytes" in note},
        "not_measured": {name: note["missing"] for name, note in notes.items() if "missing" in note},
        **figures(record.rounds),
    }
    write_whole(given.out / "cpu.json", json.dumps(result, indent=1) + "\n")
    plot(result, given.out / "cpu.png")
    if given.readme is not None:
        write_table(result, given.readme)
    record.file.unlink()
    print(json.dumps(result["ratios"], indent=1))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


if __name__ == "__main__":
    main()
