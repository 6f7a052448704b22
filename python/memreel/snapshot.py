"""`Snapshot`: a file in memory, the questions that it answers, and the snapshots that can be made of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from memreel import _memreel, limits, records
from memreel._errors import UnreadableError, UsageError
from memreel.answer import Answer, plain
from memreel.files import made, page_of
from memreel.limits import Share, Size
from memreel.question import Question, distinct, options
from memreel.table import Table
from memreel.times import Time, time_text, window_text
from memreel.wording import without_help

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from memreel.viewing import View

StrPath = str | os.PathLike[str]
# The number of a device, or the heap of the process, whatever its number is.
Device = int | Literal["heap"]
Moment = int | Literal["start", "peak", "oom", "end"]
A = TypeVar("A", bound=Answer)


class Snapshot:
    """A snapshot of PyTorch or memreel.

    A question is about one device: the only GPU that has memory, or without one the host, or the one that is named with
    `device=`: its number, or "heap". Its answer has the fields of the program's `--json`, and the program's text as its `repr`. While an answer is made, other threads run.
    `str` of a snapshot is the page that `memreel FILE` prints.
    """

    def __init__(self, opened: _memreel.Opened, name: str | None = None) -> None:
        self._opened = opened
        self.name = name or opened.name

    @property
    def devices(self) -> list[int]:
        """The devices that have memory or a history; -1 is pinned host memory."""
        return self._opened.devices

    @property
    def n_events(self) -> int:
        """The number of recorded events of all devices."""
        return self._opened.n_events

    def _question(self, command: str, **given: object) -> Question:
        return Question([(self.name, self._opened)], command, options(given))

    def _answer(self, kind: type[A], command: str, device: Device | None, **given: object) -> A:
        return self._question(command, device=self._device(device), **given).answers(kind)[0]

    def _device(self, device: Device | None) -> Device:
        if device is not None:
            return device
        devices = self._opened.likely_devices
        if len(devices) > 1:
            known = ", ".join(map(str, devices))
            raise UsageError(f"{self.name} has devices {known}; name one, for example device={devices[0]}")
        return devices[0] if devices else 0

    # What was when

    @property
    def peak(self) -> records.Totals:
        """The first moment with the most bytes in use, and the figures of that moment."""
        return self.summary().peak

    def summary(self, *, device: Device | None = None) -> records.Summary:
        """Returns what the device's history shows: its peak, its end, its last failed request."""
        return self._answer(records.Summary, "summary", device)

    def at(self, event: Moment, *, device: Device | None = None) -> records.State:
        """Returns the allocator's state after an event: its segments, with their blocks and what is free."""
        given = options({"device": self._device(device)})
        question = Question([(self.name, self._opened)], "at", given, [str(event), self.name])
        return question.answers(records.State)[0]

    def owners_of(
        self, address: int | str, n: int = 20, *, at: Moment = "end", device: Device | None = None
    ) -> records.AtAddress:
        """Returns the last `n` blocks that covered an address or a byte of a range ("0x7f00..0x7fff"), and what holds it."""
        given = options({"device": self._device(device), "address": address, "n": n})
        question = Question([(self.name, self._opened)], "at", given, [str(at), self.name])
        return question.answers(records.AtAddress)[0]

    def timeline(
        self, *, width: int = 100, by: Literal["event", "time"] = "event", device: Device | None = None
    ) -> records.Timeline:
        """Returns the highest figures of each of `width` pieces of the history."""
        if by not in ("event", "time"):
            raise UsageError(f"by={by!r}: not one of event, time")
        return self._answer(records.Timeline, "timeline", device, width=width, time=by == "time")

    # Who holds the memory

    def top(
        self,
        by: Literal["stack", "function", "file", "line", "scope", "name", "stream", "pool", "owner"] = "stack",
        at: Moment = "peak",
        n: int = 10,
        *,
        frames: int = 4,
        device: Device | None = None,
    ) -> records.Top:
        """Returns what holds the memory at a moment, the largest holders first."""
        return self._answer(records.Top, "top", device, by=by, at=at, n=n, frames=frames)

    def new(
        self,
        since: Time | None = None,
        at: Moment = "peak",
        n: int = 10,
        *,
        by: Literal["stack", "function", "file", "scope", "name"] = "stack",
        frames: int = 4,
        device: Device | None = None,
    ) -> records.TopNew:
        """Returns what is allocated after a time: the most that is held at once, and what is left at the end. A block counts
        until its free is requested."""
        given = {"since": None if since is None else time_text(since), "by": by, "at": at, "n": n, "frames": frames}
        return self._answer(records.TopNew, "top", device, new=True, **given)

    def allocated(self, n: int = 10, *, frames: int = 4, device: Device | None = None) -> records.TopAllocated:
        """Returns what each stack allocated, freed or not; for a heap from `memreel record`, over the whole run."""
        return self._answer(records.TopAllocated, "top", device, allocated=True, n=n, frames=frames)

    def tree(self, at: Moment = "peak", *, device: Device | None = None) -> records.Tree:
        """Returns the call tree of the memory at a moment."""
        return self._answer(records.Tree, "top", device, tree=True, at=at)

    def leaks(self, n: int = 10, *, frames: int = 4, device: Device | None = None) -> records.Leaks:
        """Returns what is held at the end: sites that grow first."""
        return self._answer(records.Leaks, "leaks", device, n=n, frames=frames)

    def leaks_between(
        self, first: str, second: str, n: int = 10, *, frames: int = 4, device: Device | None = None
    ) -> records.LeaksBetween:
        """Returns what was allocated between the ends of two scopes, such as `step#10` and `step#20`, and is still held."""
        for name, scope in (("first", first), ("second", second)):
            if scope.startswith("-"):
                # On a command line it would be an option.
                raise UsageError(f"{name}={scope!r}: a scope name that starts with - is not supported")
        given = {"device": self._device(device), "n": n, "frames": frames}
        words = ["--between", first, second, *options(given)]
        return Question([(self.name, self._opened)], "leaks", words).answers(records.LeaksBetween)[0]

    def leaks_older_than(
        self, events: int, n: int = 10, *, frames: int = 4, device: Device | None = None
    ) -> records.LeaksOlder:
        """Returns what is held at the end and is at least this many events old."""
        return self._answer(records.LeaksOlder, "leaks", device, older_than=events, n=n, frames=frames)

    def churn(self, n: int = 10, *, frames: int = 4, device: Device | None = None) -> records.Churn:
        """Returns the sites that repeatedly allocate and free one size."""
        return self._answer(records.Churn, "churn", device, n=n, frames=frames)

    def fragmentation(
        self, at: Moment | None = None, n: int = 10, *, device: Device | None = None
    ) -> records.Fragmentation:
        """Returns the reserved memory that no block uses, and what pins it: when the last request failed, or else at the end."""
        return self._answer(records.Fragmentation, "fragmentation", device, at=at, n=n)

    def oom(self, n: int = 10, *, frames: int = 4, device: Device | None = None) -> records.Oom | None:
        """Returns why the last failed request failed; None if none did."""
        question = self._question("oom", device=self._device(device), n=n, frames=frames)
        failed = [source for source in question.objects() if source["oom"] is not None]
        return records.Oom.answered(failed[0], question.text) if failed else None

    def owners(self, *, frames: int = 1, device: Device | None = None) -> records.Owners:
        """Returns who holds the device's memory: each library, the driver, what is unexplained."""
        return self._answer(records.Owners, "owners", device, frames=frames)

    # What would be

    def replay(
        self, conf: str, *, limit: int | str | None = None, device: Device | None = None
    ) -> records.Replay:
        """Returns what the history would need under another `PYTORCH_ALLOC_CONF`, such as `expandable_segments:True`."""
        return self._answer(records.Replay, "replay", device, conf=conf, limit=limit)

    def sweep(self, *, limit: int | str | None = None, device: Device | None = None) -> list[records.Replay]:
        """Returns what the history would need under a grid of settings, the best first."""
        question = self._question("replay", device=self._device(device), sweep=True, limit=limit)
        return question.answers(records.Replay)

    def gate(
        self,
        *,
        max_peak: Size | Mapping[str | None, Size] | Sequence[str] | None = None,
        max_live: Size | None = None,
        max_reserved: Size | None = None,
        max_fragmentation: Share | None = None,
        max_owner: Mapping[str, Size] | Sequence[str] | None = None,
        tolerance: Share | None = None,
        strict: bool = False,
        allow_no_history: bool = False,
        baseline: Snapshot | StrPath | None = None,
        device: Device | None = None,
    ) -> records.Gate:
        """Checks the figures against limits; `is_passed` is the result, and `raise_if_failed()` raises `GateError`. A baseline is
        a snapshot, or the path of one or of the JSON that `memreel gate --update-baseline` writes."""
        snapshots, named = [(self.name, self._opened)], None
        if isinstance(baseline, (str, os.PathLike)) and os.fspath(baseline).endswith(".json"):
            named = os.path.abspath(baseline)
        elif baseline is not None:
            before = opened(baseline)
            snapshots = distinct([*snapshots, (before.name, before._opened)])
            named = snapshots[1][0]
        given = {
            "device": self._device(device),
            "max_peak": limits.peaks(max_peak),
            "max_live": limits.sizes("max_live", max_live),
            "max_reserved": limits.sizes("max_reserved", max_reserved),
            "max_fragmentation": max_fragmentation,
            "max_owner": limits.owners(max_owner),
            "tolerance": tolerance,
            "strict": strict,
            "allow_no_history": allow_no_history,
            "baseline": named,
        }
        return Question(snapshots, "gate", options(given), [self.name]).answers(records.Gate)[0]

    def validate(self) -> list[records.Finding]:
        """Returns the rules of the format that the snapshot breaks."""
        question = self._question("validate")
        found = [source for source in question.objects() if "rule" in source]
        return [records.Finding.answered(source, question.text) for source in found]

    # Tables

    @property
    def events(self) -> Table:
        """A row for each event, device by device, oldest first. `stack` is a number of `stacks`."""
        return Table(self._opened.events())

    @property
    def blocks(self) -> Table:
        """A row for each block at the end, free ones included."""
        return Table(self._opened.blocks())

    @property
    def segments(self) -> Table:
        """A row for each segment at the end."""
        return Table(self._opened.segments())

    @property
    def stacks(self) -> Table:
        """A row for each frame of each stack, innermost first."""
        return Table(self._opened.stacks())

    # Other snapshots

    def fix(self) -> Snapshot:
        """Returns the snapshot without the defects that break the web viewer."""
        return self._made("fix")

    def slim(
        self,
        *,
        events: str | tuple[int | None, int | None] | None = None,
        time: str | tuple[Time | None, Time | None] | None = None,
        scope: str | None = None,
        nth: int | None = None,
        device: Device | None = None,
        min_size: int | str | None = None,
        depth: int | None = None,
        drop_path: list[str] | None = None,
        strip_prefix: list[str] | None = None,
        anonymise: bool = False,
    ) -> Snapshot:
        """Returns a smaller snapshot: a window, fewer frames, no names. The options are those of `memreel slim`."""
        given = {key: value for key, value in locals().items() if key != "self"}
        return self._made("slim", **{**given, "events": window_text(events), "time": window_text(time)})

    def _made(self, command: str, **given: object) -> Snapshot:
        question = self._question(command, **given)
        return Snapshot(made(question), f"{self.name} ({command})")

    def save(self, path: StrPath) -> None:
        """Writes the snapshot as a pickle that pytorch.org/memory_viz opens: the whole file, or nothing."""
        self._opened.save(path)

    # To look at

    def plot(
        self,
        ax: Axes | None = None,
        *,
        by: Literal["event", "time"] = "event",
        width: int = 1000,
        device: Device | None = None,
    ) -> Axes:
        """Draws the timeline with matplotlib, into `ax` or a new figure, with the steps, the first failed request, and who has
        the device's memory at the peak, as far as the file has them."""
        from memreel.look import plot

        timeline = self.timeline(width=width, by=by, device=device)
        marks = self._question("ranks", device=timeline.device).objects()[0]
        return plot(timeline, records.Rank.of(marks), by, ax)

    @overload
    def report(self, path: None = None, *, anonymise: bool = False, device: Device | None = None) -> str: ...
    @overload
    def report(self, path: StrPath, *, anonymise: bool = False, device: Device | None = None) -> None: ...
    def report(
        self, path: StrPath | None = None, *, anonymise: bool = False, device: Device | None = None
    ) -> str | None:
        """Returns the page of `memreel report` as Markdown, or writes it: HTML to a path that ends with .html, else Markdown."""
        question = self._question("report", anonymise=anonymise, device=device)
        if path is None:
            return question.text()
        question.printed(f"--output={os.fspath(path)}")
        return None

    def flamegraph(self, path: StrPath, at: Moment = "peak", *, device: Device | None = None) -> None:
        """Draws what holds the memory at a moment as a flame graph, an SVG."""
        self._question("flamegraph", at=at, output=os.fspath(path), device=self._device(device)).printed()

    def to_html(self, path: StrPath) -> None:
        """Writes the page of `memreel view` as one file that opens offline without memreel."""
        page_of(self.name, self.save, path)

    def view(self, *, port: int = 0, open: bool = True) -> View:
        """Opens the page of `memreel view` in a browser, and returns its server.

        `port=0` takes a free port. With `open=False`, or where no browser is, its `address` can be opened by hand.
        """
        from memreel.viewing import View

        return View(self.name, self.save, port=port, is_opened=open)

    def __repr__(self) -> str:
        devices = ", ".join(map(str, self.devices)) or "none"
        return f"<memreel.Snapshot {self.name!r}: {self.n_events:,} events, devices: {devices}>"

    def __str__(self) -> str:
        return self._question("summary").text().rstrip("\n")

    def __rich__(self) -> object:
        return plain(str(self))

    def _repr_html_(self) -> str:
        from memreel.files import drawn
        from memreel.look import page

        def shown(device: int) -> tuple[str, str]:
            return drawn(self._question("timeline", device=device)), self.top(n=5, device=device)._repr_html_()

        return page(self.name, self.n_events, self.devices, shown)

    def ask(self, words: list[str]) -> tuple[int, str]:
        """Runs a command of the program, with this snapshot's name where the command line has a file. Returns the exit
        status and the text."""
        try:
            return _memreel.ask([(self.name, self._opened)], words)
        except UsageError as error:
            raise UsageError(without_help(str(error))) from None


def load(path: StrPath) -> Snapshot:
    """Reads a snapshot: a pickle of PyTorch or memreel, JSON as viewers load it, or a tape. Nothing in it is executed."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        # What is wrong is said by what opens it.
        mode = stat.S_IFREG
    if stat.S_ISFIFO(mode):
        # Opening it would wait for its writer, and nothing could interrupt that.
        raise UnreadableError(f"{os.fspath(path)}: it is a pipe, not a file")
    # The program reads standard input under this name.
    return Snapshot(_memreel.Opened.load("./-" if path == "-" else path))


def opened(snapshot: Snapshot | StrPath) -> Snapshot:
    """Returns the snapshot, or reads its file."""
    return snapshot if isinstance(snapshot, Snapshot) else load(snapshot)
