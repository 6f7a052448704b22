"""Compares what every.c says that it has with what was recorded. usage: every.py end|reset TRUTH.txt MEMREEL SNAPSHOT.pickle …

The first snapshot is that of the process that was started; the name of another one ends with its process's number.
"""

import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

mode, truth_file, memreel, *files = sys.argv[1:]
OF_THE_DRIVER = 1 << 52
truth = {}
for line in Path(truth_file).read_text().splitlines():
    process, kind, address, size = line.split()
    truth.setdefault(process, []).append((kind, int(address), int(size)))
wrong = []


def joined(ranges):
    """Neighbours as one range."""
    joined = []
    for start, size in sorted(ranges):
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((start, size))
    return joined


def compare(name, snapshot, tables, said, is_reset):
    pinned = [t["device"] for t in tables if t["name"] == "pinned host memory"]
    live = {0: {}, "pinned": {}, "driver": Counter()}
    for segment in snapshot["segments"]:
        if segment["device"] != 0 and segment["device"] not in pinned:
            continue  # The heap.
        for block in segment["blocks"]:
            if not block["state"].startswith("active"):
                continue
            if block["address"] >= OF_THE_DRIVER:
                live["driver"][block["requested_size"]] += 1
            else:
                live["pinned" if segment["device"] in pinned else segment["device"]][block["address"]] = block["requested_size"]
    of = lambda *kinds: {address: size for kind, address, size in said if kind in kinds}
    events = {(e["action"], e.get("addr"), e["size"]) for trace in snapshot["device_traces"] for e in trace}
    for kind, address, size in said:
        if kind == "block" and ("alloc", address, size) not in events:
            wrong.append(f"{name}: block {address} of {size} was never recorded")
    if is_reset:
        # What is mapped is of no context.
        wrong.extend(f"{name}: {a} of {n} is live after the reset" for a, n in live[0].items() if a not in of("mapped"))
        wrong.extend(f"{name}: pinned {a} of {n} is live after the reset" for a, n in live["pinned"].items())
        return
    wrong.extend(f"{name}: {a} of {n} is recorded as {live[0].get(a)}" for a, n in of("block").items() if live[0].get(a) != n)
    wrong.extend(f"{name}: pinned {a} of {n} is recorded as {live['pinned'].get(a)}" for a, n in of("pinned").items() if live["pinned"].get(a) != n)
    # A mapping is a block too.
    wrong.extend(f"{name}: {a} of {n} is not live" for a, n in live[0].items() if a not in of("block", "imported", "mapped"))
    wrong.extend(f"{name}: mapped {a} of {n} is recorded as {live[0].get(a)}" for a, n in of("mapped").items() if live[0].get(a) != n)
    missing = Counter(size for kind, _, size in said if kind == "array") - live["driver"]
    wrong.extend(f"{name}: {n} arrays of {size} are missing" for size, n in missing.items())
    mapped = joined((s["address"], s["total_size"]) for s in snapshot["segments"] if s.get("is_expandable"))
    has = lambda address: any(start <= address < start + size for start, size in mapped)
    imported = [(a, n) for a, n in of("imported").items() if has(a)]
    if mapped != joined([*of("mapped").items(), *imported]):
        wrong.append(f"{name}: mapped {mapped} and not {joined([*of('mapped').items(), *imported])}")
    for address, size in of("imported").items():
        if address in live[0] and live[0][address] < size:
            wrong.append(f"{name}: imported {address} of {size} has {live[0][address]}")


def table_of(name, table, said):
    rows = {row["owner"]: row for row in table["rows"]}
    show = lambda n: "not visible" if n is None else f"{n / 2**20:.1f}"
    print(name, "used", show(table["used_now_bytes"]), show(table["used_peak_bytes"]))
    for row in table["rows"] + table["outside"]:
        print(f"  {row['owner']:16} {show(row['now_bytes']):>12} {show(row['peak_bytes']):>12}", (row.get("stack") or [{"name": ""}])[0]["name"])
    for column, used in ("now_bytes", "used_now_bytes"), ("peak_bytes", "used_peak_bytes"):
        if abs(rows["unexplained"][column]) * 100 > table[used]:
            wrong.append(f"{name}: {column} of unexplained is {rows['unexplained'][column]} of {table[used]}")
    shown = [frame["name"] for frame in rows["program"].get("stack") or [] if frame["is_shown"]]
    if not shown or shown[0].startswith(("cu", "libcudart")):
        wrong.append(f"{name}: the program's memory is asked for by {shown[:1]}")
    unmapped = sum(size for kind, _, size in said if kind == "unmapped")
    if rows.get("memory:unmapped", {"now_bytes": 0})["now_bytes"] != unmapped:
        wrong.append(f"{name}: not {unmapped} of memory:unmapped")


numbered = {process: file for file in files for process in truth if file.endswith(f"-{process}.pickle")}
for process, said in truth.items():
    file = numbered.get(process, files[0])
    with open(file, "rb") as opened:
        snapshot = pickle.load(opened)
    lines = subprocess.run([memreel, "owners", "--json", file], check=True, capture_output=True, text=True).stdout
    tables = [json.loads(line) for line in lines.splitlines()]
    compare(file, snapshot, tables, said, mode == "reset" and process not in numbered)
    table_of(file, next(t for t in tables if t["device"] == 0), said)
lines = subprocess.run([memreel, "owners", "--json", *files], check=True, capture_output=True, text=True).stdout
table_of("both", next(t for t in map(json.loads, lines.splitlines()) if t["device"] == 0), truth[max(truth, key=lambda p: len(truth[p]))])
print(*wrong, sep="\n")
sys.exit(bool(wrong))
