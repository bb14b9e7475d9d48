"""The knobs of the simulated card."""

from dataclasses import dataclass, field
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.tools import Progress

from .hbm import LEAST_BYTES, header_constants

WAVEFORMS = ("vcd", "fst")


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """What a simulated card has beyond pyxrt's names.

    Members
    -------
    hbm : str
        "timed": the DRAM of hbm.h with refresh; "ideal": a fixed short latency, one beat a cycle.
    bursts, bytes : int
        Read bursts and bytes that a memory port accepts in flight.
    latency_ns : int
        Latency outside the DRAM; by default an idle page hit takes about 198 ns.
    clock_mhz : int or None
        Kernel clock; None: that of the engine.
    seed : int
        Refresh phases and back-pressure.
    back_pressure : float
        Probability that a port is not ready (or holds back its answer) in a cycle.
    hbm_settings : dict
        Further parameters of hbm.h by name.
    assertions : bool
        Of the build: with the kernel's assertions.
    threads : int or None
        That simulate the card; None: two for a kernel of 16 channels or more, where there are two processors.
        The cycles are the same with any number.
    optimise : str
        Of the compiler (build.build_model).
    trace : Path or None
        Waveform file to write (FILE.vcd or FILE.fst), from the loading of the kernel on.
    traceable : str or None
        Built with trace in this format ("vcd" or "fst"), so that `Model.trace` can begin later.
    cache : Path or None
        Folder of built simulators; None: that of the user.
    progress : callable(stage, done, total)
        Told of the build's stages, then of "simulate" with the cycles of the run; None: silent.
    """

    hbm: str = "timed"
    bursts: int = header_constants()["bursts"]
    bytes: int = header_constants()["bytes"]
    latency_ns: int = header_constants()["latency"]
    clock_mhz: int | None = None
    seed: int = 1
    back_pressure: float = 0.0
    hbm_settings: dict[str, int] = field(default_factory=dict)
    assertions: bool = True
    threads: int | None = None
    optimise: str = "-O3"
    trace: Path | None = None
    traceable: str | None = None
    cache: Path | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.hbm not in ("timed", "ideal"):
            raise UserError(f"simulation options: hbm = {self.hbm!r} is not timed or ideal")
        if not 0 <= self.back_pressure < 1:
            raise UserError(f"simulation options: back_pressure = {self.back_pressure} is outside 0..1")
        if self.threads is not None and self.threads < 1:
            raise UserError(f"simulation options: threads = {self.threads}; give one or more")
        if self.waveform not in (None, *WAVEFORMS):
            raise UserError(
                f"simulation options: {self.trace or self.traceable} names no waveform format; "
                f"give a file that ends with {' or '.join(f'.{one}' for one in WAVEFORMS)}"
            )
        if self.bursts < 1 or self.bytes < LEAST_BYTES:
            raise UserError(
                f"simulation options: {self.bursts} bursts, {self.bytes} bytes in flight are too few"
            )

    @property
    def waveform(self) -> str | None:
        """Format of the waveform files that the simulator is built for; None: it writes none."""
        return self.traceable if self.trace is None else self.trace.suffix.removeprefix(".")

    def settings(self) -> dict[str, int]:
        """Parameters of hbm.h."""
        stall = round(self.back_pressure * 256)
        return {
            "ideal": int(self.hbm == "ideal"),
            "bursts": self.bursts,
            "bytes": self.bytes,
            "latency": self.latency_ns,
            **{f"{channel}_stall": stall for channel in ("ar", "r", "aw", "w", "b")},
            # noise on idle payloads belongs to checking, and costs a little speed
            "junk": int(self.assertions),
            **self.hbm_settings,
        }
