"""The ways to ask memreel about a process that runs: `memreel watch`, the metrics, and the page of `memreel view --live`.

Each answer has what PyTorch reserved on a device and what the device reports as used, both in bytes; None without figures.
MEMREEL_PROGRAM names the program memreel, METRICS the address of the metrics (127.0.0.1:9464).
"""

import json
import os
import re
import subprocess
import urllib.request

MEMREEL = os.environ["MEMREEL_PROGRAM"]
METRICS = "http://" + os.environ.get("METRICS", "127.0.0.1:9464") + "/metrics"
SERIES = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# memreel itself is not recorded, and prints an address of this machine alone.
PLAIN = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "SSH_CONNECTION")}
# A proxy of the environment knows nothing of this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def text_at(address):
    with OPENER.open(address, timeout=10) as answer:
        return answer.read().decode()


def figures(device):
    """The figures in an object of `memreel watch --json`, or in one that the live page asks for."""
    reserved = sum(row["bytes"] for row in device["owners"] if row["owner"] == "pytorch")
    return {"reserved": reserved, "used": device["used_bytes"]}


def of_device(devices, process, number):
    found = (figures(device) for device in devices if (device["process"], device["device"]) == (process, number))
    return next(found, None)


def watch(process, number):
    command = [MEMREEL, "watch", "--once", "--json", "-n", "20", str(process)]
    ended = subprocess.run(command, env=PLAIN, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if ended.returncode != 0:
        raise OSError(f"memreel watch ended with {ended.returncode}: {ended.stderr}")
    return of_device(map(json.loads, ended.stdout.splitlines()), process, number)


def metrics(process, number):
    found = {}
    for name, labels, value in (match.groups() for match in map(SERIES.match, text_at(METRICS).splitlines()) if match):
        labels = dict(LABEL.findall(labels))
        if (labels.get("process"), labels.get("device")) != (str(process), str(number)):
            continue
        if name == "memreel_used_bytes":
            found["used"] = int(value)
        if name == "memreel_owner_bytes" and labels["owner"] == "pytorch":
            found["reserved"] = found.get("reserved", 0) + int(value)
    return found or None


class Page:
    """A `memreel view --live` that follows processes, and the address at which its page asks."""

    def __init__(self, processes):
        # It ends by itself if this process cannot end it.
        command = [MEMREEL, "view", "--live", "--no-open", "--print-address", "--idle", "5", *map(str, processes)]
        self.server = subprocess.Popen(command, env=PLAIN, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.address = self.server.stdout.readline().strip()
        if not self.address.startswith("http://127.0.0.1:"):
            self.end()
            raise OSError(f"memreel view --live has no address: {self.address!r}")

    def end(self):
        self.server.terminate()
        self.server.wait(timeout=60)


def live(address):
    """How the page at an address asks."""
    return lambda process, number: of_device(json.loads(text_at(address + "live"))["devices"], process, number)
