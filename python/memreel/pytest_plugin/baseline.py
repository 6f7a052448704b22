"""The file of a baseline: the peaks of each test."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VERSION = 1


@dataclass(frozen=True)
class Peaks:
    """The highest peak of a GPU and the peak of the heap; None where it was not measured."""

    gpu_bytes: int | None
    heap_bytes: int | None


class Baseline:
    """The peaks of tests by their node id."""

    def __init__(self, path: Path | None, tests: dict[str, dict[str, int]]) -> None:
        self.path = path
        self._tests = tests

    @staticmethod
    def read(path: Path | None, is_updated: bool) -> Baseline:
        """Reads a baseline. Raises pytest.UsageError for a file that is not one, or that is not there and is not to be
        written."""
        if path is None:
            return Baseline(None, {})
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if is_updated:
                return Baseline(path, {})
            raise pytest.UsageError(f"{path} does not exist; use --memreel-update to write it") from None
        except (OSError, ValueError) as error:
            raise pytest.UsageError(f"{path} cannot be read as a baseline: {error}") from None
        if not _is_baseline(found):
            raise pytest.UsageError(f"{path} is not a memreel baseline; use --memreel-update with another path to write a new one")
        return Baseline(path, found["tests"])

    def peaks(self, test: str) -> Peaks | None:
        """Returns the peaks of a test; None if it is not in the baseline."""
        found = self._tests.get(test)
        return None if found is None else Peaks(found.get("gpu_peak_bytes"), found.get("heap_peak_bytes"))

    def update(self, measured: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes the peaks of the tests that passed beside those that are there: the whole file, or what was there before.
        Raises OSError if it cannot be written."""
        if self.path is None:
            return
        for test, of_test in measured.items():
            if not of_test["passed"]:
                continue
            found = {key: of_test[key] for key in ("gpu_peak_bytes", "heap_peak_bytes") if of_test[key] is not None}
            # A figure that could not be measured this time stays.
            merged = {**self._tests.get(test, {}), **found}
            if merged:
                self._tests[test] = merged
        _replace(self.path, json.dumps({"memreel_baseline": VERSION, "tests": self._tests}, indent=1, sort_keys=True) + "\n")


def _is_baseline(found: object) -> bool:
    if not isinstance(found, dict) or found.get("memreel_baseline") != VERSION or not isinstance(found.get("tests"), dict):
        return False
    tests = found["tests"].values()
    return all(isinstance(peaks, dict) and all(_is_size(size) for size in peaks.values()) for peaks in tests)


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".memreel-", suffix=".tmp", delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            os.chmod(file.name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
