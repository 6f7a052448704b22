"""Spark reads the exported folder and gives the same answers as memreel-fleet gives of the snapshots.

    python3 tests/spark.py PROGRAM FOLDER

Exits with 77 where PySpark or Java is not installed.
"""

import os
import shutil
import sys
import tempfile

from answers import TABLES, compare, export

try:
    import pyspark
    from pyspark.sql import SparkSession
except ImportError as missing:
    print(f"skipped: {missing}; pip install pyspark")
    sys.exit(77)

# Options of the reader. Without the first, Spark takes `job` and `rank` from the names of the folders.
WAYS = {"by_spark": {"recursiveFileLookup": "true"}, "by_spark_with_folders": {}}

SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main():
    program, folder = sys.argv[1], sys.argv[2]
    if not shutil.which("java"):
        print("skipped: java is not installed")
        sys.exit(77)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryDirectory() as own:
        export(program, folder, out)
        settings = {**SETTINGS, "spark.local.dir": own, "spark.sql.warehouse.dir": own}
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        try:
            for name, options in WAYS.items():
                for table in TABLES:
                    spark.read.options(**options).parquet(f"{out}/{table}").createOrReplaceTempView(table)
                check_types(spark)
                compare(name, pyspark.__version__, lambda query: spark.sql(query).collect(), program, folder)
        finally:
            spark.stop()


def check_types(spark):
    """Spark has no unsigned numbers: it reads them as decimals, which have all of their values."""
    types = dict(spark.table("events").dtypes)
    assert types["size_bytes"] == "decimal(20,0)" and types["time_us"] == "bigint", types
    assert types["rank"] in ("bigint", "int") and types["stack"] == "string", types


if __name__ == "__main__":
    main()
