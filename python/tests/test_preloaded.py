"""Recording in a process that was started under `memreel record`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import memreel
from memreel._libraries import folder

pytestmark = pytest.mark.skipif(folder() is None, reason="the libraries of memreel record are not installed here")

PROGRAM = """
import memreel
with memreel.record("part.pickle"):
    with memreel.scope("mine"):
        block = bytearray(10_000_000)
    del block
memreel.dump("{pid}.pickle")
try:
    memreel.dump("no/such/folder.pickle")
except memreel.UnreadableError as error:
    print(error)
"""


def test_everything_is_recorded_with_the_scopes_of_the_program(tmp_path):
    command = [sys.executable, "-m", "memreel", "record", "--heap", "-o", "all.pickle", "--", sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    assert "no/such does not exist" in ended.stdout
    for name in ("part.pickle", "all.pickle"):
        snapshot = memreel.load(tmp_path / name)
        (block,) = [row for row in snapshot.events if row["action"] == "alloc" and row["size_bytes"] > 10_000_000]
        assert block["scope"] == "record/mine", name
        assert not any("error" in str(finding.severity) for finding in snapshot.validate())
    # What was recorded after the part is in the file of the whole run alone.
    assert memreel.load(tmp_path / "all.pickle").n_events > memreel.load(tmp_path / "part.pickle").n_events


FOLLOWED = """
import json, sys, time, urllib.request
import memreel
block = None
with memreel.record("part.pickle", live=True) as recording:
    address = recording._page.address
    block = bytearray(10_000_000)
    until = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(address + "live") as answer:
            devices = json.load(answer)["devices"]
        if devices and devices[0]["live_bytes"] > 10_000_000:
            break
        assert time.monotonic() < until, devices
        time.sleep(0.05)
print(address, devices[0]["process"])
try:
    urllib.request.urlopen(address)
except OSError:
    print("closed")
"""


def test_a_page_follows_the_program_while_it_is_recorded(tmp_path):
    command = [sys.executable, "-m", "memreel", "record", "--heap", "-o", "all.pickle", "--", sys.executable, "-c", FOLLOWED]
    # A terminal of SSH: no browser is opened.
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "SSH_TTY": "none"})
    assert ended.returncode == 0, ended.stderr
    address, process = ended.stdout.splitlines()[0].split()
    assert "memreel: the live page is open" in ended.stderr and address not in ended.stderr, "a log has no key to the page"
    assert f"process {process}:" in ended.stderr
    assert ended.stdout.splitlines()[1] == "closed"
    # What serves the page is not recorded with the program.
    assert sorted(path.name for path in tmp_path.glob("*.pickle")) == ["all.pickle", "part.pickle"]


MEASURED = """
import os, time, urllib.error, urllib.request
import memreel
block = bytearray(10_000_000)
with memreel.serve_metrics("127.0.0.1:0", sites=1) as server:
    until = time.monotonic() + 60
    text = ""
    while f'process="{os.getpid()}"' not in text:
        assert time.monotonic() < until, text
        try:
            text = urllib.request.urlopen(server.address).read().decode()
        except urllib.error.HTTPError as not_yet:
            assert not_yet.code == 503
            time.sleep(0.05)
    try:
        memreel.serve_metrics(server.address.split("/")[2])
    except memreel.Error as taken:
        assert "is in use" in str(taken), taken
with open("token", "w") as file:
    file.write("secret")
with memreel.serve_metrics("127.0.0.1:0", token_file="token") as server:
    try:
        urllib.request.urlopen(server.address)
    except urllib.error.HTTPError as refused:
        assert refused.code == 401
    else:
        raise AssertionError("no token was asked for")
    asked = urllib.request.Request(server.address, headers={"Authorization": "Bearer secret"})
    try:
        urllib.request.urlopen(asked)
    except urllib.error.HTTPError as not_yet:
        assert not_yet.code == 503
print(text)
"""


def test_metrics_are_those_of_the_process(tmp_path):
    command = [sys.executable, "-m", "memreel", "record", "--heap", "-o", "all.pickle", "--", sys.executable, "-c", MEASURED]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (live,) = [line for line in ended.stdout.splitlines() if line.startswith("memreel_allocated_bytes{")]
    assert int(live.split()[-1]) > 10_000_000
    assert "memreel_site_bytes{" in ended.stdout
    # What serves them is not recorded with the program.
    assert [path.name for path in tmp_path.glob("*.pickle")] == ["all.pickle"]


def test_a_process_without_a_tape_cannot_be_followed():
    for follow in (lambda: memreel.live(open=False), lambda: memreel.serve_metrics("127.0.0.1:0")):
        with pytest.raises(memreel.RecordingError, match="memreel record -- python"):
            follow()


def test_an_address_without_a_port_is_named():
    with pytest.raises(memreel.UsageError, match="is not an address and a port"):
        memreel.serve_metrics("localhost")


def test_the_program_s_status_is_passed_on(tmp_path):
    command = [sys.executable, "-m", "memreel", "record", "--heap", "-o", "x.pickle", "--", "sh", "-c", "exit 7"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 7
