"""`torch.cuda.MemPool` on memreel: PyTorch's class asks the allocator for what only PyTorch's own has."""

from __future__ import annotations

import weakref
from typing import Any

from memreel._errors import UsageError
from memreel.serving.library import Library


def pool_class(torch: Any, memory: Library, ours: Any) -> type:
    """Returns the class that takes the place of `torch.cuda.MemPool`; `ours` is memreel's allocator."""

    class MemPool:
        """A private pool of memreel's allocator, with the interface of PyTorch's `MemPool`."""

        def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
            if allocator is not None and allocator is not ours.allocator():
                raise UsageError(
                    "memreel allocates all memory of this process, so a MemPool cannot have its own allocator; leave out "
                    "`allocator`, or run the program under `memreel record -- python ...` instead of memreel.install()"
                )
            self.allocator = allocator
            self.device = torch.cuda.current_device()
            # PyTorch numbers all pools, so that those of graphs have other numbers.
            self.id: tuple[int, int] = tuple(torch._C._graph_pool_handle())
            memory.call("memreel_create_pool", self.device, *self.id, use_on_oom, no_split)
            self._finalizer = weakref.finalize(self, _drop, memory, self.device, self.id)
            # At the end of the process the driver has everything back.
            self._finalizer.atexit = False

        def use_count(self) -> int:
            """Returns the number of references to the pool."""
            count: int = memory.call("memreel_pool_use_count", self.device, *self.id)
            return count

        def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
            """Returns the segments of the pool."""
            segments: list[dict[str, Any]] = torch.cuda.memory_snapshot(self.id, include_traces=include_traces)
            return segments

    MemPool.__module__, MemPool.__qualname__ = "torch.cuda.memory", "MemPool"
    return MemPool


def _drop(memory: Library, device: int, pool: tuple[int, int]) -> None:
    memory.call("memreel_release_pool", device, *pool)
    memory.call("memreel_empty_pool", device, *pool)
