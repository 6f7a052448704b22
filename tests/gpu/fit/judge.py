"""Judges `memreel fit` on a GPU: predicts from two small runs of each program, and runs what is predicted.

    MEMREEL_PROGRAM=PROGRAM OUT=FOLDER FIT_SECONDS=520 python3 tests/gpu/fit/judge.py [MODEL ...]

`ddp` is the mixture of experts on two GPUs. Each answer is a line of `OUT/results.jsonl`; snapshots are in `OUT/*.tar`.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from changed import CHANGES

HERE, OUT, WORK = Path(__file__).parent, Path(os.environ.get("OUT", ".")), Path(tempfile.mkdtemp())
MEMREEL = os.environ.get("MEMREEL_PROGRAM", "memreel")
END = time.time() + float(os.environ.get("FIT_SECONDS", 520))
LIMIT, EXPANDABLE = 16 << 30, "expandable_segments:True"
# The two small sizes, the step between sizes that are tried, and the limit.
MODELS = {
    "vit": ((32, 64), 8, LIMIT),
    "unet": ((8, 16), 2, LIMIT),
    "moe": ((4, 8), 1, LIMIT),
    "llama": ((4, 8), 1, LIMIT),
    "resnet50": ((32, 48), 4, LIMIT // 2),
    "ddp": ((4, 8), 1, LIMIT),
}
# What the two programs of `largest.jsonl` requested at these sizes, and the largest that ran.
KNOWN = {"llama": ({4: 4512469416, 8: 6453834152}, 26), "resnet50": ({32: 3061272224, 48: 4443033232}, 92)}
PEAKS = ("requested", "allocated", "reserved")
# Five processes of at most about 20 GiB; one pair.
PLACES, LOCK, PORTS = threading.Semaphore(1 if "ddp" in sys.argv else 5), threading.Lock(), count(29600)


def write(kind, **answer):
    shown = {key: of for key, of in answer.items() if kind != "run" or key in ("name", "outcome", "wall", "error")}
    with LOCK, open(OUT / "results.jsonl", "a") as file:
        print(kind, json.dumps(shown)[: 150 if kind == "run" else 900], flush=True)
        file.write(json.dumps({"kind": kind, **answer}) + "\n")


def together(*calls):
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def run(model, size, *flags, conf="", limit=0):
    """Runs a program once. Returns what it printed, with the path of its snapshot."""
    is_pair = model == "ddp"
    parts = [model, str(size), *flags[-1:], conf[:3], f"{limit >> 30}GiB" if limit else ""]
    name = "-".join(part.strip("-") for part in parts if part)
    path, log = WORK / f"{name}.pickle", WORK / f"{name}.log"
    python = [sys.executable]
    if is_pair:
        python += ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
        python += ["--master-port", str(next(PORTS))]
    words = [*python, str(HERE / "run.py"), "moe" if is_pair else model, str(size), *flags]
    words += ["--limit", str(limit)] if limit else []
    words += ["--compile"] if model == "vit" and "--fake" not in flags else []
    words += [] if "--fake" in flags else ["--dump", str(path)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(WORK / "inductor")}
    environment |= {"TORCHINDUCTOR_COMPILE_THREADS": "4", **({"PYTORCH_ALLOC_CONF": conf} if conf else {})}
    with PLACES, open(log, "w") as output:
        began = time.time()
        if END - began < 5:
            return {"outcome": "error", "error": "no time is left", "path": str(path), "wall": 0}
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            process.wait(max(1, min(170, END - began)))
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(8)
            except subprocess.TimeoutExpired:
                process.kill()
    text = log.read_text(errors="replace").splitlines()
    lines = [json.loads(line) for line in text if line.startswith('{"model"')]
    # The rank that failed, or the first.
    found = max(lines, key=lambda of: (of["outcome"] != "fits", -of.get("rank", 0)), default=None)
    found = found or {"outcome": "error", "error": " | ".join(text[-3:])[-300:]}
    found |= {"path": str(path), "wall": round(time.time() - began, 1)}
    write("run", name=name, **{key: of for key, of in found.items() if key != "path"})
    return found


def fit(runs, *words):
    """Returns the answer of `memreel fit`, or nothing; `runs` are the sizes and their snapshots."""
    files = [f"{size}={path}" for size, path in runs.items()]
    done = subprocess.run(["timeout", "60", MEMREEL, "fit", "--json", *files, *words], capture_output=True, text=True)
    try:
        return json.loads(done.stdout.splitlines()[0])
    except (ValueError, IndexError):
        write("memreel failed", words=[*files, *words], status=done.returncode, says=done.stderr[-300:])


def percent(predicted, measured):
    return round((predicted - measured) / measured * 100, 3) if measured and predicted is not None else None


def predicted_peaks(of):
    return {kind: of[f"{kind}_peak_bytes"] for kind in PEAKS}


def largest(model, runs, conf=""):
    """Predicts the largest size under the limit, and runs it and its neighbours. Returns it."""
    _, step, limit = MODELS[model]
    answer = fit(runs, "--limit", str(limit), "--step", str(step), *(["--conf", conf] if conf else []))
    if not answer or not answer["largest"]:
        return None
    size = answer["largest"][0]
    probe = lambda size: run(model, size, conf=conf, limit=limit)["outcome"]
    outcomes = dict(zip((size, size + step), together(lambda: probe(size), lambda: probe(size + step)), strict=True))
    # The largest that ran, for a prediction that is off.
    for move in (-step, step):
        at = size if move < 0 else size + step
        while outcomes.get(at) == ("fails" if move < 0 else "fits") and abs(at - size) < 4 * step and at + move > 0:
            at += move
            outcomes.setdefault(at, None)
            outcomes[at] = outcomes[at] or probe(at)
    measured = max((at for at, outcome in outcomes.items() if outcome == "fits"), default=None)
    is_right = outcomes[size] == "fits" and outcomes[size + step] == "fails"
    of = {"predicted": size, "is_right": is_right, "measured": measured, "outcomes": outcomes}
    write("largest", model=model, conf=conf, **of, confidence=answer["predictions"][0]["confidence"])
    return size


def line_at(model, small, kind, size):
    """Returns a peak at a size, on the line through two measured ones."""
    one, two = MODELS[model][0]
    return small[0][kind] + (small[1][kind] - small[0][kind]) * (size - one) / (two - one)


def line_largest(model, small):
    """Returns the largest size whose reserved peak is below the limit on that line."""
    _, step, limit = MODELS[model]
    sizes = range(step, 2000, step)
    return max((size for size in sizes if line_at(model, small, "reserved", size) <= limit), default=step)


def peers(model, small, runs, size):
    """Compares the predicted peaks of a size without a limit with a run, a line through two runs, and MemTracker."""
    target, fake = together(lambda: run(model, size), lambda: run(model, size, "--fake"))
    answer, line = fit(runs, "--at", str(size)), lambda kind: line_at(model, small, kind, size)
    off = lambda of: {kind: percent(of.get(kind), target.get(kind)) for kind in PEAKS}
    tracked = fake.get("allocated")
    deviations = {
        "memreel": off(predicted_peaks(answer["predictions"][0])) if answer else None,
        "line": off({kind: line(kind) for kind in PEAKS}),
        "memtracker": off({"allocated": tracked, "reserved": tracked}) if tracked else fake.get("error"),
    }
    seconds = {"small": [of["wall"] for of in small], "target": target["wall"], "memtracker": fake["wall"]}
    measured = {kind: target.get(kind) for kind in PEAKS}
    write("peers", model=model, size=size, measured=measured, **deviations, seconds=seconds)


def model_chain(model):
    sizes = MODELS[model][0]
    small = together(*[lambda size=size: run(model, size) for size in sizes])
    if any(of["outcome"] != "fits" for of in small):
        return
    runs = {size: of["path"] for size, of in zip(sizes, small, strict=True)}
    if model in KNOWN:
        known, size = KNOWN[model]
        off = [of["requested"] - known[at] for at, of in zip(sizes, small, strict=True)]
        write("same program", model=model, largest=size, off=off)
    if model == "ddp":
        other = fit({size: f"{path}.1" for size, path in runs.items()}, "--limit", str(LIMIT))
        write("other rank", largest=other and other["largest"])
    by_line = line_largest(model, small)
    write("line", model=model, largest=by_line)
    size = largest(model, runs) or by_line
    calls = [lambda: peers(model, small, runs, size)] if model != "ddp" else []
    together(*calls, lambda: largest(model, runs, EXPANDABLE))


def changes_chain():
    """Predicts changed programs from the program as it is, and runs them."""
    sizes, target = (8, 16), 24
    small = together(*[lambda size=size: run("changed", size) for size in sizes])
    runs = {size: of["path"] for size, of in zip(sizes, small, strict=True) if of["outcome"] == "fits"}

    def judge(change):
        right = together(*[lambda size=size: run("changed", size, "--change", change) for size in (16, target)])
        answer = fit(runs, "--at", str(target), *CHANGES[change])
        if not answer or len(runs) < 2:
            return
        found = {of["size"][0]: predicted_peaks(of) for of in [*answer["recorded"], *answer["predictions"]]}
        of_run = lambda of: {kind: percent(found[of["size"]][kind], of.get(kind)) for kind in PEAKS}
        off = {of["size"]: of_run(of) for of in right if "size" in of}
        unchanged = {kind: percent(small[1].get(kind), right[0].get(kind)) for kind in PEAKS}
        write("change", change=change, off_percent=off, unchanged_16_percent=unchanged)

    together(*[lambda change=change: judge(change) for change in CHANGES])


def guarded(model):
    try:
        changes_chain() if model == "changed" else model_chain(model)
    except Exception:  # the other programs go on
        write("broken", model=model, error=traceback.format_exc()[-900:])


def keep_snapshots():
    """Packs the compressed snapshots into files of at most 15 MiB."""
    number, room = 0, 0
    for path in sorted(WORK.glob("*.xz"), key=lambda path: path.stat().st_size):
        bytes_needed = path.stat().st_size + 1024
        if bytes_needed > room:
            number, room = number + 1, 15 << 20
        if number > 4 or bytes_needed > room:
            break
        with tarfile.open(OUT / f"snapshots{number}.tar", "a") as tar:
            tar.add(path, path.name)
        room -= bytes_needed


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    together(*[lambda model=model: guarded(model) for model in sys.argv[1:] or [*[*MODELS][:-1], "changed"]])
    keep_snapshots()
    write("done", seconds_left=round(END - time.time()))
