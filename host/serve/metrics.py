"""What the server counts, in Prometheus' text format."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from symlight.model.config import ModelShape
from symlight.model.reference import SITES

from .backends import Counts
from .job import Job
from .scheduler import Observer

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def weight_bytes(shape: ModelShape, counts: Counts) -> int:
    """Bytes of int8 weights that a step needs when every pass reads its own: rows of nonzero events, the
    whole of W_O, and the head where it is evaluated."""
    if counts.active is None:
        return 0
    qkv, decay, up, down = (int(counts.active[:, index].sum()) for index in range(len(SITES)))
    events = qkv * 3 * shape.width + decay * shape.width + up * shape.ffn + down * shape.width
    head = shape.width * shape.bottleneck + shape.head_rows * shape.vocab
    return events + counts.passes * shape.layers * shape.width**2 + counts.heads * head


class Metrics(Observer):
    """Counters of the server and of its scheduler.

    Parameters
    ----------
    shape : ModelShape
    clock_mhz : float | None
        Of a device with cycles.
    """

    def __init__(self, shape: ModelShape, clock_mhz: float | None = None):
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
        if clock_mhz is not None:
            Gauge("symlight_clock_mhz", "Clock of the device.", registry=registry).set(clock_mhz)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge that is read when somebody asks."""
        Gauge(f"symlight_{name}", text, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    # ---- Observer ----

    def step(self, counts: Counts, jobs: int, seconds: float) -> None:
        self._steps.inc()
        self._busy.inc(seconds)
        self._batch.observe(jobs)
        self._passes.inc(counts.passes)
        self._heads.inc(counts.heads)
        self._cycles.inc(counts.cycles)
        self._swaps.inc(counts.swaps)
        self._bytes.inc(weight_bytes(self._shape, counts))
        if counts.bytes_read is not None:
            self._read.inc(counts.bytes_read)
        if counts.active is not None and counts.passes:
            for site, share in densities(self._shape, counts).items():
                self._density.labels(site).set(share)

    def finished(self, job: Job) -> None:
        times = job.times
        self._prompt.inc(len(job.wish.prompt))
        self._generated.inc(len(job.generated))
        if times.first_token is not None:
            self.to_first.observe(times.first_token - times.arrived)
            if len(job.generated) > 1:
                self.between.observe((times.last_token - times.first_token) / (len(job.generated) - 1))

    def restarted(self) -> None:
        self._restarts.inc()

    def reused(self, tokens: int) -> None:
        self._reused.inc(tokens)

    def summary(self) -> dict[str, float]:
        """A few values for the built-in page."""
        values = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")) and not sample.labels.get("path"):
                    site = sample.labels.get("site")
                    values[f"{sample.name}.{site}" if site else sample.name] = sample.value
        return values


def densities(shape: ModelShape, counts: Counts) -> dict[str, float]:
    """Share of nonzero inputs by site, over all layers and passes of a step."""
    assert counts.active is not None
    inputs = [shape.ffn if site == "down" else shape.width for site in SITES]
    return {
        site: float(counts.active[:, index].sum()) / (inputs[index] * shape.layers * counts.passes)
        for index, site in enumerate(SITES)
    }
