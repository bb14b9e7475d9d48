"""The other side of a pipe: a worker answers requests, one JSON object a line. Needs nothing but Python."""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path


def seconds_of(step: Callable[[], object], times: int, threads: int) -> list[float]:
    """How long each of several calls takes.

    With one thread it is the processor time of this process, which others that run meanwhile do not lengthen;
    with several it is the time on the wall.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    found = []
    for _ in range(times):
        began = clock()
        step()
        found.append(clock() - began)
    return found


def peak_mb() -> float:
    """Most memory that this program has had; `ru_maxrss` begins with that of the process that started it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(requests: dict[str, Callable[..., object]]) -> None:
    """Answer requests {"request": name, ..arguments} until the pipe ends; `peak_mb` is answered here."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    requests = requests | {"peak_mb": peak_mb}
    print(json.dumps({"ready": sorted(requests)}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        result = requests[request.pop("request")](**request)
        print(json.dumps({"result": result}), file=out, flush=True)
