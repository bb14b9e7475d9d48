"""The mailbox of a run, from bytes to names (hw.interface has the place of each word)."""

from dataclasses import dataclass

import numpy as np

from symlight.base.errors import DeviceFault
from symlight.hw.interface import (
    COUNTERS,
    MAILBOX,
    MAILBOX_MAGIC,
    Counter,
    ErrorCode,
    Phase,
    Status,
    StopReason,
    Traffic,
)
from symlight.model.config import ModelShape
from symlight.model.reference import SITES

from .card import RESET
from .machine import Cycles

BYTES = 4 * MAILBOX["counters"] + 8 * COUNTERS


@dataclass(frozen=True)
class Mailbox:
    """What the kernel reports at the end of a run."""

    run_id: int
    status: int
    stop_reason: int
    n_tokens: int
    error: int
    error_channel: int
    error_address: int
    position: int
    pending: int | None
    passes: int
    build_id: int
    counters: np.ndarray  # uint64 [COUNTERS]

    @classmethod
    def decode(cls, raw: bytes, run_id: int, reset: str = RESET) -> "Mailbox":
        """Read the mailbox of run `run_id`; anything else in its place is a `DeviceFault`, which says how to
        `reset` the device (host.device.card.KernelCard)."""
        start = 4 * MAILBOX["counters"]
        words = [int(word) for word in np.frombuffer(raw[:start], "<u4")]
        if words[MAILBOX["magic"]] != MAILBOX_MAGIC or words[MAILBOX["run_id"]] != run_id:
            raise DeviceFault(
                f"the device says run {run_id} is done, but its mailbox holds "
                f"{words[MAILBOX['magic']]:#010x} of run {words[MAILBOX['run_id']]}: the results are stale; "
                f"{reset} and start again"
            )
        build = words[MAILBOX["build_id"] : MAILBOX["build_id"] + 4]
        plain = (
            "run_id",
            "status",
            "stop_reason",
            "n_tokens",
            "error",
            "error_channel",
            "error_address",
            "position",
            "passes",
        )
        return cls(
            **{name: words[MAILBOX[name]] for name in plain},
            pending=words[MAILBOX["pending"]] if words[MAILBOX["has_pending"]] else None,
            build_id=sum(word << 32 * i for i, word in enumerate(build)),
            counters=np.frombuffer(raw[start:BYTES], "<u8"),
        )

    @property
    def ok(self) -> bool:
        return self.status == Status.OK and self.stop_reason != StopReason.FAULT

    def counter(self, index: int) -> int:
        return int(self.counters[index])

    def cycles(self) -> Cycles:
        phases = {}
        for phase in Phase:
            first = Counter.PHASE_CYCLES + 2 * phase
            phases[phase.name.lower()] = (self.counter(first), self.counter(first + 1))
        return Cycles(
            self.counter(Counter.TOTAL_CYCLES),
            self.counter(Counter.PROMPT_CYCLES),
            self.counter(Counter.DECODE_CYCLES),
            phases,
        )

    def bytes_read(self, beat_bytes: int) -> dict[str, int]:
        """Bytes of all channels by operation."""
        return {kind.name.lower(): self.counter(Counter.READ_BEATS + kind) * beat_bytes for kind in Traffic}

    def active(self, shape: ModelShape) -> np.ndarray:
        """Nonzero inputs of the event sites, int64 [layers, 4]."""
        count = shape.layers * len(SITES)
        return (
            self.counters[Counter.ACTIVE : Counter.ACTIVE + count]
            .astype(np.int64)
            .reshape(shape.layers, len(SITES))
        )

    def fault(self, watchdog: int, reset: str) -> str:
        """One sentence about what went wrong and what to do; `reset` as in `decode`."""
        where = (
            f"(channel {self.error_channel}, address {self.error_address:#x}); "
            "reset the session and run again, and check the card if it repeats"
        )
        sentences: dict[int, str] = {
            ErrorCode.READ_RESPONSE: f"a memory read failed {where}",
            ErrorCode.WRITE_RESPONSE: f"a memory write failed {where}",
            ErrorCode.WATCHDOG: f"the run took more than {watchdog} cycles and the kernel's watchdog stopped "
            "it; generate fewer tokens a run or give a larger --watchdog",
            ErrorCode.BAD_COMMAND: "the kernel does not know the command; "
            "kernel and driver are of different releases",
            ErrorCode.NOT_LOADED: "the kernel has no model loaded; open the device again",
            ErrorCode.EMPTY_INPUT: "nothing to run: the prompt is empty and no token is pending",
            ErrorCode.SESSION_FULL: "the session is full; reset it and start a new one",
            ErrorCode.BAD_TOKEN: f"token {self.error_address} of the prompt is outside the model's "
            "vocabulary",
            ErrorCode.STUCK_PORT: f"memory port m_axi_hbm{self.error_channel:02d} never answered, and the "
            f"kernel takes no more work; {reset}, and check the link if it repeats",
            ErrorCode.NEEDS_RESET: "an earlier run failed; reset the session and start again",
        }
        unknown = (
            f"the kernel reports error {self.error} (status {self.status}), which this release does not know"
        )
        return sentences.get(self.error, unknown)
