"""`MemoryCallback` for the Trainer of Lightning, as `lightning.pytorch` or as `pytorch_lightning`.

    from memreel.integrations.lightning import MemoryCallback

    Trainer(callbacks=[MemoryCallback(at_step=3, at_peak=True)])
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from memreel.integrations.training import PATH, Training
from memreel.recording.source import Stacks

# Both may be installed, and each has a Callback of its own.
NAMES = ("lightning.pytorch", "pytorch_lightning")


def _base() -> Any:
    """The Callback of the Lightning that the program has imported, or else that is installed."""
    for name in NAMES:
        if name in sys.modules:
            return sys.modules[name].Callback
    try:
        return import_module(NAMES[0]).Callback
    except ImportError:
        return import_module(NAMES[1]).Callback


_Base: Any = _base()


class MemoryCallback(_Base):  # type: ignore[misc]  # Lightning need not be installed where types are checked
    """Records a training: each batch is a scope `step`, and snapshots are written when memory runs out (`on_oom`), after the
    batch `at_step`, counted from 1, and after batches with a new peak (`at_peak`), which replace their file."""

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
        super().__init__()
        self.training = Training(
            path, on_oom=on_oom, at_step=at_step, at_peak=at_peak, stacks=stacks, max_entries=max_entries
        )

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.training.begin()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.training.begin_step()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.training.end_step()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.training.failed(exception)
        self.training.end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.training.end()
