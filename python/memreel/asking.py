"""Questions as functions: of a snapshot, or of the path of its file."""

from __future__ import annotations

import os
from typing import Any, Literal

from memreel import _memreel, records
from memreel._errors import UsageError
from memreel.files import made
from memreel.question import Question, options
from memreel.snapshot import Device, Moment, Snapshot, StrPath, opened


def oom(
    snapshot: Snapshot | StrPath, n: int = 10, *, frames: int = 4, device: Device | None = None
) -> records.Oom | records.LoggedOom | None:
    """Returns why the last failed request failed; None if none did. The same as `Snapshot.oom`; of the path of a log, what its
    last out-of-memory message tells."""
    if isinstance(snapshot, (str, os.PathLike)) and _memreel.is_log(os.fspath(snapshot)):
        question = Question([], "oom", options({"device": device}), [os.fspath(snapshot)])
        return question.answers(records.LoggedOom)[0]
    return opened(snapshot).oom(n, frames=frames, device=device)


def leaks(
    snapshot: Snapshot | StrPath, n: int = 10, *, frames: int = 4, device: Device | None = None
) -> records.Leaks:
    """Returns what is held at the end, sites that grow first. The same as `Snapshot.leaks`."""
    return opened(snapshot).leaks(n, frames=frames, device=device)


def owners(snapshot: Snapshot | StrPath, *, frames: int = 1, device: Device | None = None) -> records.Owners:
    """Returns who holds the device's memory: each library, the driver, what is unexplained. The same as `Snapshot.owners`."""
    return opened(snapshot).owners(frames=frames, device=device)


def top(
    snapshot: Snapshot | StrPath,
    by: Literal["stack", "function", "file", "line", "scope", "name", "stream", "pool", "owner"] = "stack",
    at: Moment = "peak",
    n: int = 10,
    *,
    frames: int = 4,
    device: Device | None = None,
) -> records.Top:
    """Returns what holds the memory at a moment, the largest holders first. The same as `Snapshot.top`."""
    return opened(snapshot).top(by, at, n, frames=frames, device=device)


def diff(
    before: Snapshot | StrPath,
    after: Snapshot | StrPath,
    *,
    by: Literal["stack", "owner"] = "stack",
    at: Moment = "end",
    n: int = 10,
    device: Device | None = None,
) -> records.Diff:
    """Returns the stacks that hold more or less in the second snapshot than in the first."""
    both = [opened(before), opened(after)]
    given = options({"by": by, "at": at, "n": n, "device": device})
    answers = Question([(one.name, one._opened) for one in both], "diff", given).answers(records.Diff)
    if len(answers) > 1:
        known = ", ".join(str(answer.device) for answer in answers)
        raise UsageError(f"the snapshots have devices {known}; name one, for example device={answers[0].device}")
    return answers[0]


def gate(snapshot: Snapshot | StrPath, **limits: Any) -> records.Gate:
    """Checks a snapshot against limits; the same as `Snapshot.gate`."""
    return opened(snapshot).gate(**limits)


def merge(snapshots: list[Snapshot | StrPath], *, in_order: bool = False) -> Snapshot:
    """Merges several snapshots into one; their devices are numbered by the ranks in the names."""
    if isinstance(snapshots, (str, os.PathLike)):
        raise UsageError(f"merge takes a list of snapshots, not one path: merge([{os.fspath(snapshots)!r}, ...])")
    all_of_them = [opened(one) for one in snapshots]
    named = [(one.name, one._opened) for one in all_of_them]
    return Snapshot(made(Question(named, "merge", options({"in_order": in_order}))), "merged")
