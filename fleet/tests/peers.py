"""DuckDB and Polars read the exported folder and give the same answers as memreel-fleet gives of the snapshots.

    python3 tests/peers.py PROGRAM FOLDER

Exits with 77 where neither is installed.
"""

import csv
import io
import subprocess
import sys
import tempfile

engines = {}
try:
    import duckdb

    engines["duckdb"] = duckdb
except ImportError:
    print("skipped: duckdb is not installed (pip install duckdb)")
try:
    import polars

    engines["polars"] = polars
except ImportError:
    print("skipped: polars is not installed (pip install polars)")

TABLES = ["events", "allocations", "segments", "blocks", "stacks", "frames", "annotations", "runs"]

# In the words that the three engines share.
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


def fleet(program, query, address):
    words = [program, "query", query, address, "--format", "csv"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return ordered(list(csv.reader(io.StringIO(done.stdout)))[1:])


def ordered(rows):
    return sorted([["" if value is None else text(value) for value in row] for row in rows])


def text(value):
    return str(int(value)) if not isinstance(value, str) else value


def by_duckdb(module, out, query):
    connection = module.connect()
    for table in TABLES:
        connection.sql(f"create view {table} as select * from read_parquet('{out}/{table}/*/*/*.parquet')")
    return ordered(connection.sql(query).fetchall())


def by_duckdb_with_folders(module, out, query):
    connection = module.connect()
    for table in TABLES:
        files = f"read_parquet('{out}/{table}/**/*.parquet', hive_partitioning = true)"
        connection.sql(f"create view {table} as select * from {files}")
    return ordered(connection.sql(query).fetchall())


def by_polars(module, out, query):
    frames = {table: module.scan_parquet(f"{out}/{table}/**/*.parquet") for table in TABLES}
    context = module.SQLContext(frames=frames)
    return ordered(context.execute(query, eager=True).rows())


def main():
    program, folder = sys.argv[1], sys.argv[2]
    if not engines:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([program, "export", "--parquet", out, folder], check=True, capture_output=True)
        ways = [("duckdb", by_duckdb), ("duckdb", by_duckdb_with_folders), ("polars", by_polars)]
        for name, way in ways:
            if name not in engines:
                continue
            n_rows = 0
            for query in QUERIES:
                expected = fleet(program, query, folder)
                found = way(engines[name], out, query)
                assert expected, f"{query} has rows"
                assert found == expected, f"{way.__name__}: {query}\n{expected[:5]}\n{found[:5]}"
                n_rows += len(found)
            version = engines[name].__version__
            print(f"{way.__name__} ({version}): {len(QUERIES)} answers, {n_rows} rows, are the same")


main()
