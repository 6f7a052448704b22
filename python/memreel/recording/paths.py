"""The paths of snapshots, with `{rank}`, `{pid}`, `{host}`, `{time}` and `{n}`."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memreel._errors import UnreadableError, UsageError
from memreel._memreel import host, launched_rank, time_text

_numbers = itertools.count()


def rank() -> str:
    """Returns the rank of this process: PyTorch's, or that of the launcher's variables; `0` outside a distributed run."""
    distributed: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return str(distributed.get_rank())
    return str(launched_rank() or 0)


def filled(path: str | os.PathLike[str], **more: str) -> Path:
    """Returns the path with its placeholders filled in, those of `more` too; `{{` is a brace.

    Raises UsageError for a placeholder that does not exist.
    """
    known: dict[str, Callable[[], str]] = {
        "rank": rank,
        "pid": lambda: str(os.getpid()),
        "host": host,
        "time": time_text,
        "n": lambda: str(next(_numbers)),
    }

    def fill(found: re.Match[str]) -> str:
        if found.group() in ("{{", "}}"):
            return found.group()[0]
        name = found.group(1)
        if name in more:
            return more[name]
        if name not in known:
            names = "}, {".join([*known, *more])
            raise UsageError(f"{found.group()} in {os.fspath(path)} is not known; use {{{names}}}")
        return known[name]()

    return Path(re.sub(r"\{\{|\}\}|\{(\w*)\}", fill, os.fspath(path)))


def check(path: Path) -> None:
    """Raises UnreadableError if a file of that path cannot be written, as far as that is known before."""
    folder = path.parent
    if path.is_dir():
        why = "it is a folder"
    elif path.exists() and not path.is_file():
        why = "it is a device or a pipe"
    elif not folder.is_dir():
        why = f"the folder {folder} does not exist"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder} is not writable"
    else:
        return
    raise UnreadableError(f"cannot write {path}: {why}")
