"""The limits of a test: its marks, read and checked."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from memreel import _memreel
from memreel._errors import UsageError


@dataclass(frozen=True)
class Limit:
    """A mark's size, as it was written and in bytes."""

    text: str
    bytes: int

    def __str__(self) -> str:
        """The size in the units of measured ones; if it was written in others, as it was written too."""
        exact = _memreel.bytes_text(self.bytes)
        return self.text if self.text == exact or self.text.endswith("iB") else f"{exact} ({self.text})"


@dataclass(frozen=True)
class Limits:
    """What a test may use; None where it has no mark."""

    gpu: Limit | None = None
    leaks: Limit | None = None
    host: Limit | None = None
    host_leaks: Limit | None = None
    # Calls of the test before the one that is measured.
    warmups: int = 0


def of_item(item: pytest.Item) -> Limits:
    """Returns the limits of a test. Raises pytest.UsageError for a mark that is not understood."""
    gpu, leaks, host, host_leaks = (
        item.get_closest_marker(name)
        for name in ("limit_gpu_memory", "limit_gpu_leaks", "limit_host_memory", "limit_host_leaks")
    )
    warmups = max(_warmups(item, mark) for mark in (leaks, host_leaks))
    return Limits(_size(item, gpu), _size(item, leaks), _size(item, host), _size(item, host_leaks), warmups)


def is_unittest(item: pytest.Item) -> bool:
    """Returns whether a test is a method of a unittest.TestCase."""
    unittest = sys.modules.get("unittest")
    kind = getattr(item, "cls", None)
    return unittest is not None and isinstance(kind, type) and issubclass(kind, unittest.TestCase)


def _size(item: pytest.Item, mark: pytest.Mark | None) -> Limit | None:
    if mark is None:
        return None
    others = sorted(mark.kwargs.keys() - ({"warmups"} if mark.name.endswith("_leaks") else set()))
    if len(mark.args) != 1 or others:
        given = f"{len(mark.args)} values" + "".join(f" and {name}=" for name in others)
        raise _refused(item, mark, f'takes one size, for example "2 GB", but was given {given}')
    size = mark.args[0]
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return Limit(f"{size} B", size)
    if not isinstance(size, str):
        raise _refused(item, mark, f"{size!r} is not a size; use for example \"2 GB\" or a number of bytes")
    try:
        return Limit(size, _memreel.parse_bytes(size))
    except UsageError as error:
        raise _refused(item, mark, str(error)) from None


def _warmups(item: pytest.Item, mark: pytest.Mark | None) -> int:
    if mark is None:
        return 0
    warmups: object = mark.kwargs.get("warmups", 0)
    if not isinstance(warmups, int) or isinstance(warmups, bool) or warmups < 0:
        raise _refused(item, mark, f"warmups is a number of calls, not {warmups!r}")
    if warmups and is_unittest(item):
        raise _refused(item, mark, "a unittest.TestCase test cannot be called again; leave out warmups, or make it a function")
    return warmups


def _refused(item: pytest.Item, mark: pytest.Mark, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{item.nodeid}: {mark.name}: {why}")
