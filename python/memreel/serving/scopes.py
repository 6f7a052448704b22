"""The scopes of each thread, and PyTorch's metadata as the innermost of them."""

from __future__ import annotations

import threading
from functools import cache

from memreel.serving.library import Library, library


class Scopes(threading.local):
    """The names that the library has for what this thread allocates.

    The library ends scopes in the opposite order. PyTorch's metadata may change within a scope and outlive it, so it is
    ended before and begun again after each change.
    """

    def __init__(self, memory: Library) -> None:
        self._memory = memory
        self._metadata = ""

    def begin(self, name: str) -> None:
        """Begins a scope."""
        metadata = self._suspend()
        self._memory.call("memreel_scope_begin", name.encode())
        self.set_metadata(metadata)

    def end(self) -> None:
        """Ends the scope that began last."""
        metadata = self._suspend()
        self._memory.call("memreel_scope_end")
        self.set_metadata(metadata)

    def metadata(self) -> str:
        """Returns the metadata of this thread; empty if it has none."""
        return self._metadata

    def set_metadata(self, metadata: str) -> None:
        """Names what this thread allocates from now on; an empty text ends that."""
        self._suspend()
        if metadata:
            self._memory.call("memreel_scope_begin", metadata.encode())
        self._metadata = metadata

    def _suspend(self) -> str:
        """Ends the metadata, and returns it."""
        metadata = self._metadata
        if metadata:
            self._memory.call("memreel_scope_end")
            self._metadata = ""
        return metadata


@cache
def scopes() -> Scopes:
    """Returns the scopes of this process."""
    return Scopes(library())
