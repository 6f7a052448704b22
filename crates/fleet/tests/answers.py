"""Queries that several engines answer, and the answers of memreel-fleet. `peers.py` and `spark.py` use it."""

import csv
import io
import subprocess

TABLES = ["events", "allocations", "segments", "blocks", "stacks", "frames", "annotations", "runs"]

# Only syntax that all of the engines have.
QUERIES = [
    "select action, count(*) as n, max(size_bytes) as size from events group by action",
    "select rank, max(peak_bytes) as peak, count(*) as n from runs group by rank",
    "select job, rank, count(*) as n from events where rank > 3 and rank < 20 group by job, rank",
    "select site, sum(represented_bytes) as bytes, count(*) as n from allocations "
    "where state = 'active_allocated' group by site",
    "select device, sum(size_bytes) as bytes from segments where is_expandable group by device",
    "select state, sum(size_bytes) as bytes, count(*) as n from blocks group by state",
    "select function, filename, line, count(*) as n from frames group by function, filename, line",
    "select stage, name, count(*) as n from annotations group by stage, name",
    "select stack, count(*) as n from events where action = 'oom' group by stack",
    "select count(*) as n from stacks",
]


def export(program, folder, out):
    """Writes the tables of the snapshots in `folder` to `out`."""
    subprocess.run([program, "export", "--parquet", out, folder], check=True, capture_output=True)


def fleet(program, query, address):
    """Returns the answer of memreel-fleet."""
    words = [program, "query", query, address, "--format", "csv"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return ordered(list(csv.reader(io.StringIO(done.stdout)))[1:])


def ordered(rows):
    """Returns rows as texts, in one order for all engines."""
    return sorted([["" if value is None else text(value) for value in row] for row in rows])


def text(value):
    return str(int(value)) if not isinstance(value, str) else value


def compare(name, version, answer, program, folder):
    """Checks the answers that `answer(query)` returns as rows."""
    n_rows = 0
    for query in QUERIES:
        expected = fleet(program, query, folder)
        found = ordered(answer(query))
        assert expected, f"{query} has rows"
        assert found == expected, f"{name}: {query}\n{expected[:5]}\n{found[:5]}"
        n_rows += len(found)
    print(f"{name} ({version}): {len(QUERIES)} answers, {n_rows} rows, are the same")
