"""The console script `memreel`: the whole program, in the extension."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Runs the program with the words of this process's command line; returns its exit status."""
    # As in a program that is not Python: Ctrl-C ends it, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memreel import _memreel
    from memreel._libraries import folder

    found = folder()
    if found is not None:
        # `memreel record` looks for its libraries there.
        os.environ.setdefault("MEMREEL_PRELOAD", str(found))
    return _memreel.main(["memreel", *sys.argv[1:]])
