"""symlight: generator of an FPGA accelerator for SymbolicLight V2, and a library to run its models.

`open_model` is the front door (docs/python.md). Its names are loaded when they are first used.
"""

import importlib

__version__ = "0.1.0"

_EXPORTS = {
    "open_model": "symlight.host.library.model",
    "Model": "symlight.host.library.model",
    "Session": "symlight.host.library.session",
    "Token": "symlight.host.library.completion",
    "Alternative": "symlight.host.library.completion",
    "Completion": "symlight.host.library.completion",
    "SamplingOptions": "symlight.model.sampling",
    "Penalties": "symlight.model.penalties",
    "UserError": "symlight.base.errors",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
