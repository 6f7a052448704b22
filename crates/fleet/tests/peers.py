"""DuckDB and Polars read the exported folder and give the same answers as memreel-fleet gives of the snapshots.

    python3 tests/peers.py PROGRAM FOLDER

Exits with 77 where neither is installed.
"""

import functools
import sys
import tempfile

from answers import TABLES, compare, export

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


def by_duckdb(module, out, query):
    connection = module.connect()
    for table in TABLES:
        connection.sql(f"create view {table} as select * from read_parquet('{out}/{table}/*/*/*.parquet')")
    return connection.sql(query).fetchall()


def by_duckdb_with_folders(module, out, query):
    connection = module.connect()
    for table in TABLES:
        files = f"read_parquet('{out}/{table}/**/*.parquet', hive_partitioning = true)"
        connection.sql(f"create view {table} as select * from {files}")
    return connection.sql(query).fetchall()


def by_polars(module, out, query):
    frames = {table: module.scan_parquet(f"{out}/{table}/**/*.parquet") for table in TABLES}
    context = module.SQLContext(frames=frames)
    return context.execute(query, eager=True).rows()


def main():
    program, folder = sys.argv[1], sys.argv[2]
    if not engines:
        sys.exit(77)
    with tempfile.TemporaryDirectory() as out:
        export(program, folder, out)
        for name, way in [("duckdb", by_duckdb), ("duckdb", by_duckdb_with_folders), ("polars", by_polars)]:
            if name in engines:
                engine = engines[name]
                answer = functools.partial(way, engine, out)
                compare(way.__name__, engine.__version__, answer, program, folder)


if __name__ == "__main__":
    main()
