"""Runs PyTorch on two GPUs, each with its own allocator and trace."""

import os
import pickle
import sys

from memreel import Memreel, skip_without_gpu

skip_without_gpu()
import torch  # noqa: E402 - only where there is a GPU

if torch.cuda.device_count() < 2:
    print("skipped: one GPU")
    sys.exit(0)
reel = Memreel()
kept = reel.serve_torch()
reel.record(enabled="all", stacks="none")
tensors = [torch.full((1 << 20, ordinal + 1), float(ordinal), device=f"cuda:{ordinal}") for ordinal in range(2)]
moved = tensors[0].to("cuda:1")
path = os.path.join(sys.argv[1], "two_gpus.pickle")
reel.dump(path)
with open(path, "rb") as file:
    traces = pickle.load(file)["device_traces"]
sizes = [[entry["size"] for entry in trace if entry["action"] == "alloc"] for trace in traces[:2]]
print(f"two GPUs: requests of {sizes[0]} and {sizes[1]} bytes")
passed = 4 << 20 in sizes[0] and 8 << 20 in sizes[1] and 4 << 20 in sizes[1]
passed = passed and moved.sum().item() == 0 and tensors[1].sum().item() == 2 << 20
print(f"result: {'passed' if passed else 'FAILED'}")
sys.exit(not passed)
