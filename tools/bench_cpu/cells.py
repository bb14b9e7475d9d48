"""What is measured: cells, each a request to a worker, and what its answer says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Round = dict[str, dict]  # cell -> {"seconds": of a token, ..}
PREFIXES = (32, 256, 480)
TOKENS = 12  # decode passes of a cell in a round


def _median(answer: list[float]) -> dict:
    return {"seconds": median(answer)}


def _decode(answer: dict) -> dict:
    return {"seconds": median(answer["seconds"]), "bytes": answer["bytes"]}


@dataclass(frozen=True)
class Cell:
    """A request, and how its answer becomes figures. `once`: in the first round only."""

    name: str
    worker: str
    request: str
    arguments: dict = field(default_factory=dict)
    seconds: Callable[[Any], dict] = _median  # of the answer's JSON, of which each request has its own form
    once: bool = False


def _memory(worker: str) -> Cell:
    return Cell(f"memory_{worker}", worker, "peak_mb", {}, lambda x: {"peak_mb": x}, once=True)


def _cells() -> list[Cell]:
    cells = []
    for threads in (1, 2):
        here: dict[str, object] = {"threads": threads}
        one = f"{threads}t"
        cells.append(Cell(f"bandwidth_{one}", "ours", "bandwidth", here, lambda x: {"bytes_a_second": x}))
        for prefix in PREFIXES:
            what = here | {"prefix": prefix, "tokens": TOKENS}
            cells.append(Cell(f"ours_p{prefix}_{one}", "ours", "decode", what, _decode))
            cells.append(Cell(f"llama_p{prefix}_{one}", "llama", "decode", what))
            cells.append(Cell(f"rwkv7_p{prefix}_{one}", "rwkv7", "decode", what))
            few = what | {"tokens": 4}
            for kind in ("fp32", "int8"):
                cells.append(Cell(f"torch_{kind}_p{prefix}_{one}", f"torch_{kind}", "decode", few))
            if (threads, prefix) == (1, PREFIXES[0]):  # before they do anything else
                cells += [_memory(name) for name in ("ours", "llama", "rwkv7", "torch_fp32", "torch_int8")]
        cells.append(Cell(f"ours_prefill256_{one}", "ours", "prefill", here | {"prefix": 256}))
        cells.append(Cell(f"llama_prefill256_{one}", "llama", "prefill", here | {"prefix": 256}))
        cells.append(
            Cell(f"ours_8_sessions_{one}", "ours", "sessions", here | {"count": 8, "tokens": TOKENS})
        )
        for layout in ("mixed", "rows", "columns"):
            for dense in (False, True):
                what = here | {"prefix": 32, "tokens": TOKENS, "layout": layout, "every_row": dense}
                name = f"layout_{layout}_{'dense' if dense else 'sparse'}_{one}"
                if (layout, dense) != ("columns", True):  # by column nothing can be skipped
                    cells.append(Cell(name, "ours", "decode", what, _decode))
    cells.append(Cell("load", "ours", "load", {}, lambda x: {"seconds": x}))
    for drafts in (False, True):
        how, what = "drafts" if drafts else "plain", {"tokens": 120, "drafts": drafts}
        cells.append(Cell(f"quoting_{how}", "ours", "quoting", what, lambda x: x))
        cells.append(Cell(f"given_{how}", "ours", "given", what, lambda x: x))
    for reference in (True, False):
        what = {"prefix": 32, "tokens": 64, "reference": reference}
        name = "golden_reference" if reference else "golden_engine"
        cells.append(Cell(name, "ours", "golden", what, lambda x: {"seconds": x}, once=True))
    return cells


CELLS = _cells()
