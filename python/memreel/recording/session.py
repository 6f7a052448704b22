"""Recordings in this process: `start` and `stop`, `record` for a part of the program, and `dump`."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from memreel._errors import Error, MemreelWarning
from memreel.recording import paths
from memreel.recording.chosen import source
from memreel.recording.scopes import scope
from memreel.recording.source import Source, Stacks, check_options

if TYPE_CHECKING:
    from memreel.viewing import Page


class Sessions:
    """The recordings that are open. The first begins the source's recording, and the last ends it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_open = 0
        self.started: list[Source] = []
        self.has_warned = False

    def begin(self, of: Source, stacks: Stacks, max_entries: int | None) -> None:
        with self.lock:
            # PyTorch may be imported, or memreel installed, after the first recording began.
            if type(of) not in map(type, self.started):
                of.start(stacks, max_entries)
                self.started.append(of)
            self.n_open += 1

    def end(self) -> None:
        with self.lock:
            self.n_open = max(0, self.n_open - 1)
            while self.n_open == 0 and self.started:
                self.started.pop().stop()

    def warn(self, why: str) -> None:
        """Warns once that nothing records."""
        if why and not self.has_warned:
            self.has_warned = True
            warnings.warn(MemreelWarning(why), stacklevel=3)


sessions = Sessions()


def forget() -> None:
    """Forgets the recordings of the parent in a child of fork: they are the parent's to write."""
    global sessions
    sessions = Sessions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def start(stacks: Stacks = "python", max_entries: int | None = None) -> None:
    """Starts to record this process, until `stop`.

    Under `memreel record` everything is recorded already. Otherwise PyTorch's history is switched on, or when CUDA is
    initialised; `max_entries` events of each device are kept, without it all. A history that the program has on stays as it
    is. Where nothing can record, this warns and the program goes on.
    """
    check_options(stacks, max_entries)
    found = source()
    sessions.warn(found.why_not)
    sessions.begin(found, stacks, max_entries)


def stop() -> None:
    """Stops what `start` started, and discards what was recorded: call `dump` first."""
    sessions.end()


def dump(path: str | os.PathLike[str]) -> Path:
    """Writes what was recorded so far, and returns the path. On failure, an existing file is unchanged.

    The path may have `{rank}`, `{pid}`, `{host}`, `{time}` and `{n}`. Raises RecordingError if nothing is recorded, and
    UnreadableError if the file cannot be written.
    """
    to = paths.filled(path)
    paths.check(to)
    source().dump(to)
    return to


class record:
    """Records a part of the program, and writes a snapshot at its end, even if it ends with an exception.

        with memreel.record("run-{rank}.pickle"):
            train()

    What is allocated inside carries the scope `record`. Recordings may be nested and in several threads: each writes its own
    file. A child of fork writes nothing. `live=True` opens the page of `memreel.live` meanwhile. An exception of the program is never hidden by one of the recording.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        stacks: Stacks = "python",
        max_entries: int | None = None,
        *,
        live: bool = False,
    ) -> None:
        check_options(stacks, max_entries)
        self._is_live = live
        self._page: Page | None = None
        self._given = path
        self._stacks: Stacks = stacks
        self._max_entries = max_entries

    def __enter__(self) -> record:
        # Also where the program changes its folder meanwhile.
        self.path = paths.filled(self._given).absolute()
        paths.check(self.path)
        self._pid = os.getpid()
        self._source = source()
        sessions.warn(self._source.why_not)
        sessions.begin(self._source, self._stacks, self._max_entries)
        self._scope = scope("record")
        self._scope.__enter__()
        if self._is_live:
            self._follow()
        return self

    def _follow(self) -> None:
        """Opens the page that follows this process. Without one the program goes on."""
        from memreel.viewing import live

        try:
            self._page = live()
        except Error as error:
            warnings.warn(MemreelWarning(str(error)), stacklevel=3)
        else:
            # The address is a key to the page, and others may read a log.
            is_seen = sys.stderr is not None and sys.stderr.isatty()
            where = f"at {self._page.address}" if is_seen else "open; memreel.live() returns one with its address"
            print(f"memreel: the live page is {where}", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return
        try:
            self._scope.__exit__(kind, error, traceback)
            if not self._source.why_not:
                self._source.dump(self.path)
        except Exception as failure:
            if error is None:
                raise
            # A warning may be an exception too, and the program's is the one that counts.
            print(f"memreel: {self.path} was not written: {failure}", file=sys.stderr)
        finally:
            sessions.end()
            if self._page is not None:
                self._page.close()
