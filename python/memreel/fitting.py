"""`Sizes`, the runs of a program at several sizes, and `fit`, which reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memreel import records
from memreel._errors import UsageError
from memreel.question import Question, distinct, options
from memreel.snapshot import Device, Snapshot, StrPath, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Size = int | tuple[int, int]
GIB = 1 << 30
# How far a plot goes beyond the largest run.
FURTHEST = 4
MOST_POINTS = 12


class Sizes:
    """Runs of one program, each with its size. `repr` is the program's table of the recorded runs."""

    def __init__(self, runs: Mapping[Size, Snapshot | StrPath], changes: Mapping[str, object], device: Device | None) -> None:
        read = [opened(run) for run in runs.values()]
        self._snapshots = distinct([(one.name, one._opened) for one in read])
        names = [name for name, _ in self._snapshots]
        self._files = [f"{_word(size)}={name}" for size, name in zip(runs, names, strict=True)]
        self._largest = max(runs, key=lambda size: (size,) if isinstance(size, int) else size)
        self._options = {**changes, "device": device}

    def _asked(self, **more: object) -> records.Fit:
        question = Question(self._snapshots, "fit", options({**self._options, **more}), self._files)
        return question.answers(records.Fit)[0]

    def __repr__(self) -> str:
        return repr(self._asked())

    def largest(
        self, limit: str | int, *, step: int = 1, conf: str | None = None, sweep: bool = False
    ) -> records.Fit:
        """Returns the largest size at which at most `limit` is reserved, in `largest`, with the peaks at it and at the next."""
        return self._asked(limit=limit, step=step, conf=conf, sweep=sweep)

    def at(self, size: Size, *, conf: str | None = None) -> records.FitPrediction:
        """Returns the predicted peaks at a size."""
        return self._asked(at=_word(size), conf=conf).predictions[0]

    def plot(self, limit: str | int | None = None, *, ax: Axes | None = None) -> Axes:
        """Draws the predicted peaks over sizes of one number with matplotlib, the recorded runs, and the limit."""
        if not isinstance(self._largest, int):
            raise UsageError("a plot needs sizes of one number")
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots()[1]
        found = None if limit is None else self.largest(limit)
        last = self._largest * FURTHEST
        if found is not None and found.largest:
            last = max(self._largest, found.largest[0]) * 5 // 4
        step = max(1, last // MOST_POINTS)
        sizes = sorted({*range(step, last + 1, step), last})
        predicted = self._asked(at=[_word(size) for size in sizes]).predictions
        recorded = self._asked().recorded
        kinds = dict.fromkeys(part.made for one in predicted for part in one.peak_parts)
        bytes_of = [{part.made: part.bytes for part in one.peak_parts} for one in predicted]
        layers = [[parts.get(kind, 0) / GIB for parts in bytes_of] for kind in kinds]
        ax.stackplot(sizes, layers, labels=[kind or "other calls" for kind in kinds], alpha=0.3)
        for name, key in (("reserved", "reserved_peak_bytes"), ("requested", "requested_peak_bytes")):
            line = ax.plot(sizes, [getattr(one, key) / GIB for one in predicted], label=f"predicted, {name}")[0]
            known = [getattr(one, key) / GIB for one in recorded]
            ax.plot([one.size[0] for one in recorded], known, "o", color=line.get_color(), label=f"recorded, {name}")
        bounds = [[one.reserved_peak_at_least_bytes / GIB, one.reserved_peak_at_most_bytes / GIB] for one in predicted]
        ax.fill_between(sizes, [low for low, _ in bounds], [high for _, high in bounds], alpha=0.2)
        if found is not None:
            ax.axhline((found.limit_bytes or 0) / GIB, linestyle="--", color="black", label="limit")
            if found.largest:
                ax.axvline(found.largest[0], linestyle=":", color="black", label=f"the largest that fits: {found.largest[0]}")
        ax.set_xlabel(found.names[0] if found is not None else "size")
        ax.set_ylabel("GiB at the peak")
        ax.legend()
        return ax


def fit(
    runs: Mapping[Size, Snapshot | StrPath],
    *,
    without: str | list[str] | None = None,
    scale: str | list[str] | None = None,
    free_after_use: str | list[str] | None = None,
    device: Device | None = None,
) -> Sizes:
    """Returns what runs of two sizes or more say of others: `memreel.fit({4: "a.pickle", 8: "b.pickle"}).largest("80GiB")`.

    A size is a number, such as a batch, or two. `without`, `scale` and `free_after_use` change the program at a call, as in
    `memreel fit`.
    """
    return Sizes(runs, {"without": without, "scale": scale, "free_after_use": free_after_use}, device)


def _word(size: Size) -> str:
    return str(size) if isinstance(size, int) else ",".join(map(str, size))
