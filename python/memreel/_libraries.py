"""Where the libraries of memreel are that are loaded into programs."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path | None:
    """Returns the folder of `libmemreel.so` and the libraries of `memreel record`; None if this installation has none.

    The variable MEMREEL_PRELOAD names another folder than that of the package.
    """
    named = os.environ.get("MEMREEL_PRELOAD")
    if named:
        return Path(named)
    ours = Path(__file__).parent / "lib"
    return ours if (ours / "libmemreel_preload.so").is_file() else None
