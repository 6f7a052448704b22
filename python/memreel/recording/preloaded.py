"""The recording of a process that was started under `memreel record`: everything, from its beginning."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from memreel._errors import RecordingError
from memreel.recording.source import Stacks
from memreel.recording.stacked import Stacked


class Preloaded:
    """The preloaded library, through the functions that it exports."""

    why_not = ""

    def __init__(self) -> None:
        # CDLL releases the interpreter's lock: a dump takes seconds, and other threads go on.
        library = ctypes.CDLL(None)
        library.memreel_preload_error.restype = ctypes.c_char_p
        self._library = library
        self._scopes = Stacked(
            lambda name: self._check(library.memreel_preload_scope_begin(name.encode())),
            lambda begun: self._check(library.memreel_preload_scope_end()),
        )

    def _check(self, status: int) -> None:
        if status != 0:
            why = self._library.memreel_preload_error() or b"a driver call is in progress on this thread"
            raise RecordingError(why.decode(errors="replace"))

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        # It records since the process began, with the options of the command line.
        pass

    def stop(self) -> None:
        pass

    def dump(self, path: Path) -> None:
        torch = sys.modules.get("torch")
        history = getattr(getattr(torch, "_C", None), "_cuda_isHistoryEnabled", None)
        if torch is None or history is None or not torch.cuda.is_initialized() or not history():
            self._check(self._library.memreel_preload_dump(os.fsencode(path)))
            return
        self._dump_with_blocks(torch, path)

    def _dump_with_blocks(self, torch: object, path: Path) -> None:
        """Writes the driver's segments with PyTorch's blocks in them."""
        from memreel import _memreel
        from memreel.recording.torch_history import TorchHistory

        with tempfile.TemporaryDirectory(prefix="memreel-") as folder:
            segments, blocks = Path(folder) / "driver.pickle", Path(folder) / "torch.pickle"
            self._check(self._library.memreel_preload_dump(os.fsencode(segments)))
            TorchHistory(torch).dump(blocks)
            both = [_memreel.Opened.load(file) for file in (segments, blocks)]
            _memreel.join_torch(*both).save(path)

    def set_scopes(self, names: list[str]) -> None:
        self._scopes.change(names)
