"""The command `symlight`: a thin shell over the host's classes."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

import symlight
from symlight.base import program

from .commands.bench import bench
from .commands.bench_serve import bench_serve
from .commands.bench_table import bench_table
from .commands.bitstream import bitstream
from .commands.chat import chat
from .commands.estimate import estimate
from .commands.eval import eval_command
from .commands.generate import generate
from .commands.inspect import devices, inspect
from .commands.models.import_v1 import import_v1
from .commands.models.quantise import quantise
from .commands.models.random_model import old_name, random_model_command
from .commands.models.train import train
from .commands.packaging import manifests, package
from .commands.profile import profile_command
from .commands.project import project
from .commands.selftest import selftest
from .commands.sensitivity import sensitivity_command
from .commands.serve import serve
from .commands.soak import soak
from .commands.trace import trace
from .commands.upkeep.cache import cache
from .commands.upkeep.probe import probe
from .commands.verilog import verilog

NAME = "symlight"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(symlight.__version__, prog_name=NAME)
def cli():
    """Run SymbolicLight V2 models on the symlight accelerator, simulated or on a card."""
    for stream in (sys.stdout, sys.stderr):  # characters that the locale lacks become escapes
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


for command in (
    generate,
    chat,
    bench,
    bench_table,
    bench_serve,
    estimate,
    project,
    inspect,
    devices,
    cache,
    selftest,
    soak,
    probe,
    verilog,
    package,
    manifests,
    bitstream,
    trace,
    train,
    quantise,
    random_model_command,
    old_name,
    import_v1,
    eval_command,
    profile_command,
    sensitivity_command,
    serve,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line; whatever the user can mend is one sentence on standard error."""
    return program.run(cli, NAME, arguments)


def main() -> None:
    """Entry point of the installed command."""
    program.main(cli, NAME)


if __name__ == "__main__":
    main()
