"""One part of the kernel in a cocotb bench under Verilator.

python -m examples.queue_bench             # from the repository's folder
python -m examples.queue_bench --waves     # and dump.vcd in the folder that is printed
"""

import sys
from pathlib import Path

from symlight.hw.lib.queue import Queue
from tests.benches.bench import run_bench

here = Path(__file__).parent
passed = run_bench(Queue(16, depth=4), "cocotb_queue_example", folder=here, waves="--waves" in sys.argv)
print(f"{passed} test passed")
