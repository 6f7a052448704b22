"""What can record this process, and the options of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from memreel._errors import RecordingError, UsageError

Stacks = Literal["all", "python", "native", "none"]


class Source(Protocol):
    """What can record this process."""

    # Why nothing records here, and what to do; empty if something does.
    why_not: str

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        """Begins to record, if the program does not already."""

    def stop(self) -> None:
        """Ends what `start` began."""

    def dump(self, path: Path) -> None:
        """Writes what was recorded: the whole file, or nothing."""

    def set_scopes(self, names: list[str]) -> None:
        """Names what this thread allocates from now on: the scopes that it is in, the outermost first."""


class Nothing:
    """A process in which nothing records."""

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        pass

    def stop(self) -> None:
        pass

    def dump(self, path: Path) -> None:
        raise RecordingError(self.why_not)

    def set_scopes(self, names: list[str]) -> None:
        pass


def check_options(stacks: Stacks, max_entries: int | None) -> None:
    """Raises UsageError for options that no source has."""
    if stacks not in ("all", "python", "native", "none"):
        raise UsageError(f"stacks is {stacks!r}; use python, all, native or none")
    if max_entries is not None and (not isinstance(max_entries, int) or max_entries < 1):
        raise UsageError(f"max_entries is {max_entries!r}; use a whole number from 1 on, or None for all")
