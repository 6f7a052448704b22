"""Scopes: names for what a part of the program allocates."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from types import TracebackType

from memreel._errors import UsageError
from memreel.recording.sources import Source, source


class scope(ContextDecorator):
    """Names what this thread allocates inside, in answers and viewers; also as a decorator. Scopes inside each other are a
    path, `step/forward`.

    Use few different names: `step`, not `step 17`. Where nothing records, this does nothing.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"the name of a scope is a text, and not {name!r}")
        if "\0" in name or not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise UsageError(f"the name of a scope has no nul and no half of a pair of letters: {name!r}")
        self.name = name
        # One object may be in use by several threads and inside itself.
        self._begun = threading.local()

    def __enter__(self) -> scope:
        found = source()
        begun: list[tuple[Source, object]] = self._begun.__dict__.setdefault("all", [])
        begun.append((found, found.begin_scope(self.name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        begun = self._begun.__dict__.get("all")
        # Another thread cannot end it.
        if begun:
            found, what = begun.pop()
            found.end_scope(what)
