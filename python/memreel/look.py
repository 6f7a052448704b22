"""What a notebook shows of a snapshot: its timeline and its largest holders, without anything from a network."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memreel.records import Timeline

# Devices of which a page shows the timeline.
MOST_DEVICES = 8
MIB = 1 << 20


def page(name: str, n_events: int, devices: list[int], shown: Callable[[int], tuple[str, str]]) -> str:
    """Returns the HTML for a notebook; every text of the file is escaped.

    `shown` returns what the page has of a device: its timeline as SVG, and a text.
    """
    devices = [device for device in devices if device >= 0]
    parts = [f"<b>{html.escape(name)}</b>: {n_events:,} events"]
    for device in devices[:MOST_DEVICES]:
        svg, text = shown(device)
        parts.append(f"<div>device {device}</div>{svg}<pre>{html.escape(text)}</pre>")
    if len(devices) > MOST_DEVICES:
        parts.append(f"<div>and {len(devices) - MOST_DEVICES} more devices</div>")
    return "\n".join(parts)


def plot(timeline: Timeline, ax: Axes | None) -> Axes:
    """Draws allocated, active and reserved memory over the events."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
    events = [point.event if point.event is not None else -1 for point in timeline.points]
    curves = {
        "reserved": [point.reserved_bytes for point in timeline.points],
        "active": [point.active_bytes for point in timeline.points],
        "allocated": [point.allocated_bytes for point in timeline.points],
    }
    for name, values in curves.items():
        ax.plot(events, [value / MIB for value in values], label=name)
    ax.set_xlabel("event")
    ax.set_ylabel("MiB")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax
