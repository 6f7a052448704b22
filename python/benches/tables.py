"""Events as a table, beside `pickle.load` and a list comprehension. Prints one JSON object a line.

    python benches/tables.py [EVENTS]          # 1,000,000 without it

Each way runs in a process of its own, in turn, three times; `seconds` is the least. `grown_mib` is the most resident memory
above that before, `anonymous_mib` the same without pages of the mapped file, which the kernel takes back when it needs them.
The file is in PyTorch's layout. What the ways make is the same: device, time, action, address, size, stream of each event.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROUNDS = 3
COLUMNS = ["device", "event", "time_us", "action", "address", "size_bytes", "stream", "scope", "stack"]


def make(path: Path, n_events: int) -> None:
    """Writes a snapshot as PyTorch does, with a list of frames for each alloc and each free: 500 stacks of 25 frames."""
    choose = random.Random(1)
    names = [{"name": f"function_{n}", "filename": f"/home/user/model/layer_{n % 40}.py", "line": n} for n in range(2000)]
    stacks = [choose.choices(names, k=25) for _ in range(500)]
    trace: list[dict[str, object]] = []
    live: list[tuple[int, int]] = []
    common = {"stream": 0, "compile_context": "N/A", "user_metadata": ""}
    free = 0x7F0000000000
    while len(trace) < n_events:
        event = {**common, "time_us": 1_700_000_000_000_000 + len(trace), "frames": list(choose.choice(stacks))}
        if live and choose.random() < 0.5:
            address, size = live.pop(choose.randrange(len(live)))
            trace.append({"action": "free_requested", "addr": address, "size": size, **event})
            trace.append({"action": "free_completed", "addr": address, "size": size, **event})
        else:
            size = choose.randrange(1, 4000) * 512
            free += size
            live.append((free - size, size))
            trace.append({"action": "alloc", "addr": free - size, "size": size, **event})
    segment = {"device": 0, "address": 0x7F0000000000, "total_size": free - 0x7F0000000000, "stream": 0}
    blocks = []
    at = 0x7F0000000000
    for address, size in sorted(live):
        if address > at:
            blocks.append({"address": at, "size": address - at, "requested_size": 0, "state": "inactive", "frames": []})
        blocks.append({"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": []})
        at = address + size
    if at < free:
        blocks.append({"address": at, "size": free - at, "requested_size": 0, "state": "inactive", "frames": []})
    used = sum(size for _, size in live)
    segment |= {"allocated_size": used, "active_size": used, "requested_size": used, "segment_type": "large"}
    segment |= {"segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}
    snapshot = {"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}
    path.write_bytes(pickle.dumps(snapshot, protocol=4))


def way(name: str, path: str) -> object:
    if name.startswith("pickle"):
        with open(path, "rb") as file:
            traces = pickle.load(file)["device_traces"]
        rows = [
            (device, at, event["time_us"], event["action"], event["addr"], event["size"], event["stream"])
            for device, trace in enumerate(traces)
            for at, event in enumerate(trace)
        ]
        if name == "pickle":
            return rows
        import pandas

        return pandas.DataFrame(rows, columns=COLUMNS[:7])
    import memreel

    events = memreel.load(path).events
    if name == "pyarrow":
        import pyarrow

        return pyarrow.table(events)
    if name == "polars":
        import polars

        return polars.DataFrame(events)
    if name == "pandas":
        return events.to_pandas()
    import duckdb

    return duckdb.sql("select action, count(*), sum(size_bytes) from events group by all order by all").fetchall()


def resident_kib(kind: str) -> int:
    """The resident memory of this process: VmHWM, the most, or RssAnon, that without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind))


class Sampler(threading.Thread):
    """Looks at the memory without mapped files every millisecond or as often as it gets to run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0

    def run(self) -> None:
        while True:
            self.most = max(self.most, resident_kib("RssAnon"))
            time.sleep(0.001)


def child(name: str, path: str) -> None:
    """Runs one way, without the time of its imports."""
    # pyarrow looks whether what it is given is a data frame of pandas.
    modules = {"pickle": [], "pickle, pandas": ["pandas"], "pyarrow": ["pyarrow", "pandas", "memreel"]}
    for module in modules.get(name, [name, "memreel"]):
        __import__(module)
    # The peak of what is resident begins anew.
    Path("/proc/self/clear_refs").write_text("5")
    before, anonymous = resident_kib("VmHWM"), resident_kib("RssAnon")
    sampler = Sampler()
    sampler.start()
    begin = time.perf_counter()
    made = way(name, path)
    seconds = time.perf_counter() - begin
    peak, most = resident_kib("VmHWM"), max(sampler.most, resident_kib("RssAnon"))
    assert made is not None
    grown = {"grown_mib": (peak - before) / 1024, "anonymous_mib": (most - anonymous) / 1024}
    print(json.dumps({"seconds": seconds, **grown}))


def main() -> None:
    n_events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.pickle"
        make(path, n_events)
        ways = ["pickle", "pickle, pandas", "pyarrow", "polars", "pandas", "duckdb"]
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name in ways:
                command = [sys.executable, __file__, "--child", name, str(path)]
                found[name].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        size_mib = path.stat().st_size / (1 << 20)
    least = {name: min(runs, key=lambda run: run["seconds"]) for name, runs in found.items()}
    for name, run in least.items():
        peer = least["pickle, pandas" if name == "pandas" else "pickle"]
        ratios = {"times_faster": peer["seconds"] / run["seconds"]}
        ratios |= {f"times_less_{kind}": peer[kind] / run[kind] for kind in ("grown_mib", "anonymous_mib")}
        print(json.dumps({"way": name, "events": n_events, "file_mib": size_mib, **run, **ratios}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
    else:
        main()
