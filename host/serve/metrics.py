"""What the server counts, in Prometheus' text format."""

import threading
from collections.abc import Callable
from functools import partial
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from symlight.model.config import ModelShape
from symlight.model.reference import SITES
from symlight.model.v1.config import V1Shape

from ..bench.telemetry import Sensor
from .backend import Counts
from .job import Job
from .scheduler import Observer

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def weight_bytes(shape: ModelShape | V1Shape, counts: Counts) -> int:
    """Bytes of int8 weights that a step needs when every pass reads its own: rows of nonzero events, the
    whole of W_O, and the head where it is evaluated."""
    if counts.active is None:
        return 0
    qkv, decay, up, down = (int(counts.active[:, index].sum()) for index in range(len(SITES)))
    events = qkv * 3 * shape.width + decay * shape.width + up * shape.ffn + down * shape.width
    head = shape.width * shape.bottleneck + shape.head_rows * shape.vocab
    return events + counts.passes * shape.layers * shape.width**2 + counts.heads * head


class _Sum:
    """What several steps did."""

    def __init__(self) -> None:
        self.counts, self.steps, self.seconds = Counts(), 0, 0.0

    def add(self, counts: Counts, seconds: float) -> None:
        self.steps += 1
        self.seconds += seconds
        for name in ("passes", "heads", "cycles", "swaps", "drafted", "accepted"):
            setattr(self.counts, name, getattr(self.counts, name) + getattr(counts, name))
        if counts.bytes_read is not None:
            self.counts.bytes_read = (self.counts.bytes_read or 0) + counts.bytes_read
        if counts.active is not None:
            self.counts.active = (
                counts.active if self.counts.active is None else self.counts.active + counts.active
            )


class Metrics(Observer):
    """Counters of the server and of its scheduler.

    Parameters
    ----------
    shape : ModelShape | V1Shape
    clock_mhz : float | None
        Of a device with cycles.
    """

    def __init__(self, shape: ModelShape | V1Shape, clock_mhz: float | None = None):
        self._shape = shape
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, labels=()) -> Counter:
            return Counter(f"symlight_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"symlight_{name}", text, registry=registry, buckets=_SECONDS)

        self.requests = counter("requests", "Answers by path and HTTP status.", ("path", "status"))
        self._prompt = counter("prompt_tokens", "Prompt tokens of finished choices.")
        self._generated = counter("generated_tokens", "Tokens generated.")
        self._reused = counter("reused_prompt_tokens", "Prompt tokens that a kept state held already.")
        self._passes = counter("passes", "Passes of the model.")
        self._heads = counter("head_evaluations", "Passes with the decoding head.")
        self._steps = counter("device_steps", "Calls of the device.")
        self._busy = counter("device_busy_seconds", "Time in calls of the device.")
        self._bytes = counter("weight_bytes", "Weight bytes that the passes need, each for itself.")
        self._cycles = counter("device_cycles", "Cycles of a device that counts them.")
        self._read = counter("device_bytes_read", "Bytes that a device with counters has read.")
        self._swaps = counter("state_swaps", "Sessions that made room for another on the device.")
        self._drafted = counter("drafted_tokens", "Tokens that the device drafted.")
        self._accepted = counter("accepted_drafts", "Drafted tokens that the model accepted.")
        self._restarts = counter("device_restarts", "Restarts after a fault of the device.")
        self.to_first = histogram("time_to_first_token_seconds", "From the request's arrival.")
        self.between = histogram("time_between_tokens_seconds", "Mean of a choice.")
        self._batch = Histogram(
            "symlight_jobs_in_a_step", "Choices that advance together.", registry=registry,
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        self._density = Gauge(
            "symlight_density", "Share of nonzero inputs in the last step.", ("site",), registry=registry
        )
        for index, site in enumerate(SITES):
            self._density.labels(site).set_function(partial(self._last_density, index))
        ProcessCollector(registry=registry)
        self._lock, self._sum, self._last = threading.Lock(), _Sum(), Counts()
        if clock_mhz is not None:
            Gauge("symlight_clock_mhz", "Clock of the device.", registry=registry).set(clock_mhz)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge that is read when somebody asks."""
        Gauge(f"symlight_{name}", text, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        self._collect()
        text: bytes = generate_latest(self.registry)
        return text

    def _collect(self) -> None:
        """Count the steps since the last time; not at each step, because there are thousands a second."""
        with self._lock:
            done, self._sum = self._sum, _Sum()
        counts = done.counts
        self._steps.inc(done.steps)
        self._busy.inc(done.seconds)
        self._passes.inc(counts.passes)
        self._heads.inc(counts.heads)
        self._cycles.inc(counts.cycles)
        self._swaps.inc(counts.swaps)
        self._drafted.inc(counts.drafted)
        self._accepted.inc(counts.accepted)
        self._bytes.inc(weight_bytes(self._shape, counts))
        self._read.inc(counts.bytes_read or 0)

    def watch_ports(self, port_bytes: int) -> None:
        """Show the utilisation of a device's memory ports, which carry `port_bytes` per cycle."""

        def share() -> float:
            last = self._last
            return (last.bytes_read or 0) / (last.cycles * port_bytes) if last.cycles else 0.0

        self.watch("port_utilisation", "Bytes read in the last step, of what the ports can carry.", share)

    def watch_power(self, sensor: Sensor) -> None:
        """Show the power that a sensor gives; NaN while it gives none."""

        def watts() -> float:
            found = sensor.read().watts
            return nan if found is None else found

        self.watch("power_watts", f"Power of the device, by {sensor.source}.", watts)

    def _last_density(self, site: int) -> float:
        """Share of nonzero inputs of a site, over all layers and passes of the last step."""
        last = self._last
        if last.active is None or not last.passes:
            return 0.0
        inputs = self._shape.ffn if SITES[site] == "down" else self._shape.width
        return float(last.active[:, site].sum()) / (inputs * self._shape.layers * last.passes)

    # ---- Observer ----

    def step(self, counts: Counts, jobs: int, seconds: float) -> None:
        with self._lock:
            self._sum.add(counts, seconds)
        self._last = counts
        self._batch.observe(jobs)

    def finished(self, job: Job) -> None:
        times = job.times
        self._prompt.inc(len(job.wish.prompt))
        self._generated.inc(len(job.generated))
        if times.first_token is not None and times.last_token is not None:
            self.to_first.observe(times.first_token - times.arrived)
            if len(job.generated) > 1:
                self.between.observe((times.last_token - times.first_token) / (len(job.generated) - 1))

    def restarted(self) -> None:
        self._restarts.inc()

    def reused(self, tokens: int) -> None:
        self._reused.inc(tokens)

    def summary(self) -> dict[str, float]:
        """A few values for the built-in page."""
        self._collect()
        values = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")) and not sample.labels.get("path"):
                    site = sample.labels.get("site")
                    values[f"{sample.name}.{site}" if site else sample.name] = sample.value
        return values
