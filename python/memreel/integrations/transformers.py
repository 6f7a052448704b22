"""`MemoryCallback` for the Trainer of transformers.

    from memreel.integrations.transformers import MemoryCallback

    Trainer(model, args, train_dataset=data, callbacks=[MemoryCallback(at_step=3, at_peak=True)])
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from memreel.integrations.training import PATH, Training
from memreel.recording.source import Stacks

_Base: Any = import_module("transformers").TrainerCallback


class MemoryCallback(_Base):  # type: ignore[misc]  # transformers need not be installed where types are checked
    """Records a training: each step is a scope `step`, and snapshots are written when a request of PyTorch fails (`on_oom`),
    after the step `at_step`, counted from 1, and after steps with a new peak (`at_peak`), which replace their file.

    A step is an update of the weights, with all of its accumulated batches. The failed request is seen when it fails, so that
    a program that goes on with smaller batches has a snapshot too.
    """

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
            path, on_oom=on_oom, at_step=at_step, at_peak=at_peak, stacks=stacks, max_entries=max_entries
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.training.begin()

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.training.begin_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.training.end_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.training.end()
