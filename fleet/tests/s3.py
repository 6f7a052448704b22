"""The same answers from a local S3 server (moto) as from the folder that was copied to it.

    python3 tests/s3.py PROGRAM FOLDER

Exits with 77 where moto or boto3 is not installed.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

try:
    import boto3
    import moto.server  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; pip install 'moto[server]' boto3")
    sys.exit(77)

QUERIES = [
    "select count(*), sum(size_bytes), max(stack) from events",
    "select rank, peak_bytes from runs order by rank, peak_bytes",
    "select rank, count(*) from events where rank in (3, 20) group by 1 order by 1",
    "select site, sum(represented_bytes) s from peak() group by 1 order by s, site",
]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    endpoint = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ.update(keys)
    try:
        client = connected(endpoint, server)
        client.create_bucket(Bucket="runs")
        with tempfile.TemporaryDirectory() as out:
            run([program, "export", "--parquet", out, str(folder)])
            upload(client, folder, "job7/")
            upload(client, pathlib.Path(out), "tables/")
        environment = dict(os.environ, AWS_ENDPOINT=endpoint, AWS_ALLOW_HTTP="true")
        n_checked = 0
        for query in QUERIES:
            here = run([program, "query", query, str(folder), "--format", "csv"])
            addresses = ["s3://runs/job7/", "s3://runs/job7/*.pickle", "s3://runs/job*/**"]
            # A moment needs a snapshot.
            addresses += [] if "peak()" in query else ["s3://runs/tables/"]
            for address in addresses:
                there = run([program, "query", query, address, "--format", "csv"], environment)
                assert here == there, f"{query}\n{address}\n{here}\n{there}"
                n_checked += 1
        wrong = subprocess.run(
            [program, "query", "select 1", "s3://none/x/"], env=environment, capture_output=True, text=True
        )
        assert wrong.returncode == 3 and "s3://none/x/" in wrong.stderr, wrong
        print(f"s3: {n_checked} answers are those of the folder")
    finally:
        server.terminate()
        server.wait()


def connected(endpoint, server):
    """Waits until the server answers."""
    client = boto3.client("s3", endpoint_url=endpoint)
    for _ in range(300):
        assert server.poll() is None, "moto's server has ended; pip install 'moto[server]'"
        try:
            client.list_buckets()
            return client
        except Exception:
            time.sleep(0.1)
    raise AssertionError("moto's server does not answer")


def upload(client, folder, prefix):
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "runs", prefix + str(path.relative_to(folder)))


def run(words, environment=None):
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


main()
