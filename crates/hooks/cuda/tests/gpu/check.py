"""Compares what a program counted with what was recorded. usage: check.py COUNTED.json SNAPSHOT.pickle OWNERS.json"""

import json
import pickle
import sys
from pathlib import Path

counted = json.loads(Path(sys.argv[1]).read_text())
snapshot = pickle.loads(Path(sys.argv[2]).read_bytes())
tables = [json.loads(line) for line in Path(sys.argv[3]).read_text().splitlines()]
segments = sorted((s["address"], s["total_size"], s["device"]) for s in snapshot["segments"])
events = [(e["action"], e.get("addr"), e["size"]) for trace in snapshot["device_traces"] for e in trace]
result = {"program": counted["program"], "events": len(events)}

# What a program allocated is within memory that was got from the device at its address.
got = [(a, n) for action, a, n in events if action in ("segment_alloc", "segment_map")]
got += [(a, n) for a, n, _ in segments]
missing = [b for b in counted["blocks"] if not any(a <= b[0] and b[0] + b[1] <= a + n for a, n in got)]
if counted["program"] in ("expandable", "jax"):  # one block may be in several pieces
    missing = [b for b in missing if not any(a <= b[0] < a + n for a, n in got)]
result["blocks"], result["missing"] = len(counted["blocks"]), missing
if "segments" in counted:
    own = {(a, n) for a, n in counted["segments"]}
    recorded = {(a, n) for action, a, n in events if action in ("segment_alloc", "segment_map")}
    covered = lambda a, n: sum(m for b, m in recorded if a <= b and b + m <= a + n) >= n
    result["pytorch_segments"] = len(own)
    result["pytorch_segments_missing"] = [s for s in own if s not in recorded and not covered(*s)]
names = [f["name"] for e in snapshot["device_traces"][0] for f in e.get("frames", []) if "programs.py" in f["filename"]]
result["events_with_own_lines"] = sum(any("programs.py" in f["filename"] for f in e.get("frames", [])) for e in snapshot["device_traces"][0])
result["own_functions"] = sorted(set(names))[:8]
for table in tables:
    if table.get("used_peak_bytes"):
        rows = {row["owner"] if "owner" in row else row.get("kind", "?"): row for row in table["rows"]}
        mb = lambda n: None if n is None else round(n / 2**20, 1)
        result[f"device_{table['device']}"] = {"used": mb(table["used_peak_bytes"]), **{k: mb(r.get("peak_bytes")) for k, r in rows.items()}}
# What sleeps has no memory, and what woke up has it again.
is_near = lambda found, told: abs(found - told) <= told / 100
if "kept" in counted:
    shared = lambda a, n: min(n, sum(max(0, min(a + n, b + m) - max(a, b)) for b, m, _ in segments))
    result["slept"], result["kept"] = counted.get("slept"), sum(shared(*block) for block in counted["blocks"])
wrong = not is_near(result.get("kept", 0), counted.get("kept", 0))
# What the program knows of single rows.
bytes_of = lambda rows, owner, when: sum(r[f"{when}_bytes"] or 0 for r in rows if r["owner"] == owner)
for name, owner, when, told in counted.get("rows", []):
    found = sum(bytes_of(t["rows"] + t["outside"], owner, when) for t in tables if name in (t["device"], t["name"]))
    result.setdefault("rows" if is_near(found, told) else "other_rows", []).append([name, owner, when, found, told])
result |= {key: counted[key] for key in ("notes", "held") if counted.get(key)}
# The sum of the rows is what the device reports, and no row has less than nothing.
for table in tables:
    for when in ("now", "peak"):
        rest = bytes_of(table["rows"], "unexplained", when)
        if used := table.get(f"used_{when}_bytes"):
            result.setdefault("percent", []).append([table["device"], when, round(100 * (used - rest) / used, 2)])
            if abs(rest) > used / 100:
                result.setdefault("unexplained", []).append([table["device"], when, rest, used])
        below = [[table["device"], r["owner"], when, r[f"{when}_bytes"]] for r in table["rows"] if (r[f"{when}_bytes"] or 0) < 0]
        result["below_zero"] = result.get("below_zero", []) + [row for row in below if row[1] != "unexplained"]
print(json.dumps(result))
sys.exit(bool(missing or wrong or any(result.get(key) for key in ("pytorch_segments_missing", "unexplained", "other_rows", "below_zero"))))
