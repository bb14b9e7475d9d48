"""Options that several commands share, and what becomes of them."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from symlight.base.errors import UserError
from symlight.hw.config import BUILDS, CARDS
from symlight.model.config import PRESETS
from symlight.sim.estimate.memory import Memory
from symlight.sim.hbm import LEAST_BYTES

from ..device.card import SCALAR_LIMIT
from ..device.kernels import RUNTIME
from ..device.opening import DeviceOptions


class _Path(click.Path):
    """A path. An empty one, which an unset variable of a shell leaves, would be the current folder."""

    def convert(self, value, param, ctx):
        return super().convert(value or self.fail("the path is empty; give one", param, ctx), param, ctx)


PATH = _Path(path_type=Path)
out_option = click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder to write.")
force_option = click.option("--force", is_flag=True, help="Replace a package that is there already.")
BUILD_NAMES = (*BUILDS, RUNTIME)
SHAPES = f"a preset ({', '.join(PRESETS)}), a JSON file of a shape or of a package's config, or a package"


class FiniteRange(click.FloatRange):
    """A range of numbers that `nan` and `inf` are not in."""

    def convert(self, value, param, ctx):
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class NonEmpty(click.ParamType):
    """A text of at least one character."""

    name = "text"

    def convert(self, value, param, ctx):
        return value if value else self.fail("the text is empty; give at least one character", param, ctx)


class ListCommand(click.Command):
    """A command whose repeatable options take several values at once: `--prefix 32 128` is `--prefix 32
    --prefix 128`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        repeatable = {
            name for option in self.params if getattr(option, "multiple", False) for name in option.opts
        }
        words: list[str] = []
        option, values = None, 0
        for word in args:
            if word.startswith("-"):
                option, values = (word if word in repeatable else None), 0
            elif option is not None:
                words += [option] if values else []
                values += 1
            words.append(word)
        return super().parse_args(ctx, words)


def chat_template_option(command: Callable) -> Callable:
    """`--chat-template FILE` of the commands that make packages."""
    return click.option(
        "--chat-template",
        type=PATH,
        metavar="FILE",
        help="Jinja template of the model's chats, for `chat` and `serve`; needs the extra `serve`.",
    )(command)


def _apply(options: list[Callable]) -> Callable:
    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


model_option = click.option(
    "--model",
    default="demo",
    show_default=True,
    metavar="PACKAGE",
    help="Folder of a model package, or a shipped name.",
)
cache_option = click.option(
    "--cache",
    type=PATH,
    metavar="DIR",
    help="Where generated and compiled kernels are kept; default: symlight in the user's cache folder.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of the simulation; default: two for a kernel of 16 channels or more.",
)


def shape_option(default: str) -> Callable:
    """`--model` where only its shape counts, by default the model `default`."""
    return click.option(
        "--model", default=default, show_default=True, metavar="MODEL", help=f"Gives the shape: {SHAPES}."
    )


def card_option(default: str) -> Callable:
    """`--card`, by default the card `default`."""
    return click.option(
        "--card",
        type=click.Choice(list(CARDS)),
        default=default,
        show_default=True,
        help="Size of the kernel.",
    )


build_option = click.option(
    "--build",
    type=click.Choice(BUILD_NAMES),
    default="partial-kv",
    show_default=True,
    help="Gather and KV mode that the kernel fixes; `runtime` fixes none.",
)
card_options = _apply([card_option("sim4"), build_option])
# of what is measured or estimated at full size: the kernel fixes its modes, the memory is in question
workload_options = _apply(
    [
        card_option("u50c"),
        click.option("--build", type=click.Choice(list(BUILDS)), default="partial-kv", show_default=True),
        click.option(
            "--hbm",
            type=click.Choice(["timed", "ideal"]),
            default=Memory.hbm,
            show_default=True,
            help="Memory.",
        ),
        click.option(
            "--max-bursts",
            type=click.IntRange(min=1),
            default=Memory.bursts,
            show_default=True,
            help="Read bursts in flight a port.",
        ),
        click.option(
            "--max-bytes",
            type=click.IntRange(min=LEAST_BYTES),
            default=Memory.bytes,
            show_default=True,
            help="Read bytes in flight a port.",
        ),
    ]
)


def device_option(default: str) -> Callable:
    """`--device`, by default the device `default`."""
    return click.option(
        "--device",
        default=default,
        show_default=True,
        metavar="cpu[:THREADS]|sim|reference|xrt:N",
        help="This processor, the simulated card, the slow integer reference, or a card (xrt:0, xrt:<bus>).",
    )


device_options = _apply(
    [
        card_options,
        click.option(
            "--hbm",
            type=click.Choice(["timed", "ideal"]),
            default="timed",
            show_default=True,
            help="Memory of the simulated card.",
        ),
        click.option(
            "--refresh-seed",
            type=int,
            default=1,
            show_default=True,
            help="Refresh phases of the simulated memory.",
        ),
        click.option(
            "--xclbin",
            type=PATH,
            metavar="FILE",
            help="Bitstream of a card; its manifest.json is beside it.",
        ),
        click.option(
            "--bitstream",
            type=PATH,
            metavar="FILE",
            help="Bitstream of a board, with its manifest.json beside it; default: the released one.",
        ),
        click.option(
            "--gather",
            type=click.Choice(["active", "dense"]),
            help="Rows of the weights that a kernel of build `runtime` reads; default: active.",
        ),
        click.option(
            "--kv",
            type=click.Choice(["valid", "full"]),
            help="Slots of the ring that it reads; default: valid.",
        ),
        click.option(
            "--watchdog",
            type=click.IntRange(1, SCALAR_LIMIT - 1),
            metavar="CYCLES",
            help="The kernel stops a longer run.",
        ),
        click.option(
            "--time-limit",
            type=FiniteRange(min=0, min_open=True),
            metavar="SECONDS",
            help="The host gives up a longer run.",
        ),
        click.option(
            "--draft",
            type=click.Choice(["none", "ngram"]),
            default="none",
            show_default=True,
            help="Let the CPU engine draft tokens from the text so far and verify several in a pass.",
        ),
        cache_option,
    ]
)


# The devices on which an option has an effect; an option of a simulated card that is not here has one on all.
_EFFECT = {
    **dict.fromkeys(("card", "build", "hbm", "refresh_seed"), ("sim",)),
    **dict.fromkeys(("gather", "kv"), ("sim", "xrt")),
    **dict.fromkeys(("watchdog", "time_limit"), ("sim", "xrt", "serial")),
    "xclbin": ("xrt",),
    "bitstream": ("serial",),
}
_NAMES = {"sim": "sim", "xrt": "xrt:N", "serial": "serial:PATH"}  # as a person types them


def given_options(names: Iterable[str]) -> list[str]:
    """Those of a command's parameters that the command line names."""
    context = click.get_current_context()
    return [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_given(names: Iterable[str], why: str) -> None:
    """A `UserError` if the command line names one of the parameters, which have no effect for the reason
    `why`."""
    for name in given_options(names):
        raise UserError(f"{_spelled(name)} has no effect {why}; leave it out")


def _spelled(name: str) -> str:
    """A parameter of the running command as it is typed."""
    options = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    return options[name]


def _refuse_useless(values: dict) -> None:
    """An option that changes nothing is a mistake of whoever gave it."""
    device = values["device"]
    kind = device.partition(":")[0]
    if kind not in ("cpu", "reference", "sim", "xrt", "serial"):
        return  # which is refused by name
    for name in given_options(_EFFECT):
        if kind not in _EFFECT[name]:
            devices = " and ".join(_NAMES[kind] for kind in _EFFECT[name])
            raise UserError(
                f"{_spelled(name)} has no effect on device {device!r}: it is for {devices}; leave it out, or "
                "choose such a device (--device)"
            )
    for name in ("gather", "kv"):
        if kind == "sim" and values[name] is not None and values["build"] != RUNTIME:
            raise UserError(
                f"--{name} {values[name]} has no effect: build {values['build']!r} fixes it; leave it out, "
                f"or give --build {RUNTIME}"
            )


def take_device(values: dict) -> DeviceOptions:
    """Take what `device_option` and `device_options` added out of a command's values."""
    _refuse_useless(values)
    names = (
        "device",
        "card",
        "build",
        "hbm",
        "refresh_seed",
        "xclbin",
        "bitstream",
        "watchdog",
        "time_limit",
        "cache",
    )
    taken = {name: values.pop(name) for name in names}
    if values["draft"] != "none" and not taken["device"].startswith("cpu"):
        raise UserError(f"device {taken['device']!r} does not draft; leave out --draft, or use --device cpu")
    return DeviceOptions(
        **taken,
        dense=values.pop("gather") == "dense",
        full_kv=values.pop("kv") == "full",
        drafts=values.pop("draft") == "ngram",
    )


def density_by_site(text: str) -> dict[str, float]:
    """`qkv=.34,out=.4` as numbers; the names are checked where they are used."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        site, _, share = part.partition("=")
        try:
            value = float(share)
        except ValueError as error:
            raise UserError(f"--density-site has {part!r}; write SITE=DENSITY, as in out=.4") from error
        if site in found:
            raise UserError(f"--density-site names {site} twice; give it once")
        found[site] = value
    return found
