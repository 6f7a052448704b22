"""What all integrations do: steps as scopes, and snapshots when memory runs out, after a step, and at a new peak."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memreel._errors import Error, MemreelWarning, UsageError
from memreel.recording import paths
from memreel.recording.oom import is_out_of_memory, report
from memreel.recording.scopes import scope
from memreel.recording.session import dump, start, stop
from memreel.recording.source import Stacks

# A peak is a new one if it is above the last by this share: a peak that creeps must not write a file at each step.
NEW_PEAK = 1.01
PATH = "{why}-{rank}-{pid}.pickle"


class Training:
    """A training that is recorded, and the snapshots of it. `path` has `{why}`, which is `oom`, `step` or `peak`, if several
    of them are asked for. Paths that cannot be written are refused at once."""

    def __init__(
        self,
        path: str | os.PathLike[str] = PATH,
        *,
        on_oom: bool = True,
        at_step: int | None = None,
        at_peak: bool = False,
        stacks: Stacks = "python",
        max_entries: int | None = None,
        peak_bytes: Callable[[], int] | None = None,
    ) -> None:
        reasons = [why for why, is_asked in (("oom", on_oom), ("step", at_step is not None), ("peak", at_peak)) if is_asked]
        if len(reasons) > 1 and "{why}" not in os.fspath(path):
            raise UsageError(f"{os.fspath(path)} is one file for {' and '.join(reasons)}; put {{why}} into it")
        if at_step is not None and at_step < 1:
            raise UsageError(f"at_step is a step number of at least 1, not {at_step}")
        self._paths = {why: paths.filled(path, why=why) for why in reasons}
        for filled in self._paths.values():
            paths.check(filled)
        self._at_step = at_step
        self._stacks: Stacks = stacks
        self._max_entries = max_entries
        self._peak_bytes = peak_bytes or torch_peak_bytes
        self._is_open = False
        self._step: scope | None = None
        self.n_steps = 0
        self.highest_bytes = 0
        # Whether the failed request of this step has its snapshot.
        self._has_oom = False

    def begin(self) -> None:
        """Begins to record. A training that an exception has ended is closed first."""
        self.end()
        start(self._stacks, self._max_entries)
        self._has_oom = False
        self._is_open, self.n_steps, self.highest_bytes = True, 0, 0
        if "oom" in self._paths:
            observe(self)

    def end(self) -> None:
        """Ends the recording, if there is one."""
        self._leave_step()
        if self._is_open:
            self._is_open = False
            forget(self)
            stop()

    def begin_step(self) -> None:
        self._leave_step()
        self._has_oom = False
        self._step = scope("step")
        self._step.__enter__()

    def end_step(self) -> None:
        self._leave_step()
        self.n_steps += 1
        if self.n_steps == self._at_step:
            self._write("step")
        if "peak" in self._paths:
            highest = self._peak_bytes()
            if highest > self.highest_bytes * NEW_PEAK:
                self.highest_bytes = highest
                self._write("peak")

    def failed(self, error: BaseException) -> None:
        """Writes a snapshot if the exception is about memory and the request that failed has none."""
        if self._is_open and "oom" in self._paths and not self._has_oom and is_out_of_memory(error):
            self.out_of_memory()

    def out_of_memory(self) -> None:
        """Writes a snapshot and prints why a request failed, for the first of a step. Raises nothing."""
        if self._has_oom:
            return
        self._has_oom = True
        report(_literal(self._paths["oom"]))

    def _leave_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _write(self, why: str) -> None:
        try:
            dump(_literal(self._paths[why]))
        except Error as error:
            # A training of days does not end because a disk is full.
            warnings.warn(MemreelWarning(f"{self._paths[why]} was not written: {error}"), stacklevel=3)


def _literal(path: Path) -> str:
    """A path whose braces are no placeholders."""
    return os.fspath(path).replace("{", "{{").replace("}", "}}")


def torch_peak_bytes() -> int:
    """Returns PyTorch's highest number of allocated bytes on the current device; 0 without CUDA."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return int(cuda.max_memory_allocated()) if cuda is not None and cuda.is_initialized() else 0


# The trainings that write a snapshot of a failed request; the last of them does. PyTorch cannot detach an observer, so there
# is one for all trainings.
_observing: list[weakref.ref[Training]] = []
# The torch that has the observer.
_attached_to: Any = None


def observe(training: Training) -> None:
    """Has a training told of requests of PyTorch that fail, before the exception is raised: callbacks do not see those."""
    global _attached_to
    _observing.append(weakref.ref(training))
    torch: Any = sys.modules.get("torch")
    attach = getattr(getattr(torch, "_C", None), "_cuda_attach_out_of_memory_observer", None)
    cuda = getattr(torch, "cuda", None)
    if attach is not None and cuda is not None and torch is not _attached_to:
        _attached_to = torch
        # The observers are the allocator's, which CUDA's initialisation makes.
        # `install` may replace the function before.
        cuda._lazy_call(lambda: torch._C._cuda_attach_out_of_memory_observer(_failed_request))


def forget(training: Training) -> None:
    _observing[:] = [one for one in _observing if one() not in (None, training)]


def _failed_request(device: int, bytes: int, total_bytes: int, free_bytes: int) -> None:
    """What PyTorch calls, without its allocator's lock, when a request fails. An exception would end the process."""
    try:
        alive = [training for one in _observing if (training := one()) is not None]
        for training in alive[-1:]:
            training.out_of_memory()
    except BaseException as failure:
        print(f"memreel: out of memory, and no snapshot: {failure}", file=sys.stderr)
