"""The page of a snapshot, or of a program that runs, in a browser, and the process that serves it."""

from __future__ import annotations

import atexit
import html
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from memreel._errors import Error, RecordingError, UsageError
from memreel.files import copied

IDLE_MINUTES = 720
"""A page that nobody looks at ends after this time."""
USAGE = 2
"""The exit status of the program for a question that makes no sense."""

P = TypeVar("P", bound="Page")


class Page:
    """A page of `memreel view`, at `address`. It is served until `close()`, the end of a `with`, or the end of Python."""

    def __init__(self, words: list[str], *, port: int, is_opened: bool) -> None:
        program = [sys.executable, "-m", "memreel", "view", "--idle", str(IDLE_MINUTES), "--port", str(port)]
        self._process = subprocess.Popen(
            # It opens a browser where one is seen.
            [*program, *([] if is_opened else ["--no-open"]), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=unrecorded(),
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        """The address of the page, with its token."""
        if not self.address:
            _, why = self._process.communicate()
            kind = UsageError if self._process.returncode == USAGE else Error
            raise kind(why.strip().removeprefix("memreel: ") or "the page cannot be served")
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the page."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        return f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'


class View(Page):
    """A page that shows a snapshot."""

    def __init__(self, name: str, save: Callable[[Path], None], *, port: int, is_opened: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memreel-view-")
        path = copied(name, save, Path(self._folder.name))
        try:
            super().__init__([str(path)], port=port, is_opened=is_opened)
        except Error:
            self._folder.cleanup()
            raise

    def close(self) -> None:
        """Ends the page."""
        super().close()
        self._folder.cleanup()


def live(*, port: int = 0, open: bool = True) -> Page:
    """Opens a page that shows what this process holds while it runs, and returns what serves it.

    The page reads the tape of the process, so the process was started under `memreel record` and has allocated something, or has
    the variable MEMREEL_TAPE. Otherwise this raises RecordingError. With `open=False`, or where no browser is, its `address` can
    be opened by hand.
    """
    try:
        return Page(["--live", str(os.getpid())], port=port, is_opened=open)
    except UsageError as error:
        raise RecordingError(
            "this process has no tape that a page can follow: run it under `memreel record -- python ...`, or with --heap for memory"
            " that is not a GPU's"
        ) from error


def unrecorded() -> dict[str, str]:
    """Returns the variables of a process that no `memreel record` around this one records."""
    kept = dict(os.environ)
    kept.pop("MEMREEL_RECORD", None)
    libraries = [one for one in re.split("[: ]", kept.pop("LD_PRELOAD", "")) if one]
    others = [one for one in libraries if not Path(one).name.startswith("libmemreel_")]
    return {**kept, "LD_PRELOAD": ":".join(others)} if others else kept
