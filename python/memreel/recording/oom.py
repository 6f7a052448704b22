"""`on_oom`: a snapshot, and why, when the program runs out of memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from memreel.recording import paths
from memreel.recording.chosen import source
from memreel.recording.decorator import Decorator
from memreel.recording.session import dump, sessions, start


class on_oom(Decorator):
    """Writes a snapshot when the code inside runs out of memory, and prints why on standard error. The exception propagates.

        with memreel.on_oom("oom-{rank}.pickle"):
            train()

    Also a decorator. It begins to record, so that the snapshot has a history, and goes on recording afterwards.
    """

    def __init__(self, path: str | os.PathLike[str] = "oom-{rank}-{pid}.pickle", max_entries: int | None = None) -> None:
        self._given = path
        self._max_entries = max_entries

    def __enter__(self) -> on_oom:
        # A path that cannot be written is better known before the hours of a run than after them.
        paths.check(paths.filled(self._given))
        if source().why_not:
            sessions.warn(source().why_not)
        else:
            start(max_entries=self._max_entries)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and is_out_of_memory(error):
            report(self._given)


def report(path: str | os.PathLike[str]) -> None:
    """Writes a snapshot of a process that is out of memory, and prints why. Raises nothing: the program's exception is the one
    that counts."""
    try:
        written = dump(path)
        print(f"memreel: out of memory; the snapshot is {written}", file=sys.stderr)
        print(verdict(written), file=sys.stderr)
    except Exception as failure:
        print(f"memreel: out of memory, and no snapshot: {failure}", file=sys.stderr)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an exception, one that it comes from, or one of its group is PyTorch's, CuPy's or JAX's for a request that
    failed."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        names = {kind.__name__ for kind in type(one).__mro__}
        if names & {"OutOfMemoryError", "MemoryError"} or "RESOURCE_EXHAUSTED" in str(one):
            return True
        waiting.append(one.__cause__ or one.__context__)
        if "BaseExceptionGroup" in names:
            # From Python 3.11 on, and before with the package exceptiongroup.
            waiting += getattr(one, "exceptions", ())
    return False


def verdict(path: Path) -> str:
    """Returns why the request failed, in the words of `memreel oom`."""
    from memreel.snapshot import load

    snapshot = load(path)
    if snapshot.n_events and not any(snapshot.oom(device=device) for device in snapshot.devices):
        # The heap, JAX and CuPy refuse requests without an event.
        return f"the recording has no event of the failed request; `memreel top {path}` shows what holds the memory"
    return snapshot.ask(["oom", "--", str(path)])[1].rstrip("\n")
