"""What a notebook shows of a snapshot: its timeline and its largest holders, without anything from a network."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING

from memreel._errors import UsageError
from memreel._memreel import bytes_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memreel.records import Rank, Timeline

# Devices of which a page shows the timeline.
MOST_DEVICES = 8
MIB = 1 << 20
# What a plot marks.
MOST_STEPS = 200
MOST_NAMES = 12
MOST_OWNERS = 5


def page(name: str, n_events: int, devices: list[int], shown: Callable[[int], tuple[str, str]]) -> str:
    """Returns the HTML for a notebook; every text of the file is escaped.

    `shown` returns what the page has of a device: its timeline as SVG, and a table.
    """
    devices = [device for device in devices if device >= 0]
    parts = [f"<b>{html.escape(name)}</b>: {n_events:,} events"]
    for device in devices[:MOST_DEVICES]:
        svg, table = shown(device)
        parts.append(f"<div>device {device}</div>{svg}{table}")
    if len(devices) > MOST_DEVICES:
        parts.append(f"<div>and {len(devices) - MOST_DEVICES} more devices</div>")
    return "\n".join(parts)


def plot(timeline: Timeline, rank: Rank, by: str, ax: Axes | None) -> Axes:
    """Draws allocated, active and reserved memory over the events or the seconds, and marks what `rank` has: the steps, the
    first failed request, the owners at the peak."""
    if by == "time" and not rank.first_us:
        raise UsageError(f"{timeline.file} has no times; leave out by='time'")
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]

    def x(event: int | None, time_us: int) -> float:
        if by == "event":
            return -1 if event is None else event
        # What is from before the history has no time.
        return (time_us - rank.first_us) / 1e6 if time_us else 0.0

    xs = [x(point.event, point.time_us) for point in timeline.points]
    curves = {
        "reserved": [point.reserved_bytes for point in timeline.points],
        "active": [point.active_bytes for point in timeline.points],
        "allocated": [point.allocated_bytes for point in timeline.points],
    }
    for name, values in curves.items():
        ax.plot(xs, [value / MIB for value in values], label=name)
    ax.set_xlabel("seconds since the first event" if by == "time" else "event")
    ax.set_ylabel("MiB")
    ax.set_ylim(bottom=0)
    _mark_steps(ax, [(x(step.event, step.begin_us), step.name) for step in rank.steps])
    if rank.oom is not None:
        size = bytes_text(rank.oom.requested_bytes)
        ax.axvline(x(rank.oom.event, rank.oom.time_us), color="red", label=f"out of memory: {size} requested")
    for owner in rank.owners[:MOST_OWNERS]:
        # A line of the legend alone.
        ax.plot([], [], " ", label=f"{owner.name}: {bytes_text(owner.bytes)} at the peak")
    ax.legend()
    return ax


def _mark_steps(ax: Axes, steps: list[tuple[float, str]]) -> None:
    """Draws a line where each step begins; the names of some, so that they do not cover each other."""
    every = -(-len(steps) // MOST_NAMES) or 1
    for at, (place, name) in enumerate(steps[:MOST_STEPS]):
        ax.axvline(place, color="grey", linewidth=0.5, linestyle=":")
        if at % every == 0:
            ax.text(place, 1, name.replace("$", r"\$"), rotation=90, fontsize="x-small", va="top", transform=ax.get_xaxis_transform())
