"""Runs three steps of a program of `models.py` at one size, and prints whether it fits and its peaks as a line of JSON.

    python3 run.py MODEL SIZE [--limit BYTES] [--dump FILE] [--change NAME] [--compile] [--fake]
"""

import argparse
import json
import lzma
import os
import sys
import time
from contextlib import nullcontext

import changed
import models
import torch

STEPS = 3
FULL = ("out of memory", "unable to find an engine", "ALLOC_FAILED")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("size", type=int)
    # That of a run without a limit leaves room for runs beside it.
    parser.add_argument("--limit", type=int, default=40 << 30)
    parser.add_argument("--dump")
    parser.add_argument("--change")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fake", action="store_true")
    return parser.parse_args()


def start(args):
    """Sets the device and its limit, and starts to record. Returns the number of this process."""
    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.manual_seed(rank)
    if models.DEVICE == "cpu" or args.fake:
        return rank
    torch.cuda.set_device(rank)
    total = torch.cuda.get_device_properties(rank).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (args.limit + 0.5) / total))
    if args.dump:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    return rank


def train(args, rank, tracker=None):
    if args.model == "changed":
        model, loss_of, batch, optimizer_of = changed.changed(args.size, args.change)
    else:
        model, loss_of, batch, optimizer_of = getattr(models, args.model)(args.size)
    if args.compile:
        model.compile(dynamic=False)
    if "WORLD_SIZE" in os.environ:
        devices = None if models.DEVICE == "cpu" else [rank]
        parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=devices)
        loss_of = lambda x: models.next_word_loss(parallel, x)
    optimizer = optimizer_of(model.parameters())
    if tracker:
        tracker.track_external(model)
    with tracker or nullcontext():
        for _ in range(STEPS):
            loss = loss_of(batch())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if tracker:
                tracker.reset_mod_stats()


def fake_peaks(args, rank):
    """Returns the peak that MemTracker finds with tensors that have no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    with FakeTensorMode(), torch.device(models.DEVICE):
        train(args, rank, tracker)
    peaks = tracker.get_tracker_snapshot("peak")
    totals = [of["Total"] for device, of in peaks.items() if device.type == models.DEVICE]
    return {"allocated": max(totals, default=0)}


def peaks(args, rank):
    train(args, rank)
    if models.DEVICE != "cpu":
        torch.cuda.synchronize()
    return statistics()


def statistics():
    if models.DEVICE == "cpu":
        return {}
    of = torch.cuda.memory_stats()
    found = {kind: of[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")}
    return {**found, "retries": of["num_alloc_retries"], "ooms": of["num_ooms"]}


def dump(path):
    torch.cuda.memory._dump_snapshot(path)
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(path, "rb") as file, lzma.open(path + ".xz", "wb", preset=1) as packed:
        packed.write(file.read())


def main():
    args = arguments()
    began = time.time()
    found = {"model": args.model, "size": args.size, "outcome": "fits"}
    try:
        rank = start(args)
        if "WORLD_SIZE" in os.environ:
            torch.distributed.init_process_group("gloo" if models.DEVICE == "cpu" else "nccl")
        found["rank"] = rank
        found.update(fake_peaks(args, rank) if args.fake else peaks(args, rank))
    except Exception as error:  # every failure becomes a line
        is_full = isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in FULL)
        found["outcome"] = "fails" if is_full else "error"
        found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        found.update(statistics() if is_full and not args.fake else {})
    found["seconds"] = round(time.time() - began, 1)
    print(json.dumps(found), flush=True)
    if args.dump and models.DEVICE != "cpu" and found["outcome"] != "error":
        dump(f"{args.dump}{'.1' if found['rank'] else ''}")
    sys.stdout.flush()
    # Without a farewell to the other ranks, which may wait for one that failed.
    os._exit({"fits": 0, "fails": 3, "error": 1}[found["outcome"]])


if __name__ == "__main__":
    main()
