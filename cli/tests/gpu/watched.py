"""A training on each GPU that asks `memreel watch --once --json` about itself at ten moments, and compares.

memreel record -o FILE -- torchrun --nproc-per-node N watched.py     MEMREEL_PROGRAM names the program memreel

Between two looks nothing runs, so what PyTorch says that it has reserved, and what the driver says that is used, is what the
look must say. Each moment is a line; the process ends with 1 if one differs. ASK=0 trains alone, for the times of a step.
"""

import json
import os
import subprocess
import sys
import time

import torch
from torch import distributed, nn

RANK = int(os.environ["RANK"])
BLOCK_BYTES = 64 << 20


def look():
    """What the watch says of this process's own device."""
    asked = [os.environ["MEMREEL_PROGRAM"], "watch", "--once", "--json", str(os.getpid())]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    out = subprocess.run(asked, env=plain, capture_output=True, text=True, check=True).stdout
    (device,) = (found for found in map(json.loads, out.splitlines()) if found["device"] == RANK)
    return device


def compare(moment):
    reserved = torch.cuda.memory_stats()["reserved_bytes.all.current"]
    device = look()
    free, total = torch.cuda.mem_get_info()
    owned = {found["owner"]: found["bytes"] for found in device["owners"]}
    is_equal = owned["pytorch"] == reserved and device["used_bytes"] == total - free
    said = {"pytorch": owned["pytorch"], "reserved": reserved, "used": device["used_bytes"], "driver": total - free}
    print(json.dumps({"rank": RANK, "moment": moment, "equal": is_equal, **said}), flush=True)
    return is_equal


torch.cuda.set_device(RANK)
distributed.init_process_group("nccl", device_id=torch.device("cuda", RANK))
model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda())
optimizer = torch.optim.Adam(model.parameters())
kept, times_ms, n_differ = [], [], 0
for moment in range(10):
    for _ in range(20):
        begun = time.perf_counter()
        optimizer.zero_grad()
        model(torch.randn(512, 2048, device="cuda")).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        times_ms.append(1000 * (time.perf_counter() - begun))
    # A leak, so that no two moments have equal figures.
    kept.append(torch.empty(BLOCK_BYTES, dtype=torch.uint8, device="cuda"))
    distributed.barrier()
    if os.environ.get("ASK") != "0":
        n_differ += not compare(moment)
    distributed.barrier()
times_ms.sort()
print(json.dumps({"rank": RANK, "median_ms": times_ms[len(times_ms) // 2], "fastest_ms": times_ms[0]}), flush=True)
distributed.destroy_process_group()
sys.exit(n_differ > 0)
