"""Scopes: names for what a part of the program allocates."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import cast

from memreel._errors import UsageError
from memreel.recording.chosen import source
from memreel.recording.decorator import Decorator
from memreel.recording.source import Source


@dataclass(eq=False)
class Begun:
    """A scope that began, within another one of the same task or of the task that started it."""

    name: str
    source: Source
    thread: int
    outer: Begun | None
    is_open: bool = True

    def chain(self) -> Iterator[Begun]:
        """This scope and those around it that are open, the innermost first."""
        one: Begun | None = self
        while one is not None:
            if one.is_open:
                yield one
            one = one.outer


# The innermost scope of a task. It may have ended, in a task that goes on after the scope in which it was started.
_innermost: ContextVar[Begun | None] = ContextVar("memreel_scope", default=None)


def _open() -> list[Begun]:
    """The open scopes of this task, the innermost first."""
    innermost = _innermost.get()
    return list(innermost.chain()) if innermost is not None else []


def _show(to: Source) -> None:
    """Has a source name what this thread allocates from now on by the scopes of this task."""
    here = threading.get_ident()
    # A task may go on in a thread of a pool, for which the scopes of its thread do not hold.
    to.set_scopes([one.name for one in reversed(_open()) if one.thread == here and type(one.source) is type(to)])


class scope(Decorator):
    """Names what this thread allocates inside, in answers and viewers; also as a decorator, of coroutines too. Scopes inside each
    other are a path, `step/forward`. Each task of asyncio has its own path, which begins with that of the code that started it.

    Use few different names: `step`, not `step 17`. Where nothing records, this does nothing.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"a scope name is a text, not {name!r}")
        if "\0" in name or (not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)):
            raise UsageError(f"a scope name must not contain NUL or a lone surrogate: {name!r}")
        self.name = name
        # One object may be in use by several threads and tasks, and inside itself.
        self._begun = threading.local()

    def __enter__(self) -> scope:
        found, outer = source(), next(iter(_open()), None)
        begun = Begun(self.name, found, threading.get_ident(), outer)
        before = _innermost.get()
        _innermost.set(begun)
        try:
            _show(found)
        except BaseException:
            _innermost.set(before)
            raise
        self._here().append(begun)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        here = self._here()
        # Another thread cannot end it.
        if not here:
            return
        # A generator may be closed by another task than the one that began it.
        begun = next((one for one in _open() if one in here), here[-1])
        here.remove(begun)
        begun.is_open = False
        _innermost.set(next(iter(_open()), None))
        _show(begun.source)

    def _here(self) -> list[Begun]:
        """What began with this object in this thread, and is open."""
        return cast("list[Begun]", self._begun.__dict__.setdefault("all", []))
