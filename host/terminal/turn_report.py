"""What a turn looks like to a program (`--json`) and to a person (summary and `--stats`)."""

from rich.console import Console
from rich.table import Table

from symlight.model.reference import SITES

from ..device.machine import Machine
from ..device.session import Turn
from ..library.completion import Completion, Token
from .sampling_options import describe


def turn_json(done: Completion, machine: Machine, unknown: str = "") -> dict:
    """The object of `--json`. `text` is that of all tokens, also of those that complete a stop text; it is
    None without a tokenizer, and so is what the device does not measure. `logprobs` is None unless it was
    asked for. `unknown`: characters of the prompt that the tokenizer lacks."""
    turn, result = done.turn, done.turn.result
    scored = [token for token in done.tokens if token.logprob is not None]
    density = result.density(machine.shape)
    return {
        "device": machine.name,
        "prompt_tokens": turn.prompt,
        "unknown_characters": len(unknown),
        "tokens": result.tokens,
        "text": None if done.text is None else "".join(token.text or "" for token in done.tokens),
        "stop_reason": done.stop_reason,
        "sampling": done.sampling.to_json(),
        "seed": None if done.sampling.greedy else done.sampling.seed,
        "logprobs": [token_json(token) for token in scored] if scored else None,
        "cycles": None if result.cycles is None else result.cycles.to_json(),
        "bytes_read": result.bytes_read,
        "density": None
        if density is None
        else dict(zip(SITES, density.mean(axis=0).round(6).tolist(), strict=True)),
        "density_by_layer": None
        if density is None
        else [dict(zip(SITES, row, strict=True)) for row in density.round(6).tolist()],
        "passes": result.passes,
        "tokens_per_second": tokens_per_second(turn, machine),
        "drafts": None if result.drafts is None else result.drafts.to_json(),
        "verified": turn.verified,
        "verified_with": turn.verified_with,
    }


def token_json(token: Token) -> dict:
    """A token with its log-probability and its alternatives, likeliest first."""
    others = [{"id": other.id, "logprob": other.logprob} for other in token.alternatives or ()]
    return {"id": token.id, "position": token.position, "logprob": token.logprob, "top": others}


def tokens_per_second(turn: Turn, machine: Machine) -> float | None:
    """Tokens a second at the kernel clock: of the decode passes, or of the whole turn when it had none."""
    result, cycles = turn.result, turn.result.cycles
    if cycles is None or machine.clock_mhz is None:
        return None
    count, spent = (
        (result.decode_passes, cycles.decode) if result.decode_passes else (len(result.tokens), cycles.total)
    )
    return round(count * machine.clock_mhz * 1e6 / spent, 2) if count and spent else None


def print_summary(console: Console, done: Completion, machine: Machine) -> None:
    """A few lines below the generated text."""
    turn, result = done.turn, done.turn.result
    parts = [f"{len(result.tokens)} tokens ({done.stop_reason})", f"{len(turn.prompt)} prompt tokens"]
    if not done.sampling.greedy:
        parts.append(describe(done.sampling))
    if result.cycles is not None and result.passes:
        cycles = result.cycles.total / result.passes
        parts.append(f"{cycles:,.0f} cycles per pass over {result.passes} passes")
    rate = tokens_per_second(turn, machine)
    if rate is not None:
        kind = "simulated " if machine.name == "sim" else ""
        parts.append(f"{rate:,.1f} {kind}tokens/s at {machine.clock_mhz:g} MHz")
    speed = len(result.tokens) / turn.wall_seconds if turn.wall_seconds else 0.0
    parts.append(f"{turn.wall_seconds:.2f} s wall time ({speed:,.1f} tokens/s)")
    if result.drafts is not None and result.drafts.proposed:
        drafts = result.drafts
        parts.append(f"{drafts.accepted} of {drafts.proposed} drafted tokens accepted ({drafts.share:.0%})")
    console.print(" · ".join(parts), style="dim")
    if turn.verified:
        other = "integer reference" if turn.verified_with == "reference" else turn.verified_with
        console.print(f"bit-exact with the {other}", style="green")


def print_stats(console: Console, turn: Turn, machine: Machine) -> None:
    """Cycles by phase, bytes by operation, density by site."""
    result = turn.result
    passes = max(1, result.passes)
    if result.cycles is not None:
        table = Table("phase", "stream", "turnaround", "cycles per pass", title="cycles")
        counted = 0
        for name, (stream, gap) in result.cycles.phases.items():
            counted += stream + gap
            table.add_row(name, f"{stream:,}", f"{gap:,}", f"{(stream + gap) / passes:,.1f}")
        cycles = result.cycles
        table.add_row("outside the passes", "", "", f"{(cycles.total - counted) / passes:,.1f}")
        table.add_row(
            "total", f"prompt {cycles.prompt:,}", f"decode {cycles.decode:,}", f"{cycles.total / passes:,.1f}"
        )
        print_table(console, table, 1)
    if result.bytes_read is not None:
        table = Table("operation", "bytes", "bytes a pass", title="read from memory")
        for name, count in result.bytes_read.items():
            table.add_row(name, f"{count:,}", f"{count / passes:,.0f}")
        total = sum(result.bytes_read.values())
        table.add_row("total", f"{total:,}", f"{total / passes:,.0f}")
        print_table(console, table, 1)
    density = result.density(machine.shape)
    if density is not None:
        table = Table("layer", *SITES, title="density: share of nonzero inputs")
        for layer, row in enumerate(density):
            table.add_row(str(layer), *(f"{value:.3f}" for value in row))
        print_table(console, table, 0)


def phase_table(title: str, phases: dict[str, dict], cycles: float, bytes_read: dict | None = None) -> Table:
    """Stream and turnaround cycles of each operation, its share of the pass's `cycles`, and its bytes."""
    names = ("operation", "stream", "turnaround", "share", "bytes")
    table = Table(*(names if bytes_read else names[:-1]), title=title)
    for name, phase in phases.items():
        both = phase["stream"] + phase["hand_over"]
        row = [name, f"{phase['stream']:,.0f}", f"{phase['hand_over']:,.0f}", f"{both / cycles:.1%}"]
        table.add_row(*row, *([f"{bytes_read.get(name, 0):,.0f}"] if bytes_read else []))
    return table


def print_table(console: Console, table: Table, first_number: int) -> None:
    """Print a table whose columns from `first_number` on are numbers."""
    for column in table.columns[first_number:]:
        column.justify = "right"
    console.print(table)
