"""The command `symlight`: a thin shell over the host's classes."""

import contextlib
import sys
from collections.abc import Sequence

import click

import symlight
from symlight.base.errors import UserError

from .commands.bench import bench
from .commands.bench_serve import bench_serve
from .commands.bench_table import bench_table
from .commands.chat import chat
from .commands.estimate import estimate
from .commands.generate import generate
from .commands.import_v1 import import_v1
from .commands.inspect import devices, inspect
from .commands.packaging import manifests, package
from .commands.project import project
from .commands.quantise import quantise
from .commands.random_model import old_name, random_model_command
from .commands.selftest import selftest
from .commands.serve import serve
from .commands.soak import soak
from .commands.train import train
from .commands.verilog import verilog
from .device.verify import VerificationError

EXIT_DIFFERENT, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(symlight.__version__, prog_name="symlight")
def cli():
    """Run SymbolicLight V2 models on the symlight accelerator, simulated or on a card."""
    for stream in (sys.stdout, sys.stderr):  # characters that the locale lacks become escapes
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
    selftest,
    soak,
    verilog,
    package,
    manifests,
    train,
    quantise,
    random_model_command,
    old_name,
    import_v1,
    serve,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line; whatever the user can mend is one sentence on standard error."""
    try:
        return cli.main(arguments, prog_name="symlight", standalone_mode=False) or 0
    except VerificationError as error:
        return _complain(str(error), EXIT_DIFFERENT)
    except UserError as error:
        return _complain(str(error), EXIT_ERROR)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_ERROR
    except click.ClickException as error:
        return _complain(error.format_message(), EXIT_ERROR)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
        with contextlib.suppress(OSError):
            sys.stdout.close()
        return EXIT_ERROR


def _complain(sentence: str, code: int) -> int:
    print(f"symlight: {sentence}", file=sys.stderr)
    return code


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run())


if __name__ == "__main__":
    main()
