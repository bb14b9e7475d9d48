"""Sealing: a package's manifest learns which xclbin was built from it, and what the vendor's tools reported.

Only what is there is written: SHA-256, UUID and clocks come out of the xclbin, slack and utilisation out of
the reports that `reports.tcl` wrote beside it; what is not there stays None. An xclbin of another kernel or
build is refused.
"""

from collections.abc import Callable
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.files import write_whole
from symlight.base.json_file import read_object
from symlight.hw.compiler.manifest import REGISTERS
from symlight.hw.interface import KERNEL_NAME

from .axlf import Xclbin, read_xclbin
from .contents import clocks, compute_units, kernel_arguments, key_values
from .package import MANIFEST, manifest_text
from .reports import timing, utilisation

BUILD_ID_KEY = "build_id"  # of the pair that build.sh adds to the file


def seal(file: Path) -> dict:
    """Fill `result` of the manifest beside xclbin `file`, and return the manifest."""
    source = file.parent / MANIFEST
    try:
        manifest = read_object(source, "package the kernel again")
        expected = {name: manifest[name] for name in ("build_id", "interface", "platform")}
    except FileNotFoundError:
        raise UserError(
            f"{source} does not exist; the xclbin must be in the folder that `symlight package` wrote"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{source} is not the manifest of a package ({error!r}); package the kernel again"
        ) from error
    image = read_xclbin(file)
    check_origin(image, file, expected)
    reports = file.parent / "reports"
    manifest["result"] = {
        "xclbin": {
            "file": file.name,
            "sha256": image.sha256,
            "bytes": image.size,
            "uuid": image.uuid,
            "interface_uuid": image.interface_uuid,
            "platform": image.platform,
            "mode": image.mode,
            "time_stamp": image.time_stamp,
        },
        "clocks_mhz": {clock["name"]: clock["mhz"] for clock in clocks(image)} or None,
        "slack_ns": _report(reports / "timing.rpt", timing),
        "utilisation": _report(reports / "utilisation.rpt", utilisation),
    }
    write_whole(source, manifest_text(manifest))
    return manifest


def _report(file: Path, read: Callable[[str, str], dict]) -> dict | None:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return read(text, str(file))


def check_origin(image: Xclbin, file: Path, manifest: dict) -> None:
    """A `UserError` unless the xclbin says that it was linked from the kernel of `manifest`."""
    found = key_values(image).get(BUILD_ID_KEY)
    if found != manifest["build_id"]:
        said = "does not say which build it holds" if found is None else f"holds build {found}"
        raise UserError(
            f"{file} {said}, the manifest is of {manifest['build_id']}; link the package with its build.sh"
        )
    units = [unit["name"] for unit in compute_units(image)]
    instance = f"{KERNEL_NAME}:{manifest['platform']['instance']}"
    if units != [instance]:
        raise UserError(
            f"{file} has the compute units {units}, not {instance}; link the package with its build.sh"
        )
    registers = {register["name"]: register for register in manifest["interface"]["control"]["registers"]}
    arguments = kernel_arguments(image, KERNEL_NAME)
    if arguments is None:
        raise UserError(f"{file} describes no kernel {KERNEL_NAME}; link the package with its build.sh")
    for argument in arguments:
        register = registers.pop(argument["name"], None)
        if register is None or (register["offset"], register["bytes"]) != (
            argument["offset"],
            argument["bytes"],
        ):
            raise UserError(
                f"{file}: argument {argument['name']} at {argument['offset']:#x} is not as in the manifest; "
                "link the package with its build.sh"
            )
    if missing := [name for name in registers if name not in REGISTERS]:
        raise UserError(f"{file} has no argument {missing[0]}; link the package with its build.sh")
