"""Limits and a baseline against what was measured: what is exceeded, and what could not be checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from memreel import _memreel
from memreel.pytest_plugin.baseline import Peaks
from memreel.pytest_plugin.limits import Limit, Limits
from memreel.pytest_plugin.window import Measured

text = _memreel.bytes_text
NEEDS_HEAP = "the heap is only recorded under `memreel record --heap -- pytest`"


@dataclass
class Verdict:
    """The result of all checks of a test."""

    # What is exceeded, by how much, and the stacks: one text for each.
    failures: list[str] = field(default_factory=list)
    # What was not checked, and why.
    unchecked: list[tuple[str, str]] = field(default_factory=list)
    is_new: bool = False

    def check_limits(self, limits: Limits, measured: Measured) -> None:
        self._check_gpus(limits, measured)
        if limits.host is not None:
            self._check_host(limits.host, measured)
        if limits.host_leaks is not None:
            self._check_host_leaks(limits.host_leaks, measured)

    def check_baseline(self, before: Peaks | None, tolerance_percent: float, measured: Measured) -> None:
        """Compares the peaks with those of the baseline; None if the test is not in it."""
        if before is None:
            self.is_new = True
            return
        if before.gpu_bytes is not None:
            if measured.why_no_gpu:
                self.unchecked.append(("the baseline", measured.why_no_gpu))
            else:
                for gpu in measured.gpus:
                    what = f"GPU {gpu.device}: the peak is {text(gpu.peak_bytes)}"
                    self._compare(what, gpu.peak_bytes, before.gpu_bytes, tolerance_percent, partial(gpu.text, "peak"))
        if before.heap_bytes is not None:
            host = measured.host
            if host is None or not host.is_heap:
                self.unchecked.append(("the baseline of the heap", NEEDS_HEAP))
            else:
                what = f"heap: the peak is {text(host.peak_bytes)}"
                self._compare(what, host.peak_bytes, before.heap_bytes, tolerance_percent, lambda: host.text("peak"))

    def _check_gpus(self, limits: Limits, measured: Measured) -> None:
        for name, limit in (("limit_gpu_memory", limits.gpu), ("limit_gpu_leaks", limits.leaks)):
            if limit is None:
                continue
            if measured.why_no_gpu:
                self.unchecked.append((name, measured.why_no_gpu))
            for gpu in measured.gpus:
                # A peak that is known to be too high is too high, whatever was lost.
                if limit is limits.gpu and gpu.peak_bytes > limit.bytes:
                    what = f"{name}: GPU {gpu.device} had {text(gpu.peak_bytes)} of the test's memory at the peak"
                    self._exceeded(what, gpu.peak_bytes, limit, gpu.text("peak"))
                elif limit is limits.leaks and gpu.left_bytes > limit.bytes:
                    what = f"{name}: GPU {gpu.device} has {text(gpu.left_bytes)} of the test's memory left at its end"
                    self._exceeded(what, gpu.left_bytes, limit, gpu.text("end"))

    def _check_host(self, limit: Limit, measured: Measured) -> None:
        host = measured.host
        if host is None:
            self.unchecked.append(("limit_host_memory", measured.why_no_host))
        elif host.peak_bytes > limit.bytes:
            verb = "the heap had" if host.is_heap else "resident memory grew by"
            what = f"limit_host_memory: {verb} {text(host.peak_bytes)} {'of the test at the peak' if host.is_heap else 'at the most'}"
            self._exceeded(what, host.peak_bytes, limit, host.text("peak"))

    def _check_host_leaks(self, limit: Limit, measured: Measured) -> None:
        host = measured.host
        if host is None or host.left_bytes is None:
            # Resident memory that was freed may stay resident.
            self.unchecked.append(("limit_host_leaks", NEEDS_HEAP))
        elif host.left_bytes > limit.bytes:
            what = f"limit_host_leaks: the heap has {text(host.left_bytes)} of the test's memory left at its end"
            self._exceeded(what, host.left_bytes, limit, host.text("end"))

    def _exceeded(self, what: str, found: int, limit: Limit, stacks: str) -> None:
        self.failures.append(f"{what}, {text(found - limit.bytes)} above the limit of {limit}\n{stacks}")

    def _compare(self, what: str, found: int, before: int, tolerance_percent: float, stacks: Callable[[], str]) -> None:
        if found > before * (1 + tolerance_percent / 100):
            tolerance = f" with a tolerance of {tolerance_percent:g} %" if tolerance_percent else ""
            grown = f"{text(found - before)} above the baseline of {text(before)}{tolerance}"
            self.failures.append(f"{what}, {grown}\n{stacks()}")
