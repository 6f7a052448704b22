"""`libmemreel.so`, whose functions `schema/memreel.h` documents."""

from __future__ import annotations

import ctypes
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from memreel._errors import RecordingError
from memreel._libraries import folder

POOL = (ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)
OBSERVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
# The result and the arguments of each function that is called from Python. Without a result: 0, or -1 for a failure.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "memreel_annotate": (ctypes.c_int, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)),
    "memreel_create_pool": (ctypes.c_int, (*POOL, ctypes.c_int, ctypes.c_int)),
    "memreel_cupy_free": (None, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
    "memreel_cupy_malloc_on": (ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)),
    "memreel_dump": (ctypes.c_int, (ctypes.c_char_p,)),
    "memreel_empty_pool": (ctypes.c_int, POOL),
    "memreel_error": (ctypes.c_char_p, ()),
    "memreel_is_recording": (ctypes.c_int, ()),
    "memreel_lost_events": (ctypes.c_int64, (ctypes.c_int,)),
    "memreel_memory_fraction": (ctypes.c_double, (ctypes.c_int,)),
    "memreel_on_oom": (ctypes.c_int, (OBSERVER, ctypes.c_void_p)),
    "memreel_pool_use_count": (ctypes.c_int64, POOL),
    "memreel_record": (ctypes.c_int, (ctypes.c_char_p,)),
    "memreel_release_pool": (None, POOL),
    "memreel_reset_accumulated_stats": (ctypes.c_int, (ctypes.c_int,)),
    "memreel_reset_peak_stats": (ctypes.c_int, (ctypes.c_int,)),
    "memreel_scope_begin": (ctypes.c_int, (ctypes.c_char_p,)),
    "memreel_scope_end": (ctypes.c_int, ()),
    "memreel_stats_json": (ctypes.c_char_p, (ctypes.c_int,)),
}


class Library:
    """The functions of the library. A call that fails raises RecordingError with the library's reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # CDLL releases the interpreter's lock during a call.
        self._library = ctypes.CDLL(os.fspath(path))
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments

    def raw(self, name: str) -> Any:
        """Returns a function itself, for callers that look at its result on their own."""
        return getattr(self._library, name)

    def address(self, name: str) -> int:
        """Returns where a function begins, for those that call it without ctypes."""
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0

    def error(self) -> str:
        """Returns why this thread's latest call failed."""
        text: bytes = self._library.memreel_error() or b"memreel gave no reason"
        return text.decode(errors="replace")

    def call(self, name: str, *arguments: object) -> Any:
        """Calls a function. Raises RecordingError if it returns its value for a failure."""
        result = getattr(self._library, name)(*arguments)
        if (result is None and FUNCTIONS[name][0] is not None) or (isinstance(result, (int, float)) and result < 0):
            raise RecordingError(self.error())
        return result

    def record(self, options: dict[str, object]) -> None:
        """Switches recording on or off, with the options of `_record_memory_history`."""
        self.call("memreel_record", json.dumps(options).encode())

    def is_recording(self) -> bool:
        return bool(self.call("memreel_is_recording"))

    def stats(self, device: int) -> dict[str, int]:
        """Returns a device's statistics, with the keys of `torch.cuda.memory_stats`."""
        stats: dict[str, int] = json.loads(self.call("memreel_stats_json", device))
        return stats

    def dump(self, path: str | os.PathLike[str]) -> None:
        self.call("memreel_dump", os.fsencode(path))

    def check_python(self) -> None:
        """Compares Python frames with the interpreter's own; where they differ, none are recorded."""
        # PyDLL keeps the interpreter's lock during the call.
        ctypes.PyDLL(os.fspath(self.path)).memreel_check_python()


@cache
def library() -> Library:
    """Returns the library of this installation, which is loaded once."""
    found = folder()
    if found is None or not (found / "libmemreel.so").is_file():
        raise RecordingError(
            "this installation of memreel has no libmemreel.so; install the wheel, or set MEMREEL_PRELOAD to the folder that "
            "cargo built it into"
        )
    return Library(found / "libmemreel.so")
