"""`Ranks`, the ranks of a run compared, and `ranks`, which compares them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, overload

from memreel import records
from memreel.answer import Nested
from memreel.listing import Listing
from memreel.question import Question, distinct, options
from memreel.snapshot import Device, Snapshot, StrPath


@dataclass(frozen=True, repr=False)
class Ranks(Listing[records.Rank]):
    """The ranks of a run, those that differ first."""

    _rows: ClassVar[str] = "ranks"
    _nested: ClassVar[Nested] = {"ranks": lambda: records.Rank, "unread": lambda: records.UnreadRank}
    ranks: list[records.Rank]
    """One for each device of each file."""
    unread: list[records.UnreadRank]
    """The files that cannot be read."""

    @property
    def outliers(self) -> list[records.Rank]:
        """The ranks that differ from the median rank; `whys` has the reasons."""
        return [rank for rank in self.ranks if rank.is_outlier]

    @classmethod
    def _flat(cls, row: Mapping[str, Any]) -> dict[str, int | float | bool | str | None]:
        oom = row["oom"]
        # These two are objects, or None in ranks without them.
        flat = {key: value for key, value in super()._flat(row).items() if key not in ("oom", "first_difference")}
        return {
            **flat,
            "peak_bytes": row["peak"]["active_bytes"],
            "n_ooms": oom["n_ooms"] if oom else 0,
            "why": row["whys"][0]["text"] if row["whys"] else None,
        }

    @classmethod
    def _columns(cls) -> list[str]:
        return [*super()._columns(), "peak_bytes", "n_ooms", "why"]


@dataclass(frozen=True, repr=False)
class Steps(Listing[records.Step]):
    """The steps of a run, in their order, each with the peaks of the ranks."""

    _rows: ClassVar[str] = "steps"
    _nested: ClassVar[Nested] = {"steps": lambda: records.Step, "unread": lambda: records.UnreadRank}
    steps: list[records.Step]
    """One for each outermost scope."""
    unread: list[records.UnreadRank]
    """The files that cannot be read."""


Files = StrPath | Snapshot | Iterable[StrPath | Snapshot]


@overload
def ranks(
    files: Files, *, by: Literal["rank"] = "rank", n: int = 10, html: StrPath | None = None, device: Device | None = None
) -> Ranks: ...
@overload
def ranks(
    files: Files, *, by: Literal["step"], n: int = 10, html: StrPath | None = None, device: Device | None = None
) -> Steps: ...
def ranks(
    files: Files,
    *,
    by: Literal["rank", "step"] = "rank",
    n: int = 10,
    html: StrPath | None = None,
    device: Device | None = None,
) -> Ranks | Steps:
    """Returns which ranks of a run differ from the others, and why, or a row for each step.

    `files` is a folder, a pattern such as `"run-rank*.pickle"`, or several of these, of files and of snapshots. The rank is
    the number behind `rank` in the name of a file or its folder. A file that cannot be read is in `unread`; if none can,
    UnreadableError is raised. The text of the answer reads the files again.
    """
    one = isinstance(files, (str, os.PathLike, Snapshot))
    named: list[StrPath | Snapshot] = [files] if one else list(files)  # type: ignore[arg-type, list-item]
    snapshots = distinct([(each.name, each._opened) for each in named if isinstance(each, Snapshot)])
    names = iter(name for name, _ in snapshots)
    # The program reads standard input under the name `-`.
    paths = [next(names) if isinstance(each, Snapshot) else os.fspath(each) for each in named]
    words = options({"by": "step" if by == "step" else None, "n": n, "device": device})
    positionals = ["./-" if path == "-" else path for path in paths]
    question = Question(snapshots, "ranks", words, positionals)
    found = question.objects(*options({"html": html}))
    key, kind = ("steps", Steps) if by == "step" else ("ranks", Ranks)
    source = {
        key: [line for line in found if "error" not in line],
        "unread": [line for line in found if "error" in line],
    }
    return kind.answered(source, question.text)
