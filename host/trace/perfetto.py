"""A traced pass in the Trace Event Format, for ui.perfetto.dev: operations, kinds of cycles, ports."""

from collections.abc import Sequence

from .events import WINDOW, PassTrace, Segment

OPERATIONS, KINDS, PORTS = 1, 2, 3  # tracks
NAMES = {OPERATIONS: "operations", KINDS: "stream and turnaround", PORTS: "memory ports"}


def trace_events(passes: Sequence[PassTrace], clock_mhz: int) -> dict:
    """The file's object; times are microseconds of the kernel clock since the first pass began."""
    zero = passes[0].begin
    events: list[dict] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "kernel"}},
        *(
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
            for track, name in NAMES.items()
        ),
    ]

    def time(cycle: int) -> float:
        return (cycle - zero) / clock_mhz

    def slice_of(name: str, track: int, begin: int, end: int, arguments: dict) -> dict:
        times = {"ts": time(begin), "dur": (end - begin) / clock_mhz}
        return {"name": name, "ph": "X", "pid": 1, "tid": track, **times, "args": arguments}

    for number, one in enumerate(passes):
        for operation in operations(one):
            first, last = operation[0], operation[-1]
            about: dict[str, int | str | None] = {
                "pass": number,
                "layer": first.layer,
                "cycles": last.end - first.begin,
            }
            events.append(slice_of(first.operation, OPERATIONS, first.begin, last.end, about))
        for segment in one.segments:
            about = {"operation": segment.operation, "cycles": segment.cycles}
            events.append(slice_of(segment.kind, KINDS, segment.begin, segment.end, about))
        for channel, windows in enumerate(one.beats):
            for k, beats in enumerate(windows):
                share = {"beats per cycle": round(int(beats) / WINDOW, 4)}
                at = {"ts": time(one.begin + k * WINDOW), "pid": 1, "tid": PORTS}
                events.append({"name": f"port {channel:02}", "ph": "C", **at, "args": share})
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"clock_mhz": clock_mhz}}


def operations(one: PassTrace) -> list[list[Segment]]:
    """Segments of a pass, those of one operation together."""
    groups: list[list[Segment]] = []
    for segment in one.segments:
        if groups and (groups[-1][0].operation, groups[-1][0].layer) == (segment.operation, segment.layer):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
