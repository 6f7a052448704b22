"""`View`: the page of a snapshot in a browser, and the process that serves it."""

from __future__ import annotations

import atexit
import html
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from memreel._errors import Error
from memreel.files import copied

IDLE_MINUTES = 720
"""A page that nobody looks at ends after this time."""


class View:
    """A page that shows a snapshot, at `address`. It is served until `close()`, the end of a `with`, or the end of Python."""

    def __init__(self, name: str, save: Callable[[Path], None], *, port: int, is_opened: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memreel-view-")
        path = copied(name, save, Path(self._folder.name))
        words = [sys.executable, "-m", "memreel", "view", "--no-open", "--idle", str(IDLE_MINUTES), "--port", str(port)]
        self._process = subprocess.Popen(
            [*words, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        """The address of the page, with its token."""
        if not self.address:
            _, why = self._process.communicate()
            self._folder.cleanup()
            raise Error(why.strip().removeprefix("memreel: ") or "the page cannot be served")
        atexit.register(self.close)
        if is_opened:
            webbrowser.open(self.address)

    def close(self) -> None:
        """Ends the page."""
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"View({self.address!r})"

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        return f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'
