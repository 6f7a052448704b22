"""Where a recording of this process comes from."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from memreel._errors import UsageError

if TYPE_CHECKING:
    from memreel.recording.torch_history import TorchHistory

Stacks = Literal["all", "python", "native", "none"]


class Source(Protocol):
    """What can record this process."""

    # Why nothing records here, and what to do; empty if something does.
    why_not: str

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        """Begins to record, if the program does not already."""

    def stop(self) -> None:
        """Ends what `start` began."""

    def dump(self, path: Path) -> None:
        """Writes what was recorded: the whole file, or nothing."""

    def set_scopes(self, names: list[str]) -> None:
        """Names what this thread allocates from now on: the scopes that it is in, the outermost first."""


class Nothing:
    """A process in which nothing records."""

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        pass

    def stop(self) -> None:
        pass

    def dump(self, path: Path) -> None:
        from memreel._errors import RecordingError

        raise RecordingError(self.why_not)

    def set_scopes(self, names: list[str]) -> None:
        pass


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


def check_options(stacks: Stacks, max_entries: int | None) -> None:
    """Raises UsageError for options that no source has."""
    if stacks not in ("all", "python", "native", "none"):
        raise UsageError(f"stacks is {stacks!r}; use python, all, native or none")
    if max_entries is not None and (not isinstance(max_entries, int) or max_entries < 1):
        raise UsageError(f"max_entries is {max_entries!r}; use a whole number from 1 on, or None for all")


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
