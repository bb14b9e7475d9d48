"""The kernel's units, and the signals that join more than one group of them."""

from amaranth.hdl import Instance, Module, ResetInserter, Signal

from ..channel.channel import Channel
from ..config import Engine
from ..control import Control
from ..counters import Counters
from ..mailbox import Mailbox, TokenWriter
from ..sequencer.argmax import Argmax
from ..sequencer.choice import TokenChoice
from ..sequencer.dispatch import Dispatcher
from ..sequencer.load import LoadUnit
from ..sequencer.session import Session
from ..sequencer.state_transfer import StateUnit
from ..sequencer.store import Barrier, OperationTable
from ..sequencer.tasks import TaskRunner
from ..sequencer.tokens import TokenLoop
from ..types import DrainRequest, broadcast_layout
from ..vector.reduce import DrainReduce
from ..vector.unit import VectorUnit

IDENTITY_MODULE = "symlight_identity"
BUS_REGISTERS = 1  # registers between the sequencer and the channels' inputs


class Parts:
    """Makes the units of a kernel, but for the channels, and adds them to `m` under the attributes' names.

    Parameters
    ----------
    m : Module
    engine : Engine
    build_id : int or None
        See `hw.top.Kernel`.

    Attributes
    ----------
    control, session, counters, mailbox, token_writer, table
        Survive a fault.
    reduce, vector, runner, dispatch, load, state, tokens, argmax, choice, ops, attentions
        Are reset by the session's `soft_reset`, as are the channels.
    cast_valid, cast : Signal
        Word on the broadcast bus, a register before the channels.
    request_valid, request : Signal
        Drain request to all channels, a register before theirs.
    write_room : Signal
        There is room for a word to the io buffer.
    abort : Signal
    """

    def __init__(self, m: Module, engine: Engine, build_id: int | None):
        self.engine = engine
        m.submodules.control = self.control = Control(engine=engine)
        m.submodules.session = self.session = Session(engine)
        m.submodules.counters = self.counters = Counters()
        identity = Signal(128)
        if build_id is None:
            m.submodules.identity = Instance(IDENTITY_MODULE, o_build_id=identity)
        else:
            m.d.comb += identity.eq(build_id)
        m.submodules.mailbox = self.mailbox = Mailbox(engine=engine, build_id=identity)
        m.submodules.token_writer = self.token_writer = TokenWriter(engine=engine)
        self._resettable(m, engine)
        m.submodules.table = self.table = OperationTable(engine)
        self.cast_valid = Signal()
        self.cast = Signal(broadcast_layout(engine))
        self.request_valid = Signal()
        self.request = Signal(DrainRequest)
        self.write_room = Signal()
        self.abort = Signal()

    def _resettable(self, m: Module, engine: Engine):
        reset = ResetInserter(self.session.soft_reset)
        self.reduce = DrainReduce(engine.channels, engine.lanes, joined=engine.joined)
        drain_latency = BUS_REGISTERS + Channel.DRAIN_LATENCY + self.reduce.LATENCY
        self.vector = VectorUnit(engine, drain_latency=drain_latency)
        self.runner = TaskRunner(engine, reciprocal_latency=self.vector.RECIPROCAL_LATENCY)
        self.dispatch, self.load, self.state = Dispatcher(engine), LoadUnit(engine), StateUnit(engine)
        self.tokens, self.argmax = TokenLoop(engine), Argmax(engine)
        self.choice = TokenChoice(engine)
        self.ops, self.attentions = Barrier(engine.channels), Barrier(engine.channels)
        m.submodules.reduce = reset(self.reduce)
        m.submodules.vector = reset(self.vector)
        m.submodules.runner = reset(self.runner)
        m.submodules.dispatch = reset(self.dispatch)
        m.submodules.load = reset(self.load)
        m.submodules.state = reset(self.state)
        m.submodules.tokens = reset(self.tokens)
        m.submodules.argmax = reset(self.argmax)
        m.submodules.choice = reset(self.choice)
        m.submodules.ops = reset(self.ops)
        m.submodules.attentions = reset(self.attentions)
