"""The other side of a pipe: a worker answers requests, one JSON object a line. Needs nothing but Python."""

import json
import resource
import sys
import time
from collections.abc import Callable


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


def answer(requests: dict[str, Callable[..., object]]) -> None:
    """Answer requests {"request": name, ..arguments} until the pipe ends; `peak_mb` is answered here."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    requests = requests | {"peak_mb": lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    print(json.dumps({"ready": sorted(requests)}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        result = requests[request.pop("request")](**request)
        print(json.dumps({"result": result}), file=out, flush=True)
