"""Runs a command, and ends every process that it leaves behind: daemons too, which are in no group of their parent's.

    nest.py COMMAND...

The exit status is the command's, or 128 and the number of its signal.
"""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def end_children():
    """Kills until no child is left; those of a child that ended have come here."""
    while True:
        with open("/proc/thread-self/children") as file:
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for what, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, signal.SIGTERM)):
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)
    try:
        command = subprocess.Popen(sys.argv[1:], start_new_session=True)
        child = status = None
        while child != command.pid:
            # Orphans come here too, and are taken away as init would.
            child, status = os.waitpid(-1, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.exit(code if code >= 0 else 128 - code)
    finally:
        end_children()


main()
