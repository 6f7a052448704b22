"""`memory`, a context manager for programs with JAX.

    from memreel.integrations.jax import memory

    with memory(at_step=3, at_peak=True) as training:
        for batch in data:
            with training.step():
                state = update(state, batch)

JAX allocates without PyTorch, so that its memory is seen under `memreel record -- python ...` alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any

from memreel._errors import MemreelWarning
from memreel.integrations.training import PATH, Training
from memreel.recording.chosen import source
from memreel.recording.source import Stacks

_jax: Any = import_module("jax")


class memory:
    """Records a part of a program: each `step` is a scope, and snapshots are written when memory runs out (`on_oom`), after the
    step `at_step`, counted from 1, and after steps with a new peak (`at_peak`), which replace their file."""

    def __init__(
        self,
        path: str | os.PathLike[str] = PATH,
        *,
        on_oom: bool = True,
        at_step: int | None = None,
        at_peak: bool = False,
        stacks: Stacks = "python",
        max_entries: int | None = None,
    ) -> None:
        self.training = Training(
            path,
            on_oom=on_oom,
            at_step=at_step,
            at_peak=at_peak,
            stacks=stacks,
            max_entries=max_entries,
            peak_bytes=peak_bytes,
        )

    def __enter__(self) -> memory:
        from memreel.recording.preloaded import Preloaded

        if not isinstance(source(), Preloaded):
            why = "JAX's memory is not recorded; run the program under `memreel record -- python ...`"
            warnings.warn(MemreelWarning(why), stacklevel=2)
        self.training.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.training.failed(error)
        self.training.end()

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step. One that ends with an exception is not counted."""
        self.training.begin_step()
        yield
        self.training.end_step()


def peak_bytes() -> int:
    """Returns JAX's highest number of allocated bytes on a device of this process; 0 where JAX does not count them."""
    of_devices = (device.memory_stats() or {} for device in _jax.local_devices())
    return max((int(stats.get("peak_bytes_in_use", 0)) for stats in of_devices), default=0)
