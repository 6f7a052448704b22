"""Calls the timed loop from Python: memray.py LIBRARY THREADS [--quick]."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.slowest_ns.restype = ctypes.c_double
library.slowest_ns.argtypes = [ctypes.c_size_t, ctypes.c_bool]
print(f"{library.slowest_ns(int(sys.argv[2]), '--quick' in sys.argv):.2f}")
