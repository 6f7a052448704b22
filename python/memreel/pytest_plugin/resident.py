"""The peak of the process's resident memory during a part of it, as the kernel counts it."""

from __future__ import annotations

from typing import ClassVar

# The counters of threads are added up late, and what the measurement itself needs is in them.
SLACK_BYTES = 4 << 20


class Resident:
    """A part of the process from `begin` to `end`. Parts may be inside each other."""

    # Parts that are measured now: resetting the kernel's peak for one must not lower that of another.
    _open: ClassVar[list[Resident]] = []

    def __init__(self) -> None:
        # Why the peak is not known; empty if it is.
        self.why_not = ""
        self._start_bytes = 0
        self._peak_bytes = 0

    def begin(self) -> None:
        try:
            _, highest = _resident()
            for part in self._open:
                part._peak_bytes = max(part._peak_bytes, highest)
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
            self._start_bytes, highest = _resident()
        except (OSError, KeyError, ValueError) as error:
            self.why_not = f"the kernel does not report the peak of resident memory ({error})"
            return
        if highest > self._start_bytes + SLACK_BYTES:
            self.why_not = "the kernel does not reset the peak of resident memory"
            return
        self._open.append(self)

    def end(self) -> int:
        """Returns the bytes that the peak is above what was resident at the beginning."""
        if self in self._open:
            self._open.remove(self)
            _, highest = _resident()
            self._peak_bytes = max(self._peak_bytes, highest)
        return max(0, self._peak_bytes - self._start_bytes)


def _resident() -> tuple[int, int]:
    """The bytes that are resident, and the most that were since the peak was reset."""
    found = {}
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key in ("VmRSS", "VmHWM"):
                found[key] = int(value.split()[0]) << 10
    return found["VmRSS"], found["VmHWM"]
