"""`symlight bench-serve`: request rate against latency of a running server, every text compared."""

import asyncio
import json
import os
import platform
import signal
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.program import Ended
from symlight.base.provenance import commit

from ..device.verify import VerificationError
from ..library.model import open_model
from ..terminal.console import stderr, waiting
from ..terminal.options import PATH, FiniteRange, ListCommand
from ..terminal.results import write_json


@click.command("bench-serve", cls=ListCommand)
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Of the server.")
@click.option("--key", metavar="KEY", help="Of a server that asks for one.")
@click.option(
    "--clients", type=click.IntRange(1, 1024), multiple=True, default=(1, 8), show_default=True,
    metavar="N...",
    help="Clients at a time; several numbers are measured one after the other.",
)  # fmt: skip
@click.option("--seconds", type=FiniteRange(0.1, 86400), default=10.0, show_default=True, help="Each.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1, 4096),
    default=32,
    show_default=True,
    help="Of the longest request.",
)
@click.option(
    "--leave", type=FiniteRange(0, 1), default=0.0, show_default=True, metavar="SHARE",
    help="Streams that the client leaves in the middle.",
)  # fmt: skip
@click.option(
    "--malformed", type=FiniteRange(0, 1), default=0.0, show_default=True, metavar="SHARE",
    help="Requests that must be refused.",
)  # fmt: skip
@click.option(
    "--verify", metavar="PACKAGE", help="The server's model: compare every text with the reference's."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the requests.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--out", type=PATH, metavar="FILE", help="Write that object to a file.")
def bench_serve(
    url: str, key: str | None, clients: tuple[int, ...], seconds: float, max_tokens: int, leave: float,
    malformed: float, verify: str | None, seed: int, as_json: bool, out: Path | None,
):  # fmt: skip
    """Load a server with clients that send one request after the other, and print rates and latencies.

    Ctrl-C or TERM ends the measurement and gives the result so far.
    """
    try:
        from ..bench.serve_load import Load, load_json, mixed_asks, run_load
    except ImportError as error:
        raise UserError(f"the load needs httpx ({error}); run: pip install 'symlight[serve]'") from error
    console = stderr()
    model = None if verify is None else open_model(verify, device="reference")
    with waiting(console, "the reference's texts"):
        asks = mixed_asks(48, seed, max_tokens, model)
    results: list[dict] = []
    wrong: list[str] = []
    failed: list[str] = []
    for count in clients:
        load = Load(
            url=url, clients=count, seconds=seconds, leave=leave, malformed=malformed, seed=seed, key=key
        )
        with waiting(console, f"{count} clients, {seconds:g} s"):
            tally, took = asyncio.run(run_load(load, asks))
        results.append(load_json(load, tally, took))
        wrong, failed = wrong + tally.wrong, failed + tally.failed
        if not as_json:
            click.echo(_line(results[-1]))
        if tally.ended_by is not None:
            break
    result = {
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "url": url,
        "max_tokens": max_tokens,
        "leave": leave,
        "malformed": malformed,
        "verified": verify is not None,
        "loads": results,
    }
    if as_json:
        click.echo(json.dumps(result))
    if out is not None:
        write_json(out, result)
    if wrong:
        raise VerificationError(f"{len(wrong)} texts are not the reference's, the first: {wrong[0]}")
    if failed:
        raise UserError(f"{len(failed)} requests failed, the first: {failed[0]}")
    if tally.ended_by is not None:
        raise KeyboardInterrupt if tally.ended_by == signal.SIGINT else Ended(tally.ended_by)


def _line(one: dict) -> str:
    first = one["time_to_first_token_ms"] or {"p50": "-", "p99": "-"}
    partial = f" (ended by {one['ended_by']} after {one['seconds']:g} s)" if one["ended_by"] else ""
    return (
        f"{one['clients']} clients: {one['requests_per_second']} requests/s, "
        f"first token p50 {first['p50']} ms, p99 {first['p99']} ms, {one['answered']} answered, "
        f"{one['left']} left, {one['refused']} refused, {one['busy']} busy, {one['wrong']} wrong, "
        f"{one['failed']} failed{partial}"
    )
