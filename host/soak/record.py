"""What a soak has done so far, in memory and as a file from which it goes on."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.json_file import read_object

from ..terminal.results import write_json

FORMAT = 1


@dataclass
class Counts:
    """Everything that is counted; a turn counts once it has been compared."""

    conversations: int = 0  # begun; the last one of a soak is cut where its limit is reached
    turns: int = 0
    single_turns: int = 0  # token by token
    empty_turns: int = 0  # without any token
    eos_stops: int = 0
    runs: int = 0
    passes: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    saves: int = 0
    loads: int = 0
    resets: int = 0
    state_probes: int = 0  # comparisons of the whole session state
    ring_wraps: int = 0  # times that a position came to be in the first slot after the anchors again
    wrapped_conversations: int = 0
    cycles: int = 0  # of the kernel; 0 where nothing is timed


@dataclass
class Record:
    """A soak's settings, counts and outcome.

    Members
    -------
    settings : dict
        What must be the same for the soak to go on: seed, package, device and build.
    counts : Counts
    seconds : float
        Of all sessions together.
    next_conversation : int
        Where the next session begins.
    sessions : int
        Processes that have worked on it.
    failure : str | None
        The first difference or fault, with its place.
    commit : str | None
        Of the sources of the latest session.
    """

    settings: dict
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    next_conversation: int = 0
    sessions: int = 0
    failure: str | None = None
    commit: str | None = None

    def to_json(self) -> dict:
        return {"soak": FORMAT, **asdict(self)}

    def line(self) -> str:
        """The outcome in one line."""
        counts, settings = self.counts, self.settings
        build = settings["build_id"]
        where = settings["device"] + (f" (build {build[:12]})" if build else "")
        outcome = "passed" if self.failure is None else "FAILED"
        return (
            f"soak {outcome}: {counts.turns:,} turns in {counts.conversations:,} conversations on {where}, "
            f"{counts.passes:,} passes, {counts.ring_wraps:,} ring wraps in "
            f"{counts.wrapped_conversations:,} conversations, {counts.state_probes:,} state probes, "
            f"{counts.saves:,} saves, {counts.loads:,} loads, {self.seconds:,.0f} s"
        )


def read_record(path: Path, settings: dict) -> Record:
    """The record that a soak with `settings` goes on from: that of the file, or a new one without a file."""
    try:
        content = read_object(path, "it is no record of a soak: remove it")
    except FileNotFoundError:
        return Record(settings)
    if content.get("soak") != FORMAT:
        raise UserError(f"{path} is not the record of a soak; give another file (--out)")
    record = _checked(path, content)
    if record.failure is not None:
        raise UserError(f"{path} records a failure ({record.failure}); remove it to start again")
    for name in {**settings, **record.settings}:
        ours, theirs = settings.get(name), record.settings.get(name)
        if ours != theirs:
            raise UserError(
                f"{path} is the record of another soak ({name} {theirs!r} instead of {ours!r}); "
                "give another file (--out), or remove it to start again"
            )
    return record


def _checked(path: Path, content: dict) -> Record:
    """The record of a file whose every field has its type."""
    wrong = UserError(f"{path} is not a whole record of a soak; remove it to start again")
    values = {name: value for name, value in content.items() if name != "soak"}
    text = (str, type(None))
    kinds: dict[str, type | tuple[type, ...]] = {
        "settings": dict,
        "counts": dict,
        "seconds": (int, float),
        "failure": text,
        "commit": text,
    }
    if set(values) != {item.name for item in fields(Record)}:
        raise wrong
    if not all(isinstance(value, kinds.get(name, int)) for name, value in values.items()):
        raise wrong
    counts = values["counts"]
    if set(counts) != {item.name for item in fields(Counts)}:
        raise wrong
    if not all(type(value) is int and value >= 0 for value in counts.values()):
        raise wrong
    return Record(**values | {"counts": Counts(**counts)})


def write_record(path: Path, record: Record) -> None:
    """Write it whole."""
    write_json(path, record.to_json())
