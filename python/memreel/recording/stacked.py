"""The scopes of a recorder that keeps them as a stack of each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stacked(threading.local):
    """The names that a recorder has for this thread. Scopes of tasks end in any order, and the recorder ends the innermost."""

    def __init__(self, begin: Callable[[str], object], end: Callable[[object], object]) -> None:
        self._begin, self._end = begin, end
        self._names: list[str] = []
        self._begun: list[object] = []

    def change(self, names: list[str]) -> None:
        """Ends and begins scopes until the names are these, the outermost first."""
        n_common = 0
        while self._names[: n_common + 1] == names[: n_common + 1] and n_common < len(names):
            n_common += 1
        while len(self._names) > n_common:
            self._names.pop()
            self._end(self._begun.pop())
        for name in names[n_common:]:
            self._begun.append(self._begin(name))
            self._names.append(name)
