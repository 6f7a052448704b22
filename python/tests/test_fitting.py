"""Predictions of sizes, against the recorded and the measured runs of `fixtures/torch-2.11/sizes`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import memreel

SIZES = Path(__file__).parents[2] / "fixtures" / "torch-2.11" / "sizes"


@pytest.fixture(scope="module")
def model() -> dict:
    return json.loads((SIZES / "llama_eager.json").read_text())


@pytest.fixture(scope="module")
def runs(model: dict, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("sizes")
    written = {}
    for size in (512, 768):
        written[size] = folder / f"{size}.pickle"
        written[size].write_bytes(pickle.dumps(snapshot(model, str(size))))
    return written


def snapshot(model: dict, size: str) -> dict:
    """The snapshot of a run, as PyTorch dumps it."""
    run, trace, bytes_of = model["runs"][size], [], {}
    for event in run["events"]:
        address, actions = event[1], {0: ["alloc"], 2: ["segment_alloc"], 3: ["segment_free"]}.get(event[0])
        if event[0] == 0:
            bytes_of[address] = event[2]
        name, filename, line = (model["stacks"][event[3]] if event[0] == 0 else [None, None, 0])[:3]
        # Stacks differ in calls that were left out.
        outer = {"name": "stack", "filename": "left out", "line": event[3] if event[0] == 0 else 0}
        frames = [] if name is None else [{"name": name, "filename": filename, "line": line}, outer]
        for action in actions or ["free_requested", "free_completed"]:
            size_bytes = bytes_of[address] if event[0] == 1 else event[2]
            entry = {"action": action, "addr": address, "size": size_bytes, "stream": 0, "frames": frames}
            trace.append({**entry, "time_us": len(trace)})
    blocks = ("address", "size", "requested_size", "state")
    segments = [
        {
            "address": address,
            "total_size": size,
            "segment_type": kind,
            "stream": 0,
            "device": 0,
            "frames": [],
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "blocks": [{**dict(zip(blocks, block, strict=True)), "frames": []} for block in inner],
        }
        for address, size, kind, inner in run["segments"]
    ]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": run["conf"]}
    return {"segments": segments, "device_traces": [trace], "allocator_settings": settings}


def test_peaks_are_those_that_were_measured(model: dict, runs: dict[int, Path]) -> None:
    sizes = memreel.fit(runs)
    predicted, measured = sizes.at(1536), model["peaks"]["1536"]
    assert predicted.requested_peak_bytes == measured["requested_peak"]
    assert predicted.reserved_peak_bytes == measured["reserved_peak"]
    found = sizes.largest("8GiB", step=64)
    assert found.largest == [1280] and found.predictions[1].failure is not None
    assert "size 1280 fits in 8.00 GiB" in repr(found) and "recorded" in repr(sizes)


def test_a_change_needs_less(runs: dict[int, Path]) -> None:
    both = {size: memreel.load(path) for size, path in runs.items()}
    without = memreel.fit(both, without="softmax (functional.py:2161)")
    assert without.at(1024).requested_peak_bytes < memreel.fit(both).at(1024).requested_peak_bytes
    with pytest.raises(memreel.UsageError, match="inside"):
        memreel.fit(both, without="no such call").at(1024)
    with pytest.raises(memreel.UsageError, match="two sizes"):
        memreel.fit({512: runs[512]}).at(1024)


def test_sizes_are_drawn(runs: dict[int, Path]) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = memreel.fit(runs).plot("8GiB", ax=pyplot.figure().subplots())
    assert len(axes.lines) == 6 and axes.get_xlabel() == "size"
