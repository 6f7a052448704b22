"""Suites that are run by a pytest of their own, with the fake PyTorch or without one."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
SUITE = TESTS.parent / "examples" / "suite"
# Where the package is installed as a wheel, pytest finds the plugin itself.
IS_INSTALLED = bool(importlib.metadata.entry_points(group="pytest11", name="memreel"))
PLUGIN = [] if IS_INSTALLED else ["-p", "memreel.pytest_plugin"]
FAKE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from fake_torch import FakeTorch
sys.modules["torch"] = FakeTorch()
"""


class Suite:
    """A folder of tests, and what its runs print."""

    plugin = PLUGIN

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path

    def write(self, text: str, name: str = "test_it.py") -> None:
        head = "import gc, pytest, sys\ntorch = sys.modules.get('torch')\n"
        (self.path / name).write_text(head + text, encoding="utf-8")

    def run(self, *options: str) -> pytest.RunResult:
        return self.run_loosely("--strict-markers", *options)

    def run_loosely(self, *options: str) -> pytest.RunResult:
        """Runs it with marks that nothing registers."""
        result = self.pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *options)
        self.text = re.sub(r"\n +", " ", result.stdout.str())
        return result


@pytest.fixture
def bare(pytester: pytest.Pytester) -> Suite:
    """A suite without PyTorch."""
    return Suite(pytester)


@pytest.fixture
def suite(bare: Suite) -> Suite:
    """A suite with the fake PyTorch."""
    (bare.path / "conftest.py").write_text(FAKE, encoding="utf-8")
    return bare


@pytest.fixture
def sample(suite: Suite) -> Suite:
    """The suite of the examples, with the fake PyTorch."""
    for path in SUITE.glob("test_gpu_*.py"):
        (suite.path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return suite
