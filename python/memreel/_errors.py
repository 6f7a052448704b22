"""What can go wrong: `Error` and its subclasses, by the exit status that the program would have."""

from __future__ import annotations


class Error(Exception):
    """An error of memreel. The subclasses name its kind."""


class UnreadableError(Error, OSError):
    """A file cannot be read or written, or is not a snapshot (exit status 3 of the program)."""


class UsageError(Error, ValueError):
    """The question is about something that does not exist, such as a device without memory (exit status 2)."""


class HistoryError(Error):
    """A history contradicts itself, so the question has no answer (exit status 1)."""


class RecordingError(Error, RuntimeError):
    """Nothing can record here, or memreel can no longer become the allocator."""


class NothingYet(RecordingError):
    """The history is empty: the program has not used the device yet."""


class GateError(Error, AssertionError):
    """A limit is exceeded (exit status 4). The message is the gate's answer as text."""


class MemreelWarning(UserWarning):
    """A problem that a program should know about, but that does not end it."""
