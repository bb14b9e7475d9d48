"""`symlight serve`: the HTTP server."""

from contextlib import suppress
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.program import Ended

from ..device.packages import open_any
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, FiniteRange, device_option, device_options, model_option, take_device

NEEDED = "the server needs the extra `serve` ({}); run: pip install 'symlight[serve]'"  # of a missing module


@click.command()
@model_option
@device_option("cpu")
@device_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free port."
)
@click.option(
    "--api-key-file",
    type=PATH,
    metavar="FILE",
    help="Keys of clients, one per line; without it, none is asked.",
)
@click.option(
    "--max-queue", type=click.IntRange(min=0), default=64, show_default=True, metavar="N",
    help="Choices that wait; further requests are answered with 429.",
)  # fmt: skip
@click.option(
    "--max-running", type=click.IntRange(1, 64), default=64, show_default=True, metavar="N",
    help="Choices in progress at a time.",
)  # fmt: skip
@click.option(
    "--request-timeout", type=FiniteRange(min=0.001, max=86400), default=600.0, show_default=True,
    metavar="S", help="Seconds after which a request is answered with 504.",
)  # fmt: skip
@click.option(
    "--cache-mb", type=click.IntRange(min=0), default=256, show_default=True, metavar="MB",
    help="Memory for states of texts that were ingested before.",
)  # fmt: skip
@click.option("--log-prompts", is_flag=True, help="Write prompts to the log.")
def serve(
    model: str, host: str, port: int, api_key_file: Path | None, max_queue: int, max_running: int,
    request_timeout: float, cache_mb: int, log_prompts: bool, **values,
):  # fmt: skip
    """Serve a model over HTTP to OpenAI-style clients: completions, chat, streaming, metrics.

    docs/serving.md has the paths, the fields and examples.
    """
    try:
        from ..serve import run
        from ..serve.service import Service
        from ..serve.settings import MEGABYTE, ServerSettings, read_keys
    except ImportError as error:
        raise UserError(NEEDED.format(error)) from error
    console = stderr()
    settings = ServerSettings(
        host=host,
        port=port,
        keys=() if api_key_file is None else read_keys(api_key_file),
        max_queue=max_queue,
        max_running=max_running,
        request_timeout=request_timeout,
        cache_bytes=cache_mb * MEGABYTE,
        log_prompts=log_prompts,
    )
    settings.check()
    package = open_any(model)
    options = take_device(values)
    with run.bound_socket(settings) as listening:  # before the device, which may take a while
        with ProgressView(console) as progress:
            service = Service(package, options, settings, progress)
        address, at = listening.getsockname()[:2]
        click.echo(f"http://{address}:{at} serves {service.name} on {service.device}")
        with suppress(Ended):  # uvicorn raises the signal again behind what it has finished
            run.run(run.server(service), listening)
