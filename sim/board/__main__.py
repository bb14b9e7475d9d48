"""`python -m symlight.sim.board DIR`: a simulated board on a pseudo-terminal, until Ctrl-C.

DIR gets what a program that opens the line needs: a manifest, and an empty file in the bitstream's place.
"""

import signal
import sys
import time
from pathlib import Path

from symlight.hw.board.board import board

from .board import SimulatedBoard, build_board
from .line import PseudoTerminal
from .manifest import write_manifest


def main(folder: Path) -> None:
    """Serve until Ctrl-C."""
    library = build_board(board("ulx3s-85f"))
    bitstream = write_manifest(library, folder)
    simulated = SimulatedBoard(library)
    line = PseudoTerminal(simulated)
    print(f"--device serial:{line.path} --bitstream {bitstream}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while line.error is None:
            time.sleep(0.2)
        print(f"the board stopped: {line.error}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    line.close()
    simulated.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/simulated-board"))
