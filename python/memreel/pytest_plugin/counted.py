"""Whether a history has every allocation of a measured part: its events, against what the allocator counts."""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Any

from memreel._errors import RecordingError
from memreel.recording.source import Source
from memreel.recording.torch_history import TorchHistory
from memreel.snapshot import Snapshot

# The statistic of PyTorch and of memreel's allocator that grows by one with each event `alloc`.
ALLOCATED = "allocation.all.allocated"
ROWS = 4096
LACKS = (
    "the history of GPU {} lacks allocations of the test: the test restarted it (torch.cuda.memory._record_memory_history), "
    "or it keeps too few events (max_entries)"
)
RESTARTED = "the test restarted PyTorch's history (torch.cuda.memory._record_memory_history), which may have erased its events"


class Counted:
    """The allocations of each device between `begin` and `end`, as the allocator counts them."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}
        self._switched_us = 0
        self.is_restarted = False

    def begin(self, of: Source) -> None:
        self._before, self._switched_us = _allocated(of), _switched_us()

    def end(self, begun: Source, now: Source) -> None:
        # Another allocator has counted nothing of what was before.
        self._after = _allocated(now) if type(begun) is type(now) else {}
        self.is_restarted = _switched_us() != self._switched_us

    def number(self, device: int) -> int:
        """Returns the allocations of a device."""
        before, after = self._before.get(device, 0), self._after.get(device, 0)
        # The part may have reset the statistics; what was counted since is still its own.
        return after - before if after >= before else after

    def why_not(self, snapshot: Snapshot, since_events: dict[int, int | None]) -> str:
        """Returns why the history after these events does not have all allocations; empty if it has."""
        if self.is_restarted:
            return RESTARTED
        for device in self._after:
            if _recorded(snapshot, device, since_events.get(device)) < self.number(device):
                return LACKS.format(device)
        return ""


def _allocated(found: Source) -> dict[int, int]:
    """The allocations of each device so far; empty where no allocator of PyTorch counts them."""
    if isinstance(found, TorchHistory):
        cuda = found.torch.cuda
        if not cuda.is_initialized():
            return {}
        return {device: cuda.memory_stats(device).get(ALLOCATED, 0) for device in range(cuda.device_count())}
    # Not imported for those that do not use it.
    installed = sys.modules.get("memreel.recording.installed")
    if installed is None or not isinstance(found, installed.Installed):
        return {}
    return _served()


def _served() -> dict[int, int]:
    """The allocations of each device that memreel serves."""
    from memreel.serving.library import library

    counts: dict[int, int] = {}
    while True:
        try:
            counts[len(counts)] = library().stats(len(counts)).get(ALLOCATED, 0)
        except RecordingError:
            # There is no such device.
            return counts


def _switched_us() -> int:
    """When the program last switched PyTorch's history under `memreel record`, whose hook sees that; 0 if it did not."""
    state: Any = getattr(sys.modules.get("_memreel_torch"), "state", None)
    return (state.since_us or 0) if state is not None and state.by_program else 0


def _recorded(snapshot: Snapshot, device: int, since_event: int | None) -> int:
    """The number of events `alloc` of a device after one of its events."""
    events = snapshot.events

    def place(row: int) -> tuple[bool, int, int]:
        found = events.columns(row, row + 1)
        # Rows are in the order of devices, those of the host last.
        return found["device"][0] < 0, found["device"][0], found["event"][0]

    after = (device < 0, device, -1 if since_event is None else since_event)
    start = bisect_right(range(len(events)), after, key=place)
    n_recorded = 0
    for row in range(start, len(events), ROWS):
        columns = events.columns(row, min(row + ROWS, len(events)))
        of_device = columns["device"].count(device)
        n_recorded += columns["action"][:of_device].count("alloc")
        if of_device < len(columns["device"]):
            break
    return n_recorded
