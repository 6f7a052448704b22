"""Where a recording of this process comes from."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from memreel.recording.source import Nothing, Source

if TYPE_CHECKING:
    from memreel.recording.torch_history import TorchHistory

# The PyTorch that has found a GPU.
_with_gpu: dict[str, TorchHistory] = {}
# A child of fork cannot use it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_with_gpu.clear)
HINT = "run the program under `memreel record -- python ...`, or with --heap for memory that is not a GPU's"


@cache
def _preloaded() -> Source | None:
    """The recording that the process was started under, which no later event changes."""
    if os.environ.get("MEMREEL_RECORD") and hasattr(ctypes.PyDLL(None), "memreel_preload_dump"):
        from memreel.recording.preloaded import Preloaded

        return Preloaded()
    return None


def source() -> Source:
    """Returns the source of this process, which may change: PyTorch may be imported later."""
    preloaded = _preloaded()
    if preloaded is not None:
        return preloaded
    # Not imported for those that do not use it.
    serving = sys.modules.get("memreel.serving.install")
    if serving is not None and serving.is_installed():
        from memreel.recording.installed import Installed

        return Installed()
    torch = sys.modules.get("torch")
    found = _with_gpu.get("torch")
    # A GPU that was found stays.
    if found is not None and found.torch is torch:
        return found
    if torch is None:
        return Nothing(f"nothing is recorded: PyTorch is not imported; import it first, or {HINT}")
    cuda = getattr(torch, "cuda", None)
    if not hasattr(getattr(torch, "_C", None), "_cuda_record_memory_history") or cuda is None:
        return Nothing(f"nothing is recorded: this PyTorch is built without CUDA; {HINT}")
    if not cuda.is_available():
        return Nothing(f"nothing is recorded: PyTorch finds no GPU; {HINT}")
    from memreel.recording.torch_history import TorchHistory

    _with_gpu["torch"] = TorchHistory(torch)
    return _with_gpu["torch"]
