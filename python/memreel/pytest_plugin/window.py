"""A measured part of the process: what it allocates itself, on each GPU and on the host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# Here and not where they are called: a test may replace the clock.
from time import sleep, time_ns
from typing import Any

from memreel._errors import Error, NothingYet
from memreel.pytest_plugin.counted import Counted
from memreel.pytest_plugin.resident import Resident
from memreel.recording import session
from memreel.recording.chosen import source
from memreel.recording.source import Source, Stacks
from memreel.snapshot import Moment, Snapshot, load

# Times of events come from several clocks, which agree better than this.
MARGIN_S = 0.001
# The stacks that a failure prints.
N_STACKS = 5
LATE = "the test itself imported PyTorch, which was recorded only from that point on; import it at the top of the file"


@dataclass(frozen=True)
class Figures:
    """What was allocated on one device, and what `memreel top --new` says about a moment."""

    device: int
    peak_bytes: int
    left_bytes: int
    n_events: int
    # The last event before the part.
    since_event: int | None
    is_complete: bool
    text: Callable[[Moment], str] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Host:
    """What was allocated on the host: exactly in the heap, or as pages that became resident."""

    is_heap: bool
    peak_bytes: int
    left_bytes: int | None
    n_events: int
    text: Callable[[Moment], str] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Measured:
    """The figures of a part, and why some are not known (empty if they are)."""

    gpus: list[Figures]
    host: Host | None
    why_no_gpu: str
    why_no_host: str
    snapshot: Path | None

    @property
    def gpu_peak_bytes(self) -> int:
        """The highest peak of a GPU."""
        return max((gpu.peak_bytes for gpu in self.gpus), default=0)


class Window:
    """Measures from `begin` to `end`; `close` ends it without figures."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._source: Source | None = None
        self._resident = Resident()
        self._counted = Counted()

    def begin(self) -> None:
        found = source()
        session.sessions.begin(found, self._stacks, None)
        self._source = found
        self._resident.begin()
        sleep(MARGIN_S)
        self._since_us = time_ns() // 1000
        sleep(MARGIN_S)
        # After that time, so that none is counted of which the event is older.
        self._counted.begin(found)

    def close(self) -> None:
        self._resident.end()
        if self._source is not None:
            session.sessions.end()
            self._source = None

    def end(self, keep: Path | None) -> Measured:
        """Returns the figures; the snapshot is kept under the path, if there is one and something was allocated."""
        resident_bytes = self._resident.end()
        try:
            with tempfile.TemporaryDirectory(prefix="memreel-") as folder:
                path = Path(folder) / "window.pickle"
                snapshot, why = self._written(path)
                gpus = [self._figures(snapshot, device) for device in snapshot._opened.gpus] if snapshot else []
                host = self._host(snapshot, resident_bytes)
                n_events = sum(gpu.n_events for gpu in gpus) + (host.n_events if host else 0)
                is_kept = keep is not None and n_events > 0
                if keep is not None and is_kept:
                    keep.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(keep) if path.stat().st_dev == keep.parent.stat().st_dev else _copied(path, keep)
        finally:
            self.close()
        if snapshot is not None:
            why = why or self._counted.why_not(snapshot, {gpu.device: gpu.since_event for gpu in gpus})
        if snapshot is not None and not gpus and not _has_gpu():
            # `memreel record` records the heap of such a machine.
            why = why or "this machine has no GPU"
        why = why or next((LOST.format(gpu.device) for gpu in gpus if not gpu.is_complete), "")
        why_no_host = "" if host else self._resident.why_not
        return Measured(gpus, host, why, why_no_host, keep if is_kept else None)

    def _written(self, path: Path) -> tuple[Snapshot | None, str]:
        """The snapshot of what was recorded, or why there is none; neither if nothing was allocated."""
        begun, now = self._source, source()
        if begun is not None:
            self._counted.end(begun, now)
        if begun is None or (begun.why_not and now.why_not):
            return None, now.why_not
        if begun.why_not:
            return None, LATE
        try:
            now.dump(path)
        except NothingYet:
            return None, ""
        except Error as error:
            return None, str(error)
        return load(path), ""

    def _figures(self, snapshot: Snapshot, device: int) -> Figures:
        new = snapshot.new(self._since_us, device=device)
        text = self._text(snapshot, device)
        return Figures(device, new.peak_bytes, new.left_bytes, new.n_events, new.since_event, new.is_complete, text)

    def _host(self, snapshot: Snapshot | None, resident_bytes: int) -> Host | None:
        heap = snapshot._opened.heap if snapshot is not None else None
        if snapshot is not None and heap is not None:
            new = snapshot.new(self._since_us, device=heap)
            return Host(True, new.peak_bytes, new.left_bytes, new.n_events, self._text(snapshot, heap))
        if self._resident.why_not:
            return None
        return Host(False, resident_bytes, None, 0, lambda at: RESIDENT)

    def _text(self, snapshot: Snapshot, device: int) -> Callable[[Moment], str]:
        return lambda at: repr(snapshot.new(self._since_us, at, N_STACKS, device=device))


LOST = "the history of GPU {} lost events of the test; raise max_entries"
RESIDENT = "This is resident memory, which has no stacks; to count requested bytes, use `memreel record --heap -- pytest`."


def _has_gpu() -> bool:
    """Whether the machine has a GPU of NVIDIA's, without asking its driver."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def _copied(path: Path, to: Path) -> None:
    import shutil

    shutil.copyfile(path, to)


def portable(measured: Measured) -> dict[str, Any]:
    """Returns the figures as values that a worker of xdist can send."""
    host = measured.host
    return {
        "gpus": [
            {"device": gpu.device, "peak_bytes": gpu.peak_bytes, "left_bytes": gpu.left_bytes, "n_events": gpu.n_events}
            for gpu in measured.gpus
        ],
        "gpu_peak_bytes": None if measured.why_no_gpu else measured.gpu_peak_bytes,
        "heap_peak_bytes": host.peak_bytes if host and host.is_heap else None,
        "resident_peak_bytes": host.peak_bytes if host and not host.is_heap else None,
        "n_heap_events": host.n_events if host else 0,
        "why_no_gpu": measured.why_no_gpu,
        "why_no_host": measured.why_no_host,
        "snapshot": str(measured.snapshot) if measured.snapshot else None,
    }
