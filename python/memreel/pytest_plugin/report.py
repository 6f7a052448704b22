"""What pytest prints at the end: a line for each test that used memory, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memreel import _memreel

if TYPE_CHECKING:
    from memreel.pytest_plugin.run import Run

Tests = Mapping[str, Mapping[str, Any]]


def lines(tests: Tests, run: Run) -> Iterator[tuple[str, list[str]]]:
    """Returns the sections, each with its title."""
    if run.is_reported:
        table = _table(tests)
        none = ["no test allocated memory that was recorded"]
        kept = [f"snapshots are in {run.folder}"] if any(of["snapshot"] for of in tests.values()) else []
        yield "memory of the tests", [*(table or none), *kept, *_unmeasured(tests)]
    notes = [*_unchecked(tests), *_baseline(tests, run)]
    if notes:
        yield "memreel", notes


def _table(tests: Tests) -> list[str]:
    """A line for each test and device with events, the highest peaks first."""
    rows: list[tuple[int, int, str, int | None, int, str]] = []
    for test, of in tests.items():
        host = of["heap_peak_bytes"] if of["heap_peak_bytes"] is not None else of["resident_peak_bytes"]
        rows.extend(
            (gpu["peak_bytes"], gpu["left_bytes"], f"GPU {gpu['device']}", host, gpu["n_events"], test)
            for gpu in of["gpus"] if gpu["n_events"]
        )
        if of["n_heap_events"] and not any(gpu["n_events"] for gpu in of["gpus"]):
            rows.append((0, 0, "", host, of["n_heap_events"], test))
    if not rows:
        return []
    is_heap = any(of["heap_peak_bytes"] is not None for of in tests.values())
    rows.sort(key=lambda row: (-row[0], -(row[3] or 0), row[5]))
    head = f"{'peak':>11} {'left':>11} {'device':>7} {'heap' if is_heap else 'resident':>11} {'events':>8}  test"
    return [head] + [
        f"{_size(peak):>11} {_size(left):>11} {device:>7} {_size(host):>11} {n_events:>8}  {test}"
        for peak, left, device, host, n_events, test in rows
    ]


def _size(size: int | None) -> str:
    return "" if size is None else _memreel.bytes_text(size)


def _unmeasured(tests: Tests) -> list[str]:
    reasons = {of["why_no_gpu"] for of in tests.values() if of["why_no_gpu"]}
    return [f"GPU memory was not measured: {why}" for why in sorted(reasons)]


def _unchecked(tests: Tests) -> list[str]:
    """A line for each reason for which limits were not checked."""
    by_reason: dict[str, list[str]] = {}
    for test, of in tests.items():
        for _, why in of["unchecked"]:
            by_reason.setdefault(why, []).append(test)
    return [
        f"{_count(len(of_reason), 'limit was', 'limits were')} not checked ({_few(of_reason)}): {why}"
        for why, of_reason in sorted(by_reason.items())
    ]


def _baseline(tests: Tests, run: Run) -> list[str]:
    if run.why_not_updated:
        return [f"cannot write the baseline {run.baseline.path}: {run.why_not_updated}"]
    if run.is_updated:
        return [f"peaks of {_count(sum(of['passed'] for of in tests.values()), 'test', 'tests')} written to {run.baseline.path}"]
    new = [test for test, of in tests.items() if of["is_new"]]
    if not new:
        return []
    return [f"{_count(len(new), 'test is', 'tests are')} not in the baseline ({_few(new)}); use --memreel-update to add them"]


def _few(tests: list[str]) -> str:
    unique = list(dict.fromkeys(tests))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
