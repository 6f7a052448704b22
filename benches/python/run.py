"""Prints what an event with Python frames costs: python3 run.py LIBRARY (see lib.rs)."""

import ctypes
import sys

# Not PyDLL: the lock is released before each call.
lib = ctypes.CDLL(sys.argv[1])
lib.python_cost.restype = ctypes.c_double
KINDS = ["without a stack", "native frames", "Python frames", "both", "the capture of Python frames alone"]


def deep(d, kind):
    return lib.python_cost(kind) if d <= 1 else deep(d - 1, kind)


for kind, name in enumerate(KINDS):
    # The module's own frame is the first.
    costs = [f"{deep(depth - 1, kind):5.1f}" for depth in (2, 20)]
    print(f"CPython {sys.version.split()[0]:8} {name:36} ns at 2 and 20 frames: {'  '.join(costs)}")
