"""CPython's cases of the bench. Arguments: memreel's file, the file to make, the number of runs.

With zero runs it makes the file and measures nothing. Otherwise it prints one line per case: name,
median seconds, bytes of the file, extra peak RSS in bytes or "?".
"""
import gc
import os
import pickle
import statistics
import sys
import time
from functools import partial


def status(key):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key):
                return int(line.split()[1]) * 1024


def measure(case, path, runs, run, prepare=lambda: None):
    seconds, growth = [], 0
    for _ in range(runs):
        prepare()
        gc.collect()
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before = status("VmRSS:")
        except OSError:
            before = None
        start = time.perf_counter()
        made = run()
        seconds.append(time.perf_counter() - start)
        del made
        growth = "?" if before is None or growth == "?" else max(growth, status("VmHWM:") - before)
    print(case, statistics.median(seconds), os.path.getsize(path), growth, flush=True)


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def dump(value, path):
    with open(path, "wb") as file:
        pickle.dump(value, file, protocol=4)


def as_pytorch_lays_it_out(snapshot):
    """Every malloc and every free has a list of frames of its own, which its events
    and its block share; frames are shared; texts of different frames are not, nor is compile_context."""
    live = {}
    for entry in snapshot["device_traces"][0]:
        key = entry["addr"], entry["action"].startswith("segment")
        if entry["action"] == "free_completed":
            entry["frames"] = live.pop(key)
        else:
            entry["frames"] = live[key] = list(entry["frames"])
        entry["compile_context"] = "".join(["N", "/A"])  # noqa: FLY002 - a new string each time
    for segment in snapshot["segments"]:
        segment["frames"] = live[segment["address"], True]
        for block in segment["blocks"]:
            if block["frames"]:
                block["frames"] = live[block["address"], False]
    return snapshot


def main():
    shared, unshared, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    snapshot = load(shared)
    if runs == 0:
        dump(as_pytorch_lays_it_out(snapshot), unshared)
        return
    again = shared + ".cpython"
    dump(snapshot, again)
    measure("write_1m", again, runs, partial(dump, snapshot, again), lambda: os.remove(again))
    dump(as_pytorch_lays_it_out(snapshot), unshared)
    del snapshot
    measure("load_1m", shared, runs, lambda: load(shared))
    measure("load_1m_unshared", unshared, runs, lambda: load(unshared))


main()
