"""The console script: the whole program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILE = next((Path(__file__).parents[2] / "fixtures" / "torch-2.11").rglob("resnet18*.pickle"))


def memreel(*words):
    return subprocess.run([sys.executable, "-m", "memreel", *map(str, words)], capture_output=True, text=True)


def test_it_answers_with_the_program_s_statuses(tmp_path):
    assert memreel("--version").stdout.startswith("memreel 0.")
    assert "peak" in memreel(FILE).stdout
    assert memreel("top", "--at", "nonsense", FILE).returncode == 2
    missing = memreel("top", tmp_path / "no.pickle")
    assert missing.returncode == 3 and "Traceback" not in missing.stderr
    assert memreel("gate", "--max-peak", "1MiB", FILE).returncode == 4


def test_a_reader_that_leaves_is_not_an_error():
    command = f"{sys.executable} -m memreel trace {FILE} | head -1"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert ended.stdout and ended.stderr == ""


def test_importing_loads_nothing_else():
    text = "import sys; before = set(sys.modules); import memreel; print(sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert loaded.stdout == "['__future__', 'memreel', 'memreel._errors']\n"
