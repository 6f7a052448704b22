"""What can go wrong: `Error` and its subclasses, by the exit status that the program would have."""

from __future__ import annotations


class Error(Exception):
    """Something that memreel cannot do. The subclasses say of what kind it is."""


class UnreadableError(Error, OSError):
    """A file cannot be read or written, or is not a snapshot (exit status 3 of the program)."""


class UsageError(Error, ValueError):
    """Something was asked that is not there, such as a device without memory (exit status 2)."""


class HistoryError(Error):
    """A history contradicts itself, so that the question has no answer (exit status 1)."""


class RecordingError(Error, RuntimeError):
    """Nothing can record here, or memreel cannot become the allocator any more."""


class NothingYet(RecordingError):
    """The history is empty: the program has not used the device yet."""


class GateError(Error, AssertionError):
    """A limit is not kept (exit status 4). The message is the gate's answer in words."""


class MemreelWarning(UserWarning):
    """Something that a program should know, and that does not end it."""
