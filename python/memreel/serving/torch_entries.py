"""The functions of `torch._C` that PyTorch refuses for an allocator that is not its own, from memreel's figures.

PyTorch's Python functions (`torch.cuda.memory_stats` and the others) call these and need no change. Where a module has
imported one by its name, it is replaced there too.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from memreel._errors import RecordingError
from memreel.serving.library import OBSERVER, Library
from memreel.serving.scopes import scopes

# What `torch.compile(mode="reduce-overhead")` needs of PyTorch's own allocator.
CHECKPOINTS = ("_cuda_getCheckpointState", "_cuda_setCheckpointPoolState", "_cuda_checkPoolLiveAllocations")
# The settings of a snapshot that say which events it lacks.
FILTERS = ("memreel_min_size", "memreel_sample_bytes")
NEEDS_OWN = (
    'torch.compile(mode="reduce-overhead") needs PyTorch\'s own allocator, but memreel.install() has replaced it; leave '
    "out memreel.install() and run the program under `memreel record -- python ...`, which records PyTorch's"
)


def own_folder() -> str | None:
    """Returns `/tmp` where the usual folder of temporary files is one that another user can change; `sudo` may leave root that."""
    found = os.stat(tempfile.gettempdir())
    is_own = found.st_uid in (0, os.geteuid()) and (not found.st_mode & 0o022 or bool(found.st_mode & 0o1000))
    return None if is_own else "/tmp"


class Entries:
    """memreel's functions under the names that they have in `torch._C`."""

    def __init__(self, torch: Any, memory: Library) -> None:
        self._torch = torch
        self._memory = memory
        self._observers: list[Any] = []

    def _cuda_memoryStats(self, device: int) -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for key, number in self._memory.stats(device).items():
            *groups, last = key.split(".")
            into = nested
            for group in groups:
                into = into.setdefault(group, {})
            into[last] = number
        return nested

    _accelerator_getDeviceStats = _cuda_memoryStats

    def _accelerator_isAllocatorInitialized(self) -> bool:
        return bool(self._torch.cuda.is_initialized())

    def _cuda_resetPeakMemoryStats(self, device: int) -> None:
        self._memory.call("memreel_reset_peak_stats", device)

    _accelerator_resetPeakStats = _cuda_resetPeakMemoryStats

    def _cuda_resetAccumulatedMemoryStats(self, device: int) -> None:
        self._memory.call("memreel_reset_accumulated_stats", device)

    _accelerator_resetAccumulatedStats = _cuda_resetAccumulatedMemoryStats

    def _cuda_getMemoryFraction(self, device: int) -> float:
        fraction: float = self._memory.call("memreel_memory_fraction", device)
        return fraction

    def _cuda_memorySnapshot(self, what: tuple[Any, ...] | None = None) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="memreel-", dir=own_folder()) as folder:
            path = os.path.join(folder, "snapshot.pickle")
            self._memory.dump(path)
            with open(path, "rb") as file:
                snapshot: dict[str, Any] = pickle.load(file)
        settings = snapshot["allocator_settings"]
        # The keys of PyTorch's snapshot, and those of memreel's options that leave events out.
        snapshot["allocator_settings"] = {
            key: value for key, value in settings.items() if not key.startswith("memreel_") or (key in FILTERS and value)
        }
        pool, (with_traces,) = tuple((what or (0, 0))[:2]), (what or ())[2:] or (True,)
        if pool != (0, 0):
            snapshot["segments"] = [one for one in snapshot["segments"] if tuple(one["segment_pool_id"]) == pool]
        if not with_traces:
            snapshot["device_traces"] = [[] for _ in snapshot["device_traces"]]
        return snapshot

    def _cuda_record_memory_history(
        self,
        enabled: str | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = sys.maxsize,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Iterable[str] = (),
    ) -> None:
        options = {"enabled": enabled, "context": context, "stacks": stacks, "max_entries": max_entries}
        self._memory.record({**options, "clear_history": clear_history, "skip_actions": list(skip_actions)})

    def _cuda_record_memory_history_legacy(
        self,
        enabled: bool,
        record_context: bool = True,
        max_entries: int = 1,
        record_context_of_events: bool = False,
        record_native: bool = False,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: Iterable[str] = (),
    ) -> None:
        context = "alloc" if record_context_of_events else "state" if record_context else None
        self._cuda_record_memory_history(
            "all" if enabled else None,
            context,
            "all" if record_native else "python",
            max_entries,
            clear_history,
            skip_actions=skip_actions,
        )

    def _cuda_isHistoryEnabled(self) -> bool:
        return self._memory.is_recording()

    def _cuda_setMemoryMetadata(self, metadata: str) -> None:
        scopes().set_metadata(metadata)

    def _cuda_getMemoryMetadata(self) -> str:
        return scopes().metadata()

    def _cuda_attach_out_of_memory_observer(self, observer: Callable[[int, int, int, int], object]) -> None:
        def observe(data: object, device: int, requested: int, total: int, free: int) -> None:
            observer(device, requested, total, free)

        # The library calls it as long as the process runs.
        self._observers.append(OBSERVER(observe))
        self._memory.call("memreel_on_oom", self._observers[-1], None)


def refuse(*arguments: object, **options: object) -> None:
    """Raises RecordingError for what only PyTorch's own allocator can do."""
    raise RecordingError(NEEDS_OWN)


def replace_entries(torch: Any, memory: Library, allocator: Any) -> Entries:
    """Puts memreel's functions and class in the place of PyTorch's, in every module that has them."""
    from memreel.serving.torch_pools import pool_class

    entries = Entries(torch, memory)
    # What is replaced and by what; by the identity of the former, which lives as long as this.
    by: dict[int, tuple[object, object]] = {}
    ours = [(name, getattr(entries, name)) for name in dir(Entries) if name.startswith(("_cuda_", "_accelerator_"))]
    for name, new in [*ours, *((name, refuse) for name in CHECKPOINTS)]:
        old = getattr(torch._C, name, None)
        if old is not None:
            by[id(old)] = (old, new)
            setattr(torch._C, name, new)
    if hasattr(torch.cuda, "MemPool"):
        by[id(torch.cuda.MemPool)] = (torch.cuda.MemPool, pool_class(torch, memory, allocator))
    replace_everywhere(by)
    return entries


def replace_everywhere(by: dict[int, tuple[object, object]]) -> None:
    """Replaces objects by others in all modules that are imported."""
    for module in list(sys.modules.values()):
        try:
            # A module may be any object, and may be loaded only when it is asked for an attribute.
            names = list(object.__getattribute__(module, "__dict__").items())
            for name, value in names:
                if id(value) in by and by[id(value)][0] is value:
                    setattr(module, name, by[id(value)][1])
        except Exception:
            # A module that refuses keeps PyTorch's function.
            continue
