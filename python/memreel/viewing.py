"""The page of a snapshot, or of a program that runs, in a browser."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from memreel._errors import Error
from memreel.files import copied
from memreel.server import Server, of_own_tape

IDLE_MINUTES = 720
"""A page that nobody looks at ends after this time."""


class Page(Server):
    """A page of `memreel view`, at `address`. It is served until `close()`, the end of a `with`, or the end of Python."""

    def __init__(self, words: list[str], *, port: int, is_opened: bool) -> None:
        # It opens a browser where one is seen.
        options = ["--print-address", "--idle", str(IDLE_MINUTES), "--port", str(port), *([] if is_opened else ["--no-open"])]
        super().__init__(["view", *options, *words])


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
    """Opens a page that shows what this process holds while it runs, and returns its server.

    The page reads the tape of the process, so the process was started under `memreel record` and has allocated something, or has
    the variable MEMREEL_TAPE. Otherwise this raises RecordingError. With `open=False`, or where no browser is, its `address` can
    be opened by hand.
    """
    with of_own_tape():
        return Page(["--live", str(os.getpid())], port=port, is_opened=open)
