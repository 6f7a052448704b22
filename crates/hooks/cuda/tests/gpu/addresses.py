"""Reserves addresses until the driver refuses, as a process that imports expandable segments again and again. Prints what it has."""

import ctypes
import json
import time

cuda = ctypes.CDLL("libcuda.so.1")
RANGE_BYTES, SUCCESS = 90 << 30, 0


def call(name, *arguments):
    return getattr(cuda, name)(*arguments)


def must(name, *arguments):
    if (status := call(name, *arguments)) != SUCCESS:
        raise SystemExit(f"{name}: {status}")


def reserved():
    at = ctypes.c_uint64()
    status = call("cuMemAddressReserve", ctypes.byref(at), ctypes.c_size_t(RANGE_BYTES), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
    return status, at


context, block = ctypes.c_void_p(), ctypes.c_uint64()
must("cuInit", 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
must("cuCtxSetCurrent", context)
must("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(8 << 20))
ranges = []
began = time.monotonic()
while time.monotonic() - began < 60:
    status, at = reserved()
    if status != SUCCESS:
        break
    ranges.append(at)
    # So that the figures are looked at.
    if len(ranges) % 100 == 0:
        time.sleep(0.06)
time.sleep(0.1)
status, at = reserved()
print(json.dumps({"refused_with": status, "n_ranges": len(ranges), "reserved_bytes": len(ranges) * RANGE_BYTES}))
for at in ranges[:9]:
    must("cuMemAddressFree", at, ctypes.c_size_t(RANGE_BYTES))
time.sleep(0.1)
must("cuMemFree_v2", block)
