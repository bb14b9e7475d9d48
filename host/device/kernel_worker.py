"""Generates a kernel as a process of its own, which ends, with what it started, when its caller does.

    python -m symlight.host.device.kernel_worker FOLDER CARD BUILD ENGINE

ENGINE is the JSON of a hw.config.Engine.
Says the name of every step on a line that begins with `STEP`; the sentence of a `UserError` is the last line.
"""

import json
import sys
from pathlib import Path

from symlight.base.errors import UserError, sentence
from symlight.hw.compiler.generate import generate, generate_probe
from symlight.hw.compiler.manifest import PROBE
from symlight.hw.config import Engine

from .kernels import REFUSED, STEP


def main() -> int:
    folder, card, build, engine = sys.argv[1:]
    try:
        wanted = Engine.from_json(json.loads(engine))
        if build == PROBE:
            generate_probe(wanted, Path(folder), card=card)
        else:
            generate(
                wanted,
                Path(folder),
                card=card,
                build=build,
                progress=lambda step: print(f"{STEP}{step}", flush=True),
            )
    except UserError as error:
        print(error)
        return REFUSED
    except OSError as error:
        print(sentence(error))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
