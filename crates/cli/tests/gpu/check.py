"""Called by `run`, which says what it does. usage: check.py FOLDER"""

import json
import os
import pathlib
import subprocess
import sys
import time

FOLDER = pathlib.Path(sys.argv[1])
MEMREEL = os.environ["MEMREEL_PROGRAM"]
HERE = pathlib.Path(__file__).parent


def program(name, *options, conf="", snapshot=None):
    environment = dict(os.environ, PYTORCH_ALLOC_CONF=conf)
    file = FOLDER / (snapshot or f"{name}-fixed.pickle")
    command = [sys.executable, str(HERE / "programs.py"), name, str(file), *map(str, options)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    if ended.returncode != 0:
        sys.exit(f"{name}: {ended.stderr}")
    return json.loads(ended.stdout)


def memreel(*arguments):
    ended = subprocess.run([MEMREEL, *map(str, arguments)], capture_output=True, text=True)
    return ended.stdout + ended.stderr


def causes(file):
    return json.loads(memreel("oom", "--json", file))["causes"]


def check(name, expected):
    """Returns what is wrong."""
    file = FOLDER / f"{name}.pickle"
    began = time.monotonic()
    broken = program(name, snapshot=file.name)
    print(f"-- {name}: {file.stat().st_size} bytes, {time.monotonic() - began:.0f} s, failed: {broken['failed']}")
    print(memreel("oom", file))
    print("\n".join(memreel("replay", "--sweep", "-n", "3", file).splitlines()[:14]))
    first = causes(file)[0]
    if not broken["failed"] or first["kind"] != expected:
        return f"{name}: the first cause is {first}"
    foretold, fixed = None, None
    if expected == "limited":
        foretold = json.loads(memreel("oom", "--json", file))["tried"]["needed_bytes"]
        fixed = program(name, "--limit", foretold)
    elif first["conf"]:
        conf = first["conf"]
        rows = [json.loads(line) for line in memreel("replay", "--json", "--conf", conf, file).splitlines()]
        foretold, fixed = rows[0]["reserved_peak_bytes"], program(name, conf=conf)
    else:
        fixed = program(name, "--fixed")
    print(f"after the advice: {fixed}, foretold: {foretold}")
    if fixed["failed"]:
        return f"{name}: it fails again"
    if foretold and abs(fixed["reserved_peak_bytes"] - foretold) > foretold / 100:
        return f"{name}: a peak of {fixed['reserved_peak_bytes']}, and {foretold} was foretold"
    return None


CLASSIC = {"keeps_losses": "grew", "longer_batch": "grew", "fragmented": "fragmented", "limited": "limited", "server": "grew"}
wrong = [fault for fault in (check(name, expected) for name, expected in CLASSIC.items()) if fault]
print("\n".join(wrong) or "five of five are right")
sys.exit(4 if wrong else 0)
