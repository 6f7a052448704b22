"""A PyTorch that takes an allocator, without a GPU: memreel's library serves memory of the host instead."""

from __future__ import annotations

import ctypes
import sys
import types

HOOKS = (
    "set_init_fn",
    "set_reset_fn",
    "set_memory_fraction_fn",
    "set_base_alloc_fn",
    "set_record_stream_fn",
    "set_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn",
    "set_release_pool",
)
# What PyTorch refuses for an allocator that is not its own.
REFUSED = (
    "_cuda_memoryStats",
    "_cuda_resetPeakMemoryStats",
    "_cuda_resetAccumulatedMemoryStats",
    "_cuda_getMemoryFraction",
    "_cuda_memorySnapshot",
    "_cuda_record_memory_history",
    "_cuda_record_memory_history_legacy",
    "_cuda_isHistoryEnabled",
    "_cuda_setMemoryMetadata",
    "_cuda_getMemoryMetadata",
    "_cuda_attach_out_of_memory_observer",
    "_cuda_getCheckpointState",
    "_cuda_checkPoolLiveAllocations",
)


def refused(name):
    def entry(*arguments):
        raise RuntimeError(f"CUDAPluggableAllocator does not yet support {name}")

    return entry


class Hooked:
    """The allocator behind a CUDAPluggableAllocator."""

    def __init__(self, malloc, free):
        self.hooks = {}
        self.malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(malloc)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free)
        for name in HOOKS:
            setattr(self, name, lambda address, name=name: self.hooks.__setitem__(name, address))


class StubTorch(types.ModuleType):
    """One device; `alloc` and `free` call the allocator that is in use, as a tensor does."""

    def __init__(self):
        super().__init__("torch")
        self.current = None
        self.n_pools = 0
        self._C = types.ModuleType("torch._C")
        for name in REFUSED:
            setattr(self._C, name, refused(name))
        self._C._cuda_customAllocator = Hooked
        self._C._cuda_changeCurrentAllocator = self.change
        self._C._graph_pool_handle = self.pool_handle
        memory = types.ModuleType("torch.cuda.memory")
        self.cuda = types.ModuleType("torch.cuda")
        self.cuda.memory = memory
        self.cuda.is_initialized = lambda: False
        self.cuda.is_available = lambda: True
        self.cuda.device_count = lambda: 1
        self.cuda.current_device = lambda: 0
        self.cuda._lazy_call = lambda call: None
        self.cuda.MemPool = memory.MemPool = type("MemPool", (), {"__init__": refused("createOrIncrefPool")})
        torch = self

        class CUDAPluggableAllocator:
            def __init__(self, path, malloc, free):
                library = ctypes.CDLL(path)
                at = lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                self._allocator = torch._C._cuda_customAllocator(at(malloc), at(free))

            def allocator(self):
                return self._allocator

        memory.CUDAPluggableAllocator = CUDAPluggableAllocator
        memory.change_current_allocator = lambda allocator: torch._C._cuda_changeCurrentAllocator(allocator.allocator())
        self.cuda.memory_snapshot = lambda pool=None, include_traces=True: torch._C._cuda_memorySnapshot(
            (*(pool or (0, 0)), include_traces)
        )["segments"]
        memory._snapshot = lambda: torch._C._cuda_memorySnapshot(None)
        sys.modules.update({"torch": self, "torch._C": self._C, "torch.cuda": self.cuda, "torch.cuda.memory": memory})

    def change(self, allocator):
        if self.current is not None:
            raise RuntimeError("Can't swap an already initialized allocator")
        self.current = allocator

    def pool_handle(self):
        self.n_pools += 1
        return (0, self.n_pools)

    def alloc(self, size, stream=None):
        return self.current.malloc(size, 0, stream)

    def free(self, address):
        self.current.free(address, 0, 0, None)

    def hook(self, name, *arguments):
        """Calls a hook with its arguments, each with its type of ctypes."""
        ctypes.CFUNCTYPE(None, *(type(argument) for argument in arguments))(self.current.hooks[name])(*arguments)
