"""What the generator builds: the size of one accelerator, and presets of cards.

An `Engine` is built for maximal dimensions; any package whose layout fits (hw.compiler.layout checks it)
runs on it.
"""

from dataclasses import asdict, dataclass, fields, replace

from symlight.base.errors import UserError

JOINED = 4  # least columns of a cut on many channels: so many neighbours never answer one drain request
FEW_CHANNELS = 8  # up to which a cut may have any number of columns


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Dimensions of a kernel. Depths are powers of two; widths follow from `lanes`."""

    channels: int  # HBM pseudo-channels, one AXI port each
    # multiply-accumulate lanes of a channel = bytes of a beat = elements of a vector word
    lanes: int = 32
    # accumulator words of a lane group (beats of one slice, all operations in flight)
    accumulators: int = 32
    vector_words: int = 128  # words of a channel's vector buffer
    read_beats: int = 512  # read FIFO of a channel, beats
    item_depth: int = 128  # gathered (value) items between address and data side
    kv_beats: int = 2048  # KV staging of a channel, beats of k and v (two layers)
    resident_beats: int = 8640  # the same where the whole ring is resident
    kv_inflight: int = 48  # KV beats in flight while weights may be demanded
    query_words: int = 16  # words of q a channel's heads may need
    width_words: int = 32  # words of a residual-stream vector
    state_words: int = 512  # words of decay state, all layers
    parameter_words: int = 4096  # words of on-chip parameters, 48 bits an element
    table_entries: int = 512  # operations of a pass
    heads: int = 16  # attention heads
    kv_resident: bool = False  # ring on chip: KV is read from HBM in the pass behind a restore only
    fixed_gather: str = "runtime"  # "runtime", "dense" or "active": weight rows at event sites
    fixed_kv: str = "runtime"  # "runtime", "full" or "valid": ring slots that are loaded
    clock_mhz: int = 175  # kernel clock

    def __post_init__(self):
        if not 1 <= self.channels <= 32:
            raise UserError(f"engine: channels = {self.channels} is outside 1..32")
        if self.lanes not in (8, 16, 32, 64):
            raise UserError(f"engine: lanes = {self.lanes} is not 8, 16, 32 or 64")
        for name in (
            "accumulators",
            "vector_words",
            "read_beats",
            "item_depth",
            "query_words",
            "width_words",
            "state_words",
            "parameter_words",
            "table_entries",
            "heads",
        ):
            value = getattr(self, name)
            if value < 2 or value & (value - 1):
                raise UserError(f"engine: {name} = {value} is not a power of two")
        for name in ("kv_beats", "resident_beats"):
            value = getattr(self, name)
            if value < 2 or value % 2:
                raise UserError(f"engine: {name} = {value} is not even: keys and values take half of it each")
        if self.fixed_gather not in ("runtime", "dense", "active"):
            raise UserError(f"engine: fixed_gather = {self.fixed_gather!r} is not runtime, dense or active")
        if self.fixed_kv not in ("runtime", "full", "valid"):
            raise UserError(f"engine: fixed_kv = {self.fixed_kv!r} is not runtime, full or valid")

    @property
    def stage_beats(self) -> int:
        """Beats of each half of a channel's KV staging: one holds keys, one values."""
        return self.kv_beats // 2

    @property
    def beat_bytes(self) -> int:
        """Bytes of an AXI data beat; a lane takes one byte of it."""
        return self.lanes

    @property
    def matrix_bits(self) -> int:
        """Bits of a lane's accumulators: a byte times a byte for every element of a full vector buffer."""
        return _sum_bits(self.vector_words * self.lanes)

    @property
    def head_bits(self) -> int:
        """Bits of a lane's sum in the decoding head, whose input is the residual stream and the prior."""
        return _sum_bits(2 * self.width_words * self.lanes)

    @property
    def joined(self) -> int:
        """Neighbouring channels of which one at most answers a drain request: the least columns of a cut."""
        return JOINED if self.channels > FEW_CHANNELS else 1

    @property
    def side_channels(self) -> int:
        """Channels that hold embedding rows: the largest power of two that fits."""
        return 1 << (self.channels.bit_length() - 1)

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Engine":
        known = {f.name for f in fields(cls)}
        if set(data) != known:
            raise UserError(f"engine: fields {sorted(set(data) ^ known)} are unknown or missing")
        return cls(**data)


def _sum_bits(terms: int) -> int:
    """Bits of a signed sum of `terms` products of two signed bytes, each at most 2^14."""
    return (terms << 14).bit_length() + 1


_SIM = Engine(
    channels=4,
    vector_words=64,
    accumulators=32,
    read_beats=256,
    kv_beats=1024,
    resident_beats=2048,
    width_words=8,
    state_words=64,
    parameter_words=512,
    table_entries=64,
    query_words=8,
)

# ULX3S: one channel, sized for the demo model (docs/board.md); the clock is what place and route reaches.
_ULX3S = Engine(
    channels=1,
    lanes=8,
    accumulators=128,
    vector_words=128,
    read_beats=64,
    item_depth=64,
    kv_beats=1024,
    resident_beats=8192,
    query_words=16,
    width_words=16,
    state_words=64,
    parameter_words=1024,
    table_entries=32,
    heads=4,
    clock_mhz=50,
)

CARDS = {
    "sim2": replace(_SIM, channels=2, kv_beats=2048),
    "sim4": _SIM,
    "sim6": replace(_SIM, channels=6),
    "sim8": replace(_SIM, channels=8),
    "u50c16": Engine(channels=16, accumulators=64, kv_beats=4096, resident_beats=17280),
    "u50c28": Engine(channels=28, resident_beats=11520),
    "u50c": Engine(channels=32),
    "ulx3s": _ULX3S,
}

# Gather and KV mode of each build; "resident-kv" also keeps the ring on chip.
BUILDS = {
    "resident-dense": {"fixed_gather": "dense", "fixed_kv": "full"},
    "sparse-gather": {"fixed_gather": "active", "fixed_kv": "full"},
    "partial-kv": {"fixed_gather": "active", "fixed_kv": "valid"},
    "resident-kv": {"fixed_gather": "active", "fixed_kv": "valid", "kv_resident": True},
}


def card(name: str) -> Engine:
    """The engine of card preset `name`; a `UserError` lists the known ones."""
    if name not in CARDS:
        raise UserError(f"no card preset is called {name!r}; known: {', '.join(CARDS)}")
    return CARDS[name]


def build(engine: Engine, name: str) -> Engine:
    """`engine` with the switches of build `name` fixed."""
    if name not in BUILDS:
        raise UserError(f"no build is called {name!r}; known: {', '.join(BUILDS)}")
    switches = BUILDS[name]
    if switches.get("kv_resident"):
        return replace(engine, kv_beats=engine.resident_beats, **switches)
    return replace(engine, **switches)
