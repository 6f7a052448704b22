"""Compares a training through memreel with the native one: requests, losses, peaks.

usage: compare.py FOLDER resnet18|transformer
"""

import json
import os
import pickle
import sys
from pathlib import Path


def requests(path):
    """Returns all requests in order; an allocation has a number and a size, a free its allocation's number."""
    with open(path, "rb") as file:
        trace = pickle.load(file)["device_traces"][0]
    live, found, n = {}, [], 0
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = n
            found.append(("alloc", n, entry["size"]))
            n += 1
        elif entry["action"] == "free_requested":
            found.append(("free", live.pop(entry["addr"]), entry["size"]))
    return found


def main():
    folder, name = sys.argv[1:]
    base = os.path.join(folder, name)
    if not os.path.exists(base + ".native.pickle"):
        print("skipped: no CUDA device (no training was recorded)")
        return
    native, ours = (requests(f"{base}.{mode}.pickle") for mode in ("native", "memreel"))
    figures = [json.loads(Path(f"{base}.{mode}.json").read_text()) for mode in ("native", "memreel")]
    differs = next((i for i, (a, b) in enumerate(zip(native, ours)) if a != b), None)
    equal = native == ours
    print(f"{name}: {len(native)} requests natively, {len(ours)} through memreel, {'equal' if equal else 'different'}")
    if not equal:
        at = differs if differs is not None else min(len(native), len(ours))
        print(f"  first difference at {at}: {native[at:at + 3]} against {ours[at:at + 3]}")
    for what in ("allocated_peak", "reserved_peak"):
        a, b = figures[0][what], figures[1][what]
        print(f"  {what}: {a} natively, {b} through memreel, {100 * (b - a) / a:+.3f} %")
        equal = equal and abs(b - a) <= 0.01 * a
    print(f"  losses equal: {figures[0]['losses'] == figures[1]['losses']}")
    print(f"result: {name} {'passed' if equal else 'FAILED'}")
    sys.exit(not equal)


main()
