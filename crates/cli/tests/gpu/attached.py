"""Attaches to a training in its middle, and compares it with one that is left alone. usage: attached.py FOLDER

Both begin with the same seed, and each call of PyTorch is deterministic, so each step has the same loss. Prints what `memreel
attach` prints, and the longest step of each training. Ends with 4 if a loss differs, or if the snapshot does not open.
MEMREEL_PROGRAM names the program memreel. `attached.py train LOSSES STOP [STEPS]` is the training: it ends when the file STOP
is there, or after STEPS steps.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

# Steps before anything is measured or attached to.
N_BEFORE = 100
# No wait for the training is longer.
PATIENCE = 300


def train(losses_file, stop, n_steps=None):
    import torch
    from torch import nn

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    layers = [nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(4)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses, times_ms = [], []
    while len(losses) < n_steps if n_steps else not os.path.exists(stop):
        begun = time.perf_counter()
        optimizer.zero_grad()
        batch = torch.randn(2048, 2048, device="cuda")
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(repr(loss.item()))
        times_ms.append(1000 * (time.perf_counter() - begun))
        if len(losses) == N_BEFORE:
            print("trains", flush=True)
    pathlib.Path(losses_file).write_text("\n".join(losses))
    times_ms = times_ms[N_BEFORE:]
    times = {"median": statistics.median(times_ms), "longest": max(times_ms)}
    print(json.dumps({"n_steps": len(losses), **{f"{name}_ms": round(of, 3) for name, of in times.items()}}))


def started(*words):
    # Deterministic products of matrices take a workspace of this size.
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    command = [sys.executable, os.path.abspath(__file__), "train", *map(str, words)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "trains\n":
        process.kill()
        sys.exit(f"the training ended with {process.wait()}")
    return process


def ended(process):
    """Returns what a training says at its end."""
    said, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:
        sys.exit(f"the training ended with {process.returncode}")
    return json.loads(said)


def memreel(*words):
    """Runs memreel, prints what it says, and returns its status."""
    command = [os.environ["MEMREEL_PROGRAM"], *map(str, words)]
    print("$ memreel", *words, flush=True)
    # What it prints on both streams is in the order in which it comes.
    return subprocess.run(command, stdout=sys.stdout, stderr=subprocess.STDOUT, timeout=PATIENCE).returncode


def compare(folder):
    """Returns what is wrong."""
    stop, snapshot = folder / "stop", folder / "attached.pickle"
    for file in (stop, snapshot):
        file.unlink(missing_ok=True)
    files = [folder / "losses-attached", folder / "losses-alone"]
    process = started(files[0], stop)
    try:
        status = memreel("attach", process.pid, "--for", "10s", "-o", snapshot)
        # Steps after the history is off again.
        time.sleep(2)
    finally:
        stop.touch()
    attached = ended(process)
    alone = ended(started(files[1], stop, attached["n_steps"]))
    for name, said in (("attached", attached), ("alone", alone)):
        print(json.dumps({"training": name, **said}))
    print(f"the longest step took {attached['longest_ms']} ms attached, {alone['longest_ms']} ms alone", flush=True)
    wrong = [f"memreel attach ended with {status}"] if status != 0 else []
    losses = [file.read_text().splitlines() for file in files]
    first = next((step for step, pair in enumerate(zip(*losses, strict=True)) if len(set(pair)) > 1), None)
    if first is not None:
        wrong.append(f"step {first} has the losses {losses[0][first]} and {losses[1][first]}")
    if len(set(losses[0])) < 2:
        wrong.append("all losses are equal, which proves nothing")
    if status == 0:
        wrong += [f"memreel {name} ended" for name in ("validate", "owners") if memreel(name, snapshot) != 0]
    return wrong


def main(folder):
    if sys.version_info < (3, 14) and shutil.which("gdb") is None:
        print("skipped: no gdb")
        return 0
    wrong = compare(pathlib.Path(folder))
    print("\n".join(wrong) or "equal losses, and the snapshot opens")
    return 4 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        sys.exit(main(sys.argv[1]))
