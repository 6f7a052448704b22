"""Answers that the program writes into a file: other snapshots, and drawings."""

from __future__ import annotations

import tempfile
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
