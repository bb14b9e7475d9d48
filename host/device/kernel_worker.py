"""Generates a kernel as a process of its own, which ends, with what it started, when its caller does.

    python -m symlight.host.device.kernel_worker FOLDER CARD BUILD ENGINE     ENGINE: JSON of hw.config.Engine

Says the name of every step on a line that begins with `STEP`.
"""

import json
import sys
from pathlib import Path

from symlight.base.errors import UserError, sentence
from symlight.hw.config import Engine

STEP = "step "
REFUSED = 3  # exit code of a `UserError`: the last line is its sentence


def main() -> int:
    from symlight.hw.compiler.generate import generate  # slow to import, and the caller needs two constants

    folder, card, build, engine = sys.argv[1:]
    try:
        generate(
            Engine.from_json(json.loads(engine)),
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
