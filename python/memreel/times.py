"""Times and windows of a history, as the program's words."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from memreel._errors import UsageError

Time = int | str | datetime | timedelta
"""A number is microseconds since the Unix epoch, as in `time_us`; a `timedelta` is after the first event; a `datetime` without
a time zone is local time, as everywhere in Python; a text is one of the program's, such as `"1.5s"`."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


def time_text(time: Time) -> str:
    """Returns a time as the program reads it."""
    if isinstance(time, datetime):
        return str((time.astimezone(timezone.utc) - EPOCH) // MICROSECOND)
    if isinstance(time, timedelta):
        if time < timedelta(0):
            raise UsageError(f"{time!r} is before the first event; use a timedelta that is not negative")
        return f"{time // MICROSECOND}us"
    return str(time)


def window_text(window: str | tuple[Time | None, Time | None] | None) -> str | None:
    """Returns a window of times, or of the numbers of events, as the program reads it: `A..B`, open where it has None."""
    if window is None or isinstance(window, str):
        return window
    try:
        first, last = window
    except (TypeError, ValueError):
        raise UsageError(f"{window!r} is not a window; use a pair such as (100, 200), or a text such as '100..200'") from None
    return "..".join("" if end is None else time_text(end) for end in (first, last))
