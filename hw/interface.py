"""The kernel as the host sees it: arguments, commands, the io buffer and the mailbox.

One table each; control registers, driver, simulated card and packaging derive from them
(docs/kernel-interface.md).
All words are 32-bit little endian.
"""

import enum
from dataclasses import dataclass

from symlight.model.sampling import CANDIDATES

KERNEL_NAME = "symlight"
MAILBOX_MAGIC = 0x534C5632  # "SLV2"
NO_EOS = 0x7FFFFFFF  # value of the `eos` argument that no token equals
CHANNEL_BITS = 5  # of a channel's number: a card has at most 32
LONG_WATCHDOG_SHIFT = 10  # 31 bits of cycles are 12 s at 175 MHz, of these units 3.5 h


class Command(enum.IntEnum):
    """Argument `command` of a run."""

    # read operation table and parameters from channel 0's image into the kernel, then as RESET
    LOAD = 1
    RESET = 2  # a new session: zero state, position 0, nothing pending
    GENERATE = 3  # ingest pending and prompt, generate n_new tokens (n_prompt may be 0: resume)
    DUMP = 4  # write membrane, decay state, position and pending to the io buffer
    RESTORE = 5  # read them back (the ring is restored by the host, in HBM)


class Flag(enum.IntFlag):
    """Argument `flags` of a run; a build that fixes a mode ignores its flag."""

    DENSE = 1  # read every weight row at event sites
    FULL_KV = 2  # load the whole ring
    LOGITS = 4  # write the logits of every evaluated head to the channels' buffers
    REPLACE_PENDING = 8  # forget the pending token: the prompt's first takes its place
    LONG_WATCHDOG = 16  # `watchdog` counts 2^LONG_WATCHDOG_SHIFT cycles
    SAMPLE = 32  # draw tokens with the arguments from `sample_scale` on
    CANDIDATES = 64  # write the largest logits and their ids for every generated token
    EVERY_HEAD = 128  # evaluate the head in every pass, prompt positions included


class Status(enum.IntEnum):
    """Mailbox word `status`."""

    OK = 1
    ERROR = 2


class StopReason(enum.IntEnum):
    """Mailbox word `stop_reason`."""

    NONE = 0  # the command generates no tokens
    LENGTH = 1
    EOS = 2
    FAULT = 3  # `error` says which


class ErrorCode(enum.IntEnum):
    """Mailbox word `error`."""

    NONE = 0
    READ_RESPONSE = 1  # an AXI read answered SLVERR or DECERR; error_channel and error_address say where
    WRITE_RESPONSE = 2  # the same for a write
    WATCHDOG = 3  # the run took more than `watchdog` cycles
    BAD_COMMAND = 4  # unknown command number
    NOT_LOADED = 5  # GENERATE, DUMP or RESTORE before a successful LOAD
    EMPTY_INPUT = 6  # GENERATE without pending token and without prompt
    SESSION_FULL = 7  # the position would pass 2^20
    BAD_TOKEN = 8  # a prompt id outside the vocabulary; error_address is the id
    NEEDS_RESET = 9  # a run before this one faulted; RESET, LOAD or RESTORE starts afresh
    STUCK_PORT = 10  # port error_channel never answered: until the card is programmed again nothing is done


@dataclass(frozen=True)
class Argument:
    """A kernel argument: `offset` in the AXI4-Lite map, `size` in bytes, its memory `port` or "" for a
    scalar."""

    name: str
    offset: int
    size: int
    port: str = ""


SAMPLER_ARGUMENTS = ("sample_scale", "sample_limit", "sample_top", "seed_low", "seed_high")


def arguments(channels: int) -> list[Argument]:
    """Kernel arguments in order. Pointers take 8 bytes and a reserved word."""
    names = ("command", "run_id", "n_prompt", "n_new", "eos", "flags", "watchdog", *SAMPLER_ARGUMENTS)
    table = [Argument(name, 0x10 + 8 * i, 4) for i, name in enumerate(names)]
    offset = 0x10 + 8 * len(names)
    pointers = [("io", "m_axi_hbm00")] + [(f"hbm{k:02d}", f"m_axi_hbm{k:02d}") for k in range(channels)]
    for name, port in pointers:
        table.append(Argument(name, offset, 8, port))
        offset += 12
    return table


CANDIDATES_BYTES = 8 * CANDIDATES  # of one token: a word of 64 bits each, logit below, id above


class Io:
    """Byte offsets within the io buffer (on the bank of channel 0)."""

    MAILBOX = 0x00000  # 4 KB
    STATE = 0x01000  # membrane, then decay state of every layer, words of int16
    PROMPT = 0x40000  # token ids, a word each
    TOKENS = 0x80000  # generated ids, a word each
    CANDIDATES = 0x100000  # of the last CANDIDATE_TOKENS tokens of a run, 8 bytes each
    CANDIDATE_TOKENS = 2048
    SIZE = CANDIDATES + CANDIDATE_TOKENS * CANDIDATES_BYTES
    MAX_PROMPT = (0x80000 - 0x40000) // 4
    MAX_NEW = (0xC0000 - 0x80000) // 4


# Mailbox header: word index of each field. Words 0..7 are written last, in one beat.
MAILBOX = {
    "magic": 0,
    "run_id": 1,
    "status": 2,
    "stop_reason": 3,
    "n_tokens": 4,
    "error": 5,
    "error_channel": 6,
    "error_address": 7,
    # words 8..15: state and build
    "position": 8,
    "pending": 9,
    "has_pending": 10,
    "passes": 11,
    "build_id": 12,  # build id: 4 words
    # words 16 ..: 64-bit counters, low word first; see Counter
    "counters": 16,
}
COUNTERS = 128  # 64-bit counters of the mailbox


class Phase(enum.IntEnum):
    """Operations of a pass as counted: cycles of phase p stream in counter 2p, hand-over in counter 2p +
    1."""

    EMBED = 0
    QKV = 1
    DECAY = 2
    ATTENTION = 3
    OUT = 4
    UP = 5
    DOWN = 6
    PRIOR = 7
    HEAD = 8
    CONTROL = 9


class Counter:
    """Indices of the mailbox's 64-bit counters."""

    PHASE_CYCLES = 0  # 2 * Phase + {0: stream, 1: hand-over}; 20 counters
    TOTAL_CYCLES = 20  # of the run, from start to the mailbox
    PROMPT_CYCLES = 21  # passes whose input token came from prompt or pending
    DECODE_CYCLES = 22  # passes whose input token was generated in this run
    PROMPT_PASSES = 23
    DECODE_PASSES = 24
    READ_BEATS = 32  # + Traffic
    ACTIVE = 48  # + statistic index of the operation (4 * layer + site): nonzero inputs
    SITES = ("qkv_in", "decay_in", "up_in", "down_in")


class Traffic(enum.IntEnum):
    """Kinds of read traffic a channel counts, in beats."""

    QKV = 0
    DECAY = 1
    OUT = 2
    UP = 3
    DOWN = 4
    PRIOR = 5
    HEAD = 6
    KV = 7
    EMBED = 8
    IO = 9
