"""Costs of being recorded: run with and without. Prints one JSON object: nanoseconds or microseconds each, the least of several."""

import ctypes
import json
import time

import torch

cuda = ctypes.CDLL("libcuda.so.1")


def least(f, n, times=7):
    best = 1e9
    for _ in range(times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / n)
    return best


x = torch.zeros(64, device="cuda")
launches = least(lambda: [x.add_(1) for _ in range(20000)], 20000)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(1000):
        x.add_(1)
replays = least(lambda: [graph.replay() for _ in range(50)], 50)
print(json.dumps({"launch_us": launches * 1e6, "replay_us": replays * 1e6}))
