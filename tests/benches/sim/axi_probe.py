"""The memory at one port, with the test as its master: one call is one clock cycle."""

import ctypes

import numpy as np

BEAT, BASE = 32, 0x4000
_U8, _U64 = ctypes.c_uint8, ctypes.c_uint64
_WIDE = ("araddr", "awaddr")
_MASTER = "arlen arsize arburst arvalid rready awlen awsize awburst awvalid wlast wvalid bready"
_SLAVE = "arready rresp rlast rvalid awready wready bresp bvalid"
READ = {"arsize": 5, "arburst": 1, "arvalid": 1}
WRITE = {"awsize": 5, "awburst": 1, "awvalid": 1}


class Pins(ctypes.Structure):
    """Pins of the port, as in axi_probe.cpp."""

    _fields_ = [
        *((name, _U64) for name in _WIDE),
        *((name, _U8) for name in f"{_MASTER} {_SLAVE}".split()),
        ("_gap", _U8 * 4),
        ("wdata", _U8 * BEAT),
        ("wstrb", _U8 * 8),
        ("rdata", _U8 * BEAT),
    ]


class AxiProbe:
    """A port with `beats` beats of memory at BASE; `settings` are names of hbm.h."""

    def __init__(self, library: ctypes.CDLL, beats: int = 512, **settings):
        self._library, self.pins = library, Pins()
        library.probe_create.restype = ctypes.c_void_p
        library.probe_step.restype = ctypes.c_char_p
        library.probe_counter.restype = ctypes.c_int64
        self.memory = np.random.default_rng(3).integers(0, 256, beats * BEAT, np.uint8)
        text = ",".join(f"{name}={value}" for name, value in ({"ideal": 1, "ar_ps": 0} | settings).items())
        place = _U64(BASE), _U64(self.memory.size), ctypes.c_void_p(self.memory.ctypes.data)
        self._handle = ctypes.c_void_p(library.probe_create(ctypes.byref(self.pins), text.encode(), *place))
        assert self._handle, f"a setting of {text} is unknown"

    def close(self) -> None:
        self._library.probe_destroy(self._handle)

    def fault(self, base: int, end: int, response: int, *, reads: bool, writes: bool) -> None:
        self._library.probe_fault(self._handle, _U64(base), _U64(end), response, int(reads), int(writes))

    def step(self, **pins: int) -> str:
        """One cycle with the master's pins `pins`, all others 0; "" or the rule that was broken."""
        for name in (*_WIDE, *_MASTER.split()):
            setattr(self.pins, name, pins.get(name, 0))
        return self._library.probe_step(self._handle).decode()

    def data(self, value: int, strobes: int = 0xFFFFFFFF) -> None:
        """The write payload: 32 equal bytes."""
        self.pins.wdata[:] = [value] * BEAT
        self.pins.wstrb[:] = list(strobes.to_bytes(8, "little"))

    def counter(self, name: str) -> int:
        value = self._library.probe_counter(self._handle, name.encode())
        assert value >= 0, f"no counter {name}"
        return value

    def idle(self) -> bool:
        return bool(self._library.probe_idle(self._handle))
