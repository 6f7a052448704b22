"""`install`: makes memreel the allocator of the libraries that this process has imported."""

from __future__ import annotations

import sys
import threading
import warnings

from memreel._errors import MemreelWarning

# The libraries that memreel serves, by their names.
_served: set[str] = set()
_lock = threading.Lock()


def install() -> None:
    """Makes memreel the allocator of PyTorch and CuPy, if they are imported.

        import torch
        import memreel

        memreel.install()          # before CUDA is first used

    memreel's allocator caches as PyTorch's does. `memreel.record`, `dump`, `scope` and `on_oom` then record what it serves,
    and PyTorch's own functions (`torch.cuda.memory_stats`, `memory._snapshot`, `_record_memory_history`, `MemPool` and the
    others) go on working, from memreel's figures. A second call does nothing, or serves what was imported since.

    Where there is no GPU, or neither library is imported, this warns and the program goes on. Raises RecordingError if
    PyTorch has used CUDA already.
    """
    with _lock:
        reasons = [why for name in ("torch", "cupy") if (why := _serve(name))]
    if not _served:
        why = "; ".join(reasons) or "neither PyTorch nor CuPy is imported; call memreel.install() after importing them"
        warnings.warn(MemreelWarning(f"memreel.install() does nothing: {why}"), stacklevel=2)


def is_installed() -> bool:
    """Returns whether memreel is the allocator of a library in this process."""
    return bool(_served)


def _serve(name: str) -> str | None:
    """Serves a library. Returns why it cannot be served; None if it is, or is not imported."""
    module = sys.modules.get(name)
    if module is None or name in _served:
        return None
    if name == "torch":
        from memreel.serving.torch_allocator import serve
    else:
        from memreel.serving.cupy_allocator import serve
    why = serve(module)
    if why is None:
        _served.add(name)
    return why
