"""Limits of `gate`, as the program's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memreel._errors import UsageError

Size = int | float | str
"""A number of bytes, or a text such as `"10GiB"`."""
Share = int | float | str
"""A number of percent, or a text such as `"2%"`."""


def peaks(limit: Size | Mapping[str | None, Size] | Sequence[str] | None) -> list[str]:
    """Returns the words of `--max-peak`: a size, or those of scopes by name, with None for the whole history."""
    if isinstance(limit, Mapping):
        return [size(of) if scope is None else f"{scope}={size(of)}" for scope, of in limit.items()]
    return sizes("max_peak", limit)


def owners(limit: Mapping[str, Size] | Sequence[str] | None) -> list[str]:
    """Returns the words of `--max-owner`: the sizes of owners by name."""
    if isinstance(limit, Mapping):
        return [f"{owner}={size(of)}" for owner, of in limit.items()]
    return sizes("max_owner", limit)


def sizes(name: str, limit: Size | Sequence[str] | None) -> list[str]:
    """Returns the words of a limit that is a size or a list of texts."""
    if limit is None:
        return []
    if isinstance(limit, Sequence) and not isinstance(limit, str):
        return [str(one) for one in limit]
    return [size(limit, name)]


def size(limit: Size, name: str = "a limit") -> str:
    """Returns a size as the program reads it. A float must be a whole number, such as `10e9`."""
    if isinstance(limit, str):
        return limit
    if isinstance(limit, bool) or not float(limit).is_integer():
        raise UsageError(f"{name} is a number of bytes or a text such as '10GiB', not {limit!r}")
    return str(int(limit))
