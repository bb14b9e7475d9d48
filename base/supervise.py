"""Runs a command as a script of its own; when whoever started it is gone, it kills the command and all that
the command started.

    python supervise.py FD COMMAND...     FD: reading end of a pipe whose writing end the starter holds

The command keeps the process group of this script, so one signal reaches everything. A starter that is killed
closes its end of the pipe: no other notice of its death is needed.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> None:
    pipe, command = int(sys.argv[1]), sys.argv[2:]

    def watch() -> None:
        os.read(pipe, 1)  # comes back when the other end is closed: nobody ever writes
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    try:
        status = subprocess.Popen(command).wait()
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", flush=True)
        os._exit(127)
    if status < 0:  # end as the command did
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
