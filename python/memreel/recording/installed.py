"""memreel's own history as the source of a recording, where memreel is the allocator (`memreel.install`)."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from memreel._errors import MemreelWarning, RecordingError, UnreadableError
from memreel.recording.source import Stacks
from memreel.recording.stacked import Stacked
from memreel.serving.library import library
from memreel.serving.scopes import scopes


class State:
    """Whether the recording that is on was switched on here."""

    is_ours = False


state = State()


def forget() -> None:
    """Forgets the recording in a child of fork."""
    state.is_ours = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


class Installed:
    """The history of memreel's allocator."""

    why_not = ""

    def start(self, stacks: Stacks, max_entries: int | None) -> None:
        # One that is on is the program's; switching it on again would change its options.
        if library().is_recording():
            return
        options: dict[str, object] = {"enabled": "all", "stacks": stacks}
        if max_entries is not None:
            options["max_entries"] = max_entries
        library().record(options)
        state.is_ours = True

    def stop(self) -> None:
        if state.is_ours:
            state.is_ours = False
            library().record({"enabled": None})

    def dump(self, path: Path) -> None:
        if not library().is_recording():
            raise RecordingError("nothing is recorded: call memreel.start() first")
        try:
            library().dump(path)
        except RecordingError as error:
            raise UnreadableError(f"cannot write {path}: {error}") from error
        n_lost = self._lost()
        if n_lost > 0:
            text = f"the history is incomplete: {n_lost:,} of its oldest events were lost; record with more max_entries"
            warnings.warn(MemreelWarning(text), stacklevel=2)

    def _lost(self) -> int:
        n_lost, device = 0, 0
        while True:
            try:
                n_lost += library().call("memreel_lost_events", device)
            except RecordingError:
                # There is no such device.
                return n_lost
            device += 1

    def set_scopes(self, names: list[str]) -> None:
        stacked.change(names)


stacked = Stacked(lambda name: scopes().begin(name), lambda begun: scopes().end())
