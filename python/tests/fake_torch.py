"""A PyTorch without a GPU, whose allocator is a list of events."""

from __future__ import annotations

import itertools
import sys
import time
import types

import pytest

KEYS = ("allocation.all.allocated", "allocation.all.freed", "active.all.freed")


class FakeTorch(types.ModuleType):
    """The functions of PyTorch that memreel calls, on one device whose memory are numbers."""

    def __init__(self, is_available: bool = True) -> None:
        super().__init__("torch")
        self.is_on = False
        self.max_entries = sys.maxsize
        self.trace: list[dict] = []
        self.stats = dict.fromkeys(KEYS, 0)
        self.waiting: list = []
        self.is_ready = self.is_initialized = False
        self.metadata = ""
        self.switched: list = []
        self.held_bytes = self.peak_bytes = 0
        self.addresses = itertools.count(0x7F0000000000, 1 << 32)
        self.observers: list = []
        self.limit_bytes: int | None = None
        self.uint8 = "uint8"
        self.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
        self._C = types.SimpleNamespace(
            _cuda_record_memory_history=None,
            _cuda_isHistoryEnabled=lambda: self.is_on,
            _cuda_getMemoryMetadata=lambda: self.metadata,
            _cuda_setMemoryMetadata=lambda text: setattr(self, "metadata", text),
            _cuda_attach_out_of_memory_observer=self.observers.append,
        )
        self.cuda = types.SimpleNamespace(
            is_available=lambda: is_available,
            is_initialized=lambda: self.is_initialized,
            device_count=lambda: 1,
            max_memory_allocated=lambda: self.peak_bytes,
            memory_stats=lambda device: dict(self.stats),
            _lazy_call=lambda call: call() if self.is_initialized else self.waiting.append(call),
            memory=types.SimpleNamespace(_record_memory_history=self.switch, _snapshot=self.snapshot),
        )

    def use(self) -> None:
        """Initialises CUDA, as the first tensor does."""
        self.is_ready = True
        while self.waiting:
            self.waiting.pop(0)()
        # As in PyTorch: what waits for CUDA runs before it is said to be initialised.
        self.is_initialized = True

    def switch(self, enabled="all", max_entries=sys.maxsize, **options) -> None:
        assert self.is_ready, "memreel must not initialise CUDA"
        self.switched.append((enabled, options))
        self.is_on, self.max_entries = enabled is not None, max_entries
        self.trace.clear()

    def reset_accumulated(self) -> None:
        """Counts anew, as `torch.cuda.reset_accumulated_memory_stats` does."""
        self.stats = dict.fromkeys(KEYS, 0)

    def event(self, action: str, address: int, size: int) -> None:
        if self.is_on:
            entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time.time_ns() // 1000}
            self.trace.append({**entry, "frames": frames(), "user_metadata": self.metadata})
            del self.trace[: max(0, len(self.trace) - self.max_entries)]

    def alloc(self, address: int, size: int) -> None:
        self.use()
        self.stats["allocation.all.allocated"] += 1
        self.held_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        self.event("alloc", address, size)

    def free(self, address: int, size: int) -> None:
        self.held_bytes -= size
        self.stats["allocation.all.freed"] += 1
        self.stats["active.all.freed"] += 1
        self.event("free_requested", address, size)
        self.event("free_completed", address, size)

    def empty(self, n: int, dtype: str = "uint8", device: str = "cuda") -> Tensor:
        """Returns a tensor of bytes; above `limit_bytes`, the observers are called and the request fails."""
        self.use()
        if self.limit_bytes is not None and self.held_bytes + n > self.limit_bytes:
            self.event("oom", 0, n)
            for observer in self.observers:
                observer(0, n, self.limit_bytes, 0)
            raise self.OutOfMemoryError("CUDA out of memory")
        return Tensor(self, n)

    def snapshot(self) -> dict:
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "roundup_power2_divisions": {}}
        return {"segments": [], "device_traces": [list(self.trace)], "allocator_settings": settings}


class Tensor:
    """Memory that is freed with its object."""

    def __init__(self, torch: FakeTorch, n: int) -> None:
        self.torch, self.n, self.address = torch, n, next(torch.addresses)
        torch.alloc(self.address, n)

    def __del__(self) -> None:
        self.torch.free(self.address, self.n)


def frames() -> list[dict]:
    """The Python frames outside this file, innermost first."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename != __file__:
            found.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return found


def import_torch(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType | None) -> FakeTorch:
    """Makes a module the torch of this process, or none; memreel begins anew."""
    from memreel.recording import scopes, session, torch_history

    if module is None:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "torch", module)
    session.forget()
    torch_history.forget()
    # A test of a training that fails leaves its step.
    scopes._innermost.set(None)
    return module
