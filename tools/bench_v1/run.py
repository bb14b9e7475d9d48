"""`make bench-cpu-v1`: measures, and writes benchmarks/cpu-v1.json.

All engines of a comparison live beside each other and take turns of a few tokens, so that a change of the
machine's load meets all of them alike. Results are medians of the turns, and ratios come first.
"""

import contextlib
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import Popen

import click

from symlight.base.files import write_whole
from symlight.base.process import started
from symlight.base.provenance import commit
from symlight.model.v1.config import V1_08B
from symlight.model.v1.package import V1Meta, load_v1, save_v1
from symlight.model.v1.synthetic import Densities, tensors

from .peers import PEERS, write_gguf

PROMPT = 10  # tokens of the paper's prompt, with the beginning
TURN = 10
PREFILLS = (16, 64, 128, 256, 512)
PAPER = {
    "decode_over_TinyLlama-1.1B": 1.39,
    "decode_over_Falcon3-1B": 2.01,
    "decode_over_Qwen2.5-1.5B": 2.33,
    "decode_over_Qwen2.5-0.5B": 0.69,
    "threads_2_over_1": 1.73,
    "prefill_512_over_decode": 1.32,
    "int8_over_plain_fp32": 2.09,
    "vector_fp32_over_plain_fp32": 1.55,
    "int8_over_vector_fp32": 1.35,
    "peak_bytes": 1175.9e6,
}


class Engine:
    """A worker process."""

    def __init__(self, process: Popen):
        assert process.stdin and process.stdout
        self._input, self._output = process.stdin, process.stdout
        self._answer()

    def ask(self, command: str, count: int = 0) -> dict:
        self._input.write(f"{command} {count}\n")
        self._input.flush()
        return self._answer()

    def _answer(self) -> dict:
        line = self._output.readline()
        if not line:
            raise click.ClickException("an engine under test ended early; its message is above")
        answer: dict = json.loads(line)
        return answer


@contextlib.contextmanager
def engines(commands: dict[str, tuple]) -> Iterator[dict[str, Engine]]:
    """The workers of `commands`, by the same names."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name, command in commands.items():
            words = [sys.executable, "-m", "symlight.tools.bench_v1.worker", *map(str, command)]
            running[name] = Engine(stack.enter_context(started(words, Path.cwd(), environment=os.environ)))
        yield running


@dataclass
class Results:
    """What was measured; speeds are medians in tokens a second."""

    ratios: dict[str, float] = field(default_factory=dict)
    ratios_processor_time: dict[str, float] = field(
        default_factory=dict
    )  # of one thread: other load leaves it
    load_average: float = 0.0  # of the last minute, at the end: above the threads in use, others were running
    decode: dict[str, float] = field(default_factory=dict)
    prefill: dict[str, dict[str, float]] = field(default_factory=dict)  # by threads, by length
    evolution: dict[str, float] = field(default_factory=dict)  # of the processor's time
    peak_bytes: dict[str, int] = field(default_factory=dict)
    weight_bytes: dict[str, int] = field(default_factory=dict)
    densities: dict[str, float] = field(default_factory=dict)
    read_bytes_per_second: float = 0.0
    tokens: dict[str, int] = field(default_factory=dict)  # decoded by every engine, by part
    bandwidth_share: float = 0.0  # weight bytes that decoding reads a second, over the line above


@dataclass
class Speeds:
    """Tokens a second of every turn, by engine: of the clock, and of the processor's time."""

    clock: dict[str, list[float]]
    processor: dict[str, list[float]]

    def ratio(self, one: str, other: str) -> float:
        """The median over turns of one engine's speed over the other's in the same turn."""
        return paired(self.clock, one, other)


def decode_in_turns(running: dict[str, Engine], tokens: int, watch=None) -> Speeds:
    """Decode `tokens` with every engine, in turns; `watch()` is called after each turn."""
    for engine in running.values():
        engine.ask("start", PROMPT)
    speeds = Speeds({name: [] for name in running}, {name: [] for name in running})
    for turn in range(-1, tokens // TURN):  # the first warms up
        for name, engine in running.items():
            took = engine.ask("decode", TURN if turn >= 0 else 2)
            if turn >= 0:
                speeds.clock[name].append(TURN / took["seconds"])
                speeds.processor[name].append(TURN / took["processor_seconds"])
        if watch is not None:
            watch()
    return speeds


def paired(speeds: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(a / b for a, b in zip(speeds[one], speeds[other], strict=True))


def medians(speeds: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(statistics.median(values), 3) for name, values in speeds.items()}


def against_peers(package: Path, files: dict[str, Path], results: Results, tokens: int) -> None:
    """Decode speed with one thread, and memory."""
    commands = {"v1": ("v1", package, 1)} | {name: ("llama", file, 1) for name, file in files.items()}
    with engines(commands) as running:
        read: list[float] = []
        speeds = decode_in_turns(
            running, tokens, lambda: read.append(running["v1"].ask("read")["bytes_per_second"])
        )
        results.decode |= medians(speeds.clock)
        for name in files:
            results.ratios[f"decode_over_{name}"] = speeds.ratio("v1", name)
            results.ratios_processor_time[f"decode_over_{name}"] = paired(speeds.processor, "v1", name)
        tcam, down = running["v1"].ask("density")["density"]
        results.densities |= {"tcam": tcam, "down": down}
        results.read_bytes_per_second = statistics.median(read)
        shape = load_v1(package).shape
        square, ffn = shape.width**2, shape.width * shape.ffn
        touched = shape.layers * (square * (4 + tcam) + ffn * (1 + down))
        touched += shape.multiply_accumulates - shape.layers * (5 * square + 2 * ffn)
        results.weight_bytes["v1, a token"] = int(touched)
        shares = [
            speed * touched / limit for speed, limit in zip(speeds.processor["v1"], read[1:], strict=True)
        ]
        results.bandwidth_share = statistics.median(shares)
        results.peak_bytes |= {name: engine.ask("memory")["peak_bytes"] for name, engine in running.items()}


def threads_and_prefill(package: Path, results: Results, tokens: int) -> None:
    """One and two threads; chunks."""
    with engines({"1": ("v1", package, 1), "2": ("v1", package, 2)}) as running:
        read: dict[str, list[float]] = {name: [] for name in running}

        def watch() -> None:
            for name, engine in running.items():
                read[name].append(engine.ask("read")["bytes_per_second"])

        speeds = decode_in_turns(running, tokens, watch)
        results.decode["v1, 2 threads"] = medians(speeds.clock)["2"]
        results.ratios["threads_2_over_1"] = speeds.ratio("2", "1")
        results.ratios["read_bandwidth_2_over_1"] = paired(read, "2", "1")  # what decoding is limited by
        over_decode = []
        rates: dict[str, dict[str, list[float]]] = {name: {} for name in running}
        for _ in range(max(1, tokens // 30)):
            for length in PREFILLS:
                for name, engine in running.items():
                    rate = length / engine.ask("prefill", length)["seconds"]
                    rates[name].setdefault(str(length), []).append(rate)
            running["1"].ask("start", PROMPT)
            decode = TURN / running["1"].ask("decode", TURN)["seconds"]
            over_decode.append(rates["1"]["512"][-1] / decode)
        results.prefill = {name: medians(by_length) for name, by_length in rates.items()}
        results.ratios["prefill_512_over_decode"] = statistics.median(over_decode)


def evolution(packages: dict[str, Path], results: Results) -> None:
    """Layout and precision: plain C by row in float32, vectors and mixed layout in float32, int8."""
    variants = {
        "plain C, float32, all by row": ("v1", packages["float32"], 1, "plain", "row"),
        "vectors, float32, all by row": ("v1", packages["float32"], 1, "row"),
        "vectors, float32, mixed layout": ("v1", packages["float32"], 1),
        "vectors, int8, all by row": ("v1", packages["int8"], 1, "row"),
        "vectors, int8, mixed layout": ("v1", packages["int8"], 1),
    }
    for name, command in variants.items():  # one at a time: float32 weights fill the memory
        with engines({name: command}) as running:
            results.evolution |= medians(decode_in_turns(running, 2 * TURN).processor)
            results.peak_bytes[name] = running[name].ask("memory")["peak_bytes"]
    plain, mixed, int8 = (
        results.evolution[f"{name}"]
        for name in (
            "plain C, float32, all by row",
            "vectors, float32, mixed layout",
            "vectors, int8, mixed layout",
        )
    )
    results.ratios |= {
        "vector_fp32_over_plain_fp32": mixed / plain,
        "int8_over_plain_fp32": int8 / plain,
        "int8_over_vector_fp32": int8 / mixed,
    }


def make_packages(work: Path, kinds: tuple[str, ...]) -> dict[str, Path]:
    """Packages of the 0.8B shapes with random weights, by number format; made unless they are there."""
    found = {}
    for weights in kinds:
        found[weights] = work / f"v1-0.8b-{weights}"
        if not found[weights].exists():
            meta = V1Meta(name="v1-0.8b-random", weights=weights, synthetic=True, bos=1, eos=2)
            save_v1(found[weights], V1_08B.shape, meta, tensors(V1_08B.shape, Densities(), seed=1))
    return found


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("benchmarks"), show_default=True)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("build/bench-v1"),
    show_default=True,
    help="Folder of the random models: 6 GB, and 3.5 GB with the evolution.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=TURN),
    default=100,
    show_default=True,
    help="Decoded by every engine, as many as the paper decodes.",
)
@click.option(
    "--part",
    "parts",
    type=click.Choice(["peers", "threads", "evolution"]),
    multiple=True,
    default=("peers", "threads", "evolution"),
    help="What to measure; the rest is kept from the file that is there.",
)
def main(out: Path, work: Path, tokens: int, parts: tuple[str, ...]) -> None:
    """Measure the CPU paper's tables as ratios, with random weights in all models."""
    work.mkdir(parents=True, exist_ok=True)
    file = out / "cpu-v1.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    results = Results(**{name: known[name] for name in Results.__dataclass_fields__ if name in known})
    int8 = make_packages(work, ("int8",))

    def keep() -> None:
        results.load_average = os.getloadavg()[0]
        about = {"commit": commit(), "processor": _processor(), "paper": PAPER}
        write_whole(file, json.dumps({**about, **asdict(results)}, indent=2) + "\n")

    if "peers" in parts:
        files = {peer.name: write_gguf(peer, work / f"{peer.name}.gguf") for peer in PEERS}
        results.weight_bytes |= {f"{peer.name}, a token": peer.bytes_a_token for peer in PEERS}
        against_peers(int8["int8"], files, results, tokens)
        results.tokens["peers"] = tokens
        keep()
    if "threads" in parts:
        threads_and_prefill(int8["int8"], results, tokens)
        results.tokens["threads"] = tokens
        keep()
    if "evolution" in parts:
        evolution(int8 | make_packages(work, ("float32",)), results)
        keep()
    for name, ratio in results.ratios.items():
        click.echo(f"{name}: {ratio:.2f} (paper {PAPER.get(name, float('nan')):.2f})")


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
