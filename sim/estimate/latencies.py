"""Latencies between the parts of the kernel, put together from what each part states. Nothing here is fitted.

Every time is the cycle in which a word, an address or a pulse is there; a latency is a difference of two.
"Gather" means a broadcast word at a channel's vector buffer.
"""

import gc
import warnings
from dataclasses import dataclass
from functools import cache

from amaranth.hdl import UnusedElaboratable

from symlight.hw.channel.attention import AttentionEngine
from symlight.hw.channel.channel import INPUT_REGISTERS, OUTPUT_REGISTERS, Channel
from symlight.hw.channel.fetch import Fetch
from symlight.hw.channel.gather import Gather
from symlight.hw.channel.lanes import LaneGroup
from symlight.hw.channel.ring.read_scheduler import AHEAD
from symlight.hw.config import Engine
from symlight.hw.kernel.parts import BUS_REGISTERS
from symlight.hw.sequencer import dispatch, tasks
from symlight.hw.sequencer import phase_counters as phase_counters
from symlight.hw.sequencer.store import Barrier
from symlight.hw.vector.event import Eventise, StepThreshold
from symlight.hw.vector.gelu import Gelu
from symlight.hw.vector.layernorm import LayerNormStatistics
from symlight.hw.vector.reduce import DrainReduce
from symlight.hw.vector.requantise import Requantise
from symlight.hw.vector.residual import ResidualPath
from symlight.hw.vector.unit import CAST_REGISTERS, DONE_REGISTERS, VectorUnit

MEMORY_READ = 1  # a word out of the spike or head input memory


@dataclass(frozen=True)
class Latencies:
    """Cycles, see `latencies`.

    Members
    -------
    enter, issue, leave, account, table : int
        Of the task runner (hw.sequencer.tasks, phase_counters).
    first_command : int
        From the start of a pass to the embedding's command at a channel's parts.
    command_address : int
        From there to its address on AR.
    side_word : int
        From an embedding beat on R to the vector unit's encoder, and its word to the broadcast path.
    cast, done : int
        From a path's word to the gather; from its last word to `done`.
    drain : int
        From a word operation to its drained word.
    event, step, gelu, mix, normalise, memory, embed : int
        From a drained word (normalise, memory: from the word operation; embed: from the embedding word) to
        the path's word.
    statistics : int
        From the last drained word to the pulse before the statistics.
    reciprocal : int
        Least cycles from the first denominator to the first numerator.
    row_address : int
        From a gather word to the address of its first row.
    item : int
        From a gather word to its first item at the lanes.
    beat : int
        From R to the lanes.
    operation, head : int
        From the last beat (or end marker) at the lanes to all channels done: MATRIX, HEAD.
    tile : int
        Least cycles from the last scales of a head tile to those of the next one.
    attention_start, weight, attention_end : int
        From the last word of v at the gather's input to the first staged read; k to weight; last read to all
        channels done.
    ahead : int
        Heads whose k may be read before their v.
    kv_command : int
        From a finished attention to the first address of the loads that it lets go.
    switch : int
        From the last address of an operation to the first of the next one, whose command waits for it.
    """

    enter: int
    issue: int
    leave: int
    account: int
    table: int
    first_command: int
    command_address: int
    side_word: int
    cast: int
    done: int
    drain: int
    event: int
    step: int
    gelu: int
    mix: int
    normalise: int
    memory: int
    embed: int
    statistics: int
    reciprocal: int
    row_address: int
    item: int
    beat: int
    operation: int
    head: int
    tile: int
    attention_start: int
    weight: int
    attention_end: int
    ahead: int
    kv_command: int
    switch: int


@cache
def latencies(engine: Engine) -> Latencies:
    """The latencies of a kernel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # parts are asked for their latencies only
        found = _latencies(engine)
        gc.collect()  # their warnings come when they go
    return found


def _latencies(engine: Engine) -> Latencies:
    queue = 1  # a shallow queue; hw.lib.queue.Queue.LATENCY
    reduce = DrainReduce(engine.channels, engine.lanes, joined=engine.joined).LATENCY
    drain = BUS_REGISTERS + Channel.DRAIN_LATENCY + reduce
    vector = VectorUnit(engine, drain_latency=drain)
    residual, lanes = ResidualPath(engine), LaneGroup(engine=engine)
    attention = AttentionEngine(engine=engine)
    to_barrier = OUTPUT_REGISTERS + Barrier.LATENCY
    return Latencies(
        enter=tasks.ENTER_CYCLES,
        issue=tasks.ISSUE_CYCLES,
        leave=tasks.LEAVE_CYCLES,
        account=phase_counters.ACCOUNT_CYCLES,
        table=tasks.TABLE_CYCLES,
        first_command=dispatch.FIRST_COMMAND + INPUT_REGISTERS + queue,
        command_address=Fetch.COMMAND_LATENCY,
        side_word=Fetch.BEAT_LATENCY
        + LaneGroup.SIDE_LATENCY
        + OUTPUT_REGISTERS
        + reduce
        + 1,  # assembled with its second beat
        cast=CAST_REGISTERS + BUS_REGISTERS + INPUT_REGISTERS,
        done=DONE_REGISTERS,
        drain=drain,
        event=Eventise.LATENCY,
        step=StepThreshold.LATENCY,
        gelu=Requantise.LATENCY + Gelu.LATENCY,
        mix=vector.FUSION_LATENCY,
        normalise=residual.NORMALISE_LATENCY,
        memory=MEMORY_READ,
        embed=residual.EMBED_LATENCY,
        statistics=Requantise.LATENCY
        + residual.SUM_LATENCY
        + LayerNormStatistics(engine.lanes, engine.width_words).LATENCY
        - LayerNormStatistics.SOON,
        reciprocal=vector.RECIPROCAL_LATENCY,
        row_address=Gather.LATENCY + 1 + Fetch.LATENCY,
        item=Gather.LATENCY + queue,
        beat=Fetch.BEAT_LATENCY,
        operation=LaneGroup.LATENCY + to_barrier,
        head=lanes.HEAD_LATENCY + to_barrier,
        tile=lanes.TILE_CYCLES,
        attention_start=attention.FIRST_READ,
        weight=attention.WEIGHT_LATENCY,
        attention_end=attention.END_LATENCY + to_barrier,
        ahead=AHEAD,
        kv_command=Fetch.LATENCY,
        switch=Fetch.LATENCY,
    )
