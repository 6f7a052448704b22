"""Scopes in PyTorch's history: the metadata of a thread, or in older versions annotations."""

from __future__ import annotations

import threading
from typing import Any

from memreel.recording.stacked import Stacked


class TorchScopes(threading.local):
    """The scopes of this thread. Those that begin before CUDA is initialised hold from the moment that it is."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._names: list[str] = []
        # Whether PyTorch was asked to apply them; it keeps what it is asked.
        self._has_queued = False
        # The metadata that memreel wrote last, for these names.
        self._written, self._written_for = "", 0
        # The program's own metadata, and how many of the names it takes the place of.
        self._bases = [(0, "")]
        self._annotations = Stacked(self._annotate, lambda begun: begun.__exit__(None, None, None))  # type: ignore[attr-defined]

    def change(self, names: list[str]) -> None:
        """Names what this thread allocates from now on."""
        self._names = names
        if self._torch.cuda.is_initialized():
            self._apply()
        elif not self._has_queued:
            self._has_queued = True
            self._torch.cuda._lazy_call(self._apply)

    def _apply(self) -> None:
        get = getattr(self._torch._C, "_cuda_getMemoryMetadata", None)
        if get is None:
            self._annotations.change(self._names)
            return
        now: str = get()
        if now != self._written:
            # The program has changed it meanwhile.
            self._bases = [*(base for base in self._bases if base[0] < self._written_for), (self._written_for, now)]
        while self._bases[-1][0] > len(self._names):
            self._bases.pop()
        n_replaced, base = self._bases[-1]
        text = "/".join([*([base] if base else []), *self._names[n_replaced:]])
        self._torch._C._cuda_setMemoryMetadata(text)
        self._written, self._written_for = text, len(self._names)

    def _annotate(self, name: str) -> object:
        annotation = self._torch.autograd.profiler.record_function(name)
        annotation.__enter__()
        return annotation
