"""A process of memreel beside this one that serves something at an address."""

from __future__ import annotations

import atexit
import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from memreel._errors import Error, RecordingError, UsageError

USAGE = 2
"""The exit status of the program for a question that makes no sense."""

S = TypeVar("S", bound="Server")


class Server:
    """A command that prints the `address` at which it serves, until `close()`, the end of a `with`, or the end of Python."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "memreel", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=unrecorded(),
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        """Where it serves; of a page with its token."""
        if not self.address:
            _, why = self._process.communicate()
            kind = UsageError if self._process.returncode == USAGE else Error
            raise kind(why.strip().removeprefix("memreel: ") or f"`memreel {words[0]}` cannot serve")
        self._owner = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the process that serves; nothing in a child of the one that began it."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()

    def __enter__(self: S) -> S:
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


def serve_metrics(
    address: str = "127.0.0.1:9464", *, sites: int = 0, token_file: str | os.PathLike[str] | None = None
) -> Server:
    """Serves metrics of this process for Prometheus, and returns the server. Port 0 selects a free port.

    A process beside this one reads the tape of this one, under the conditions of `live`. `sites` is the number of sites of each
    device that are in the metrics, by name. `token_file` names a file with a token, without which no metrics are shown.
    """
    token = ["--metrics-token", os.fspath(token_file)] if token_file is not None else []
    with of_own_tape():
        return Server(["watch", "--metrics", address, "--metrics-sites", str(sites), *token, str(os.getpid())])


@contextmanager
def of_own_tape() -> Iterator[None]:
    """Says what a process without a tape needs."""
    try:
        yield
    except UsageError as error:
        if "no recorded process" not in str(error):
            raise
        raise RecordingError(
            "this process has no tape to follow: run it under `memreel record -- python ...`, or with --heap for memory"
            " that is not a GPU's"
        ) from error


def unrecorded() -> dict[str, str]:
    """Returns the variables of a process that no `memreel record` around this one records."""
    kept = dict(os.environ)
    kept.pop("MEMREEL_RECORD", None)
    libraries = [one for one in re.split("[: ]", kept.pop("LD_PRELOAD", "")) if one]
    others = [one for one in libraries if not Path(one).name.startswith("libmemreel_")]
    return {**kept, "LD_PRELOAD": ":".join(others)} if others else kept
