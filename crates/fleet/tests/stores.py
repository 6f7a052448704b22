"""The same answers from an object store as from the folder that was copied to it. `s3.py`, `gs.py` and `az.py` use it."""

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

# The bucket, or the container, that a test makes.
BUCKET = "runs"

QUERIES = [
    "select count(*), sum(size_bytes), max(stack) from events",
    "select rank, peak_bytes from runs order by rank, peak_bytes",
    "select rank, count(*) from events where rank in (3, 20) group by 1 order by 1",
    "select site, sum(represented_bytes) s from peak() group by 1 order by s, site",
]


def skip(why):
    """Ends the script where something is not installed."""
    print(f"skipped: {why}")
    sys.exit(77)


def free_port():
    """Returns a port that is free with the next one, below those that the system gives to clients."""
    while True:
        port = random.randrange(10_000, 32_000, 2)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            return port


@contextlib.contextmanager
def server(words, ready, environment=None):
    """Runs a server; waits until `ready()` does not fail."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(300):
                try:
                    ready()
                    break
                except Exception as error:
                    last = error
                assert process.poll() is None, f"{words[0]} has ended: {output(log)}"
                time.sleep(0.1)
            else:
                raise AssertionError(f"{words[0]} does not answer: {last}; {output(log)}")
            yield
        finally:
            process.terminate()
            process.wait()


def output(log):
    log.seek(0)
    return log.read().decode(errors="replace")[-2000:]


def check(scheme, upload, variables):
    """Checks the answers of addresses that begin with `scheme`.

    `upload(key, path)` copies a file to the bucket. `variables` are those by which memreel-fleet finds the server.
    """
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as out:
        run([program, "export", "--parquet", out, str(folder)])
        upload_all(upload, folder, "job7/")
        upload_all(upload, pathlib.Path(out), "tables/")
    # A store would read the first two as settings, though they are other programs' variables. The third value is not UTF-8.
    strange = {b"TIMEOUT": b"soon", b"ENDPOINT": b"http://127.0.0.1:1", b"AWS_NAME": b"\xff"}
    environment = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    environment = {**os.environb, **strange, **environment}
    start = f"{scheme}://{BUCKET}"
    n_checked = 0
    for query in QUERIES:
        here = run([program, "query", query, str(folder), "--format", "csv"])
        addresses = [f"{start}/job7/", f"{start}/job7", f"{start}/job7/*.pickle", f"{start}/job*/**"]
        # A moment needs a snapshot.
        addresses += [] if "peak()" in query else [f"{start}/tables/"]
        for address in addresses:
            there = run([program, "query", query, address, "--format", "csv"], environment)
            assert here == there, f"{query}\n{address}\n{here}\n{there}"
            n_checked += 1
    one = f"{start}/job7/rank0.pickle"
    rows = run([program, "query", "select distinct job, rank, file from runs", one, "--format", "csv"], environment)
    assert rows.splitlines()[1:] == [f"job7,0,{one}"], rows
    for bucket in [start, f"{start}/"]:
        run([program, "query", "select count(*) from runs", bucket], environment)
    on_cluster(program, environment, f"{start}/job7/", folder)
    for wrong in [f"{start}/none/", f"{start}/none.pickle", f"{scheme}://none/x/"]:
        done = subprocess.run([program, "query", "select 1", wrong], env=environment, capture_output=True, text=True)
        assert done.returncode == 3 and wrong in done.stderr, done
    print(f"{scheme}: {n_checked} answers, and one of a cluster, are those of the folder")


def on_cluster(program, environment, address, folder):
    """An executor reads the store itself, with the keys of its own environment; the client's list the files."""
    scheduler, executor = free_port(), free_port()
    cluster = f"df://127.0.0.1:{scheduler}"
    # An executor has two ports, the second one after the first.
    words = [program, "executor", cluster, "--port", str(executor), "--cores", "1"]
    quiet = {**environment, b"RUST_LOG": b"off"}
    query = QUERIES[1]

    def asked():
        done = [program, "query", "--ballista", cluster, query, address, "--format", "csv"]
        return subprocess.run(done, env=environment, capture_output=True, text=True)

    def executes():
        done = asked()
        assert done.returncode == 0 and not done.stderr, done

    with server([program, "scheduler", "--port", str(scheduler)], lambda: listens(scheduler), quiet):
        with server(words, executes, quiet):
            there = asked().stdout
    here = run([program, "query", query, str(folder), "--format", "csv"])
    assert here == there, f"on a cluster: {query}\n{here}\n{there}"


def listens(port):
    socket.create_connection(("127.0.0.1", port)).close()


def upload_all(upload, folder, prefix):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            upload(prefix + str(path.relative_to(folder)), path)


def run(words, environment=None):
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout
