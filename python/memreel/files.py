"""Answers that the program writes into a file: other snapshots, drawings, and pages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from memreel import _memreel
from memreel.question import Question


def made(question: Question) -> _memreel.Opened:
    """Returns the snapshot that a command makes."""
    with tempfile.TemporaryDirectory(prefix="memreel-") as folder:
        path = Path(folder) / "made.pickle"
        question.printed(f"--output={path}")
        return _memreel.Opened.load(path)


def drawn(question: Question) -> str:
    """Returns the SVG that `memreel timeline` draws."""
    with tempfile.TemporaryDirectory(prefix="memreel-") as folder:
        path = Path(folder) / "timeline.svg"
        question.printed(f"--svg={path}")
        return path.read_text(encoding="utf-8")


def page_of(name: str, save: Callable[[Path], None], path: str | os.PathLike[str]) -> None:
    """Writes the page that is one file, of a snapshot that `save` writes."""
    with tempfile.TemporaryDirectory(prefix="memreel-") as folder:
        copy = copied(name, save, Path(folder))
        Question([], "view", [f"--html={os.fspath(path)}"], [str(copy)]).printed()


def copied(name: str, save: Callable[[Path], None], folder: Path) -> Path:
    """Writes a snapshot under its own name into a folder, for what reads files alone."""
    path = folder / (Path(name).stem + ".pickle")
    save(path)
    return path
