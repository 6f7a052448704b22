"""A run of pytest: which tests are measured, and what is done with the figures."""

from __future__ import annotations

import gc
import re
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import pytest

from memreel import _memreel
from memreel._errors import MemreelWarning, UsageError
from memreel.pytest_plugin import limits
from memreel.pytest_plugin.baseline import Baseline
from memreel.pytest_plugin.verdict import Verdict
from memreel.pytest_plugin.window import Measured, Window, portable
from memreel.recording.source import Stacks

LIMITS = pytest.StashKey[limits.Limits]()
RESULT = pytest.StashKey[dict[str, Any]]()


@dataclass(frozen=True)
class Plan:
    """What is asked of one test."""

    limits: limits.Limits
    # Where its snapshot is kept, if it is.
    keep: Path | None


class Run:
    """The options of a run. Raises pytest.UsageError for one that is not understood."""

    def __init__(self, config: pytest.Config) -> None:
        folder = config.invocation_params.dir
        option = config.getoption
        self.is_reported = bool(option("memreel"))
        self.is_updated = bool(option("memreel_update"))
        self.folder = folder / option("memreel_dir")
        named: str | None = option("memreel_baseline")
        for needs in ("update", "tolerance"):
            if option(f"memreel_{needs}") and not named:
                raise pytest.UsageError(f"--memreel-{needs} needs --memreel-baseline=FILE")
        try:
            self.tolerance_percent = _memreel.parse_percent(option("memreel_tolerance") or "0%")
        except UsageError as error:
            raise pytest.UsageError(f"--memreel-tolerance: {error}") from None
        self.baseline = Baseline.read(folder / named if named else None, self.is_updated)
        # Why the baseline could not be written at the end of the run.
        self.why_not_updated = ""
        if self.is_reported and (why := why_not_writable(self.folder)):
            raise pytest.UsageError(f"--memreel-dir: snapshots cannot be written to {self.folder}: {why}")
        if self.is_updated and self.baseline.path and (why := why_not_writable(self.baseline.path.parent)):
            raise pytest.UsageError(f"the baseline {self.baseline.path} cannot be written: {why}")
        self.stacks = _stacks(config)

    def expect(self, item: pytest.Item) -> None:
        """Reads the marks of a test."""
        item.stash[LIMITS] = limits.of_item(item)

    def plan(self, item: pytest.Item) -> Plan | None:
        """Returns what is asked of a test; None if nothing is."""
        found = item.stash.get(LIMITS, None)
        if found is None and not self.is_reported and self.baseline.path is None:
            return None
        keep = self.folder / file_name(item.nodeid) if self.is_reported else None
        return Plan(found or limits.Limits(), keep)

    def warm_up(self, item: pytest.Item, plan: Plan) -> None:
        """Calls the test as often as its marks ask for, with the fixtures of the call that is measured."""
        for _ in range(plan.limits.warmups):
            function = getattr(item, "obj", None)
            item.runtest()
            # Plugins for coroutines put a function of theirs in place of the test's.
            if getattr(item, "obj", None) is not function:
                cast(pytest.Function, item).obj = function

    def measuring(self, item: pytest.Item, plan: Plan) -> Measuring:
        """Returns what measures the call of a test."""
        return Measuring(self, item, plan)

    def judge(self, item: pytest.Item, plan: Plan, measured: Measured) -> Verdict:
        """Checks the figures of a test that passed, and keeps them for its report."""
        verdict = Verdict()
        verdict.check_limits(plan.limits, measured)
        if self.baseline.path is not None and not self.is_updated:
            verdict.check_baseline(self.baseline.peaks(item.nodeid), self.tolerance_percent, measured)
        for name, why in verdict.unchecked:
            item.warn(MemreelWarning(f"{name} was not checked: {why}"))
        item.stash[RESULT] = {**portable(measured), "unchecked": verdict.unchecked, "is_new": verdict.is_new}
        return verdict

    def note(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Adds what was measured to the report of a test, which may be sent to another process."""
        found = item.stash.get(RESULT, None)
        if found is not None:
            report.memreel = found  # type: ignore[attr-defined]  # reports keep attributes of plugins
            del item.stash[RESULT]


class Measuring:
    """The call of a test, measured; a limit that is exceeded is a failure of the test."""

    def __init__(self, run: Run, item: pytest.Item, plan: Plan) -> None:
        self._run, self._item, self._plan = run, item, plan
        self._window = Window(run.stacks)

    def __enter__(self) -> None:
        # So that garbage of other tests is neither counted nor freed meanwhile.
        gc.collect()
        self._window.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # unittest keeps the failures of its tests to itself.
        is_failed = error is not None or bool(getattr(self._item, "_excinfo", None))
        if is_failed and self._plan.keep is None:
            self._window.close()
            return
        gc.collect()
        measured = self._window.end(self._plan.keep)
        if is_failed:
            self._item.stash[RESULT] = {**portable(measured), "unchecked": [], "is_new": False}
            return
        verdict = self._run.judge(self._item, self._plan, measured)
        if verdict.failures:
            kept = f"\nThe snapshot is {measured.snapshot}" if measured.snapshot else ""
            pytest.fail("\n\n".join(verdict.failures) + kept, pytrace=False)


def why_not_writable(folder: Path) -> str:
    """Returns why no file can be written in a folder that is there or is made later; empty if one can be."""
    there = next(path for path in (folder, *folder.parents) if path.exists() or path == path.parent)
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        # Permissions do not say all: a file system may be read-only.
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        return str(error)
    return ""


def file_name(test: str) -> str:
    """Returns the name of a test's snapshot: its node id in characters of file names, and a number that keeps two apart."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]+", "-", test)[-120:].lstrip("-.")
    return f"{plain}-{zlib.crc32(test.encode()):08x}.pickle"


def _stacks(config: pytest.Config) -> Stacks:
    stacks: str = config.getini("memreel_stacks")
    if stacks not in ("python", "all", "none"):
        raise pytest.UsageError(f"memreel_stacks is python, all or none, not {stacks!r}")
    return cast(Stacks, stacks)
