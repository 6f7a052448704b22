"""PyTorch's own history as the source of a recording."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from memreel._errors import MemreelWarning, NothingYet, RecordingError, UnreadableError
from memreel.recording.source import Stacks
from memreel.recording.torch_scopes import TorchScopes

# This key stays the last of the settings.
LAST = "roundup_power2_divisions"
# The statistics of PyTorch that count events: alloc, free_requested, free_completed, segment_alloc, segment_free, oom.
COUNTS = (
    "allocation.all.allocated",
    "allocation.all.freed",
    "active.all.freed",
    "segment.all.allocated",
    "segment.all.freed",
    "num_ooms",
)


class History:
    """What is known of the history that memreel switched on in this process."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.is_ours = False
        self.max_entries: int | None = None
        # Events before the history began, by device.
        self.before: dict[int, int] = {}
        self.scopes: TorchScopes | None = None


history = History()


def forget() -> None:
    """Forgets the history in a child of fork, where CUDA cannot be used."""
    global history
    history = History()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


class TorchHistory:
    """The history of PyTorch's allocator."""

    why_not = ""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def is_on(self) -> bool:
        """Returns whether the history is on, by memreel or by the program."""
        is_on = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        return is_on is not None and self.torch.cuda.is_initialized() and bool(is_on())

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        history.is_wanted = True
        # Now, if CUDA is initialised; otherwise when it is.
        self.torch.cuda._lazy_call(lambda: self._begin(stacks, max_entries))

    def _begin(self, stacks: Stacks, max_entries: int | None) -> None:
        # One that is on is the program's, or an outer recording's; switching it on again would erase it. PyTorch runs this
        # before it says that CUDA is initialised.
        is_on = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        if not history.is_wanted or history.is_ours or (is_on is not None and is_on()):
            return
        options: dict[str, Any] = {"stacks": "python" if stacks == "python" else "all"}
        if stacks == "none":
            options["context"] = None
        if max_entries is not None:
            options["max_entries"] = max_entries
        self.torch.cuda.memory._record_memory_history("all", **options)
        history.is_ours, history.max_entries = True, max_entries
        history.before = self.counts()

    def stop(self) -> None:
        history.is_wanted = False
        if history.is_ours:
            history.is_ours = False
            self.torch.cuda.memory._record_memory_history(enabled=None)

    def dump(self, path: Path) -> None:
        if not self.torch.cuda.is_initialized():
            raise NothingYet("nothing is recorded: the program has not used CUDA yet")
        if hasattr(self.torch._C, "_cuda_isHistoryEnabled") and not self.is_on():
            raise RecordingError("nothing is recorded: PyTorch's history is off; call memreel.start() first")
        now_us, counts = time.time_ns() // 1000, self.counts()
        snapshot = self.torch.cuda.memory._snapshot()
        warning = self._note(snapshot, now_us, counts)
        replace(path, snapshot)
        if warning:
            warnings.warn(MemreelWarning(warning), stacklevel=2)

    def counts(self) -> dict[int, int]:
        """Returns the number of events of each device so far, by PyTorch's statistics."""
        counts = {}
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats(device)
            counts[device] = sum(stats.get(key, 0) for key in COUNTS)
        return counts

    def _note(self, snapshot: dict[str, Any], now_us: int, counts: dict[int, int]) -> str:
        """Adds to the settings when this was, and how many entries the ring lost. Returns a warning, if there is one."""
        settings, warning = snapshot.get("allocator_settings"), ""
        if not isinstance(settings, dict):
            return warning
        last = settings.pop(LAST, None)
        settings["memreel_torch_time_us"] = now_us
        n_lost = self._lost(snapshot, counts)
        if n_lost > 0:
            settings["trace_alloc_overflowed"] = True
            settings["trace_alloc_lost_entries"] = n_lost
            settings["trace_alloc_max_entries"] = history.max_entries
            warning = f"the history is incomplete: about {n_lost:,} of its oldest events were lost; record with max_entries"
            warning += f" above {history.max_entries:,}"
        if last is not None:
            settings[LAST] = last
        return warning

    def _lost(self, snapshot: dict[str, Any], counts: dict[int, int]) -> int:
        if not history.is_ours or history.max_entries is None:
            return 0
        n_lost = 0
        for device, trace in enumerate(snapshot.get("device_traces", [])):
            if len(trace) >= history.max_entries:
                n_lost += max(1, counts.get(device, 0) - history.before.get(device, 0) - len(trace))
        return n_lost

    def set_scopes(self, names: list[str]) -> None:
        if history.scopes is None:
            history.scopes = TorchScopes(self.torch)
        history.scopes.change(names)


def replace(path: Path, snapshot: object) -> None:
    """Writes a pickle under a temporary name and renames it, so that there is the whole file or what was there before."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".memreel-", suffix=".tmp", delete=False) as file:
            try:
                pickle.dump(snapshot, file, protocol=4)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, path)
            except BaseException:
                # A KeyboardInterrupt too.
                os.unlink(file.name)
                raise
    except OSError as error:
        raise UnreadableError(f"cannot write {path}: {error}") from error


def _umask() -> int:
    if sys.platform == "linux":
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            found = [line.split()[1] for line in status if line.startswith("Umask:")]
        if found:
            return int(found[0], 8)
    return 0o022
