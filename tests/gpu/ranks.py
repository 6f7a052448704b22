"""A training whose ranks differ: one leaks, one has longer sequences. For `memreel ranks`; ranks may share GPUs.

    torchrun --nproc-per-node 8 tests/gpu/ranks.py FOLDER
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
# The last rank leaks; the one before it has longer sequences from a step on.
LEAK_BYTES = 64 << 20
LONGER_FROM = 3


def main():
    rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    n_gpus = torch.cuda.device_count()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % n_gpus)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    # NCCL wants a GPU for each rank.
    dist.init_process_group("nccl" if n_ranks <= n_gpus else "gloo")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    model = DistributedDataParallel(nn.TransformerEncoder(layer, 8).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    for step in range(STEPS):
        with torch.profiler.record_function(f"step#{step}"):
            length = 512
            if rank == n_ranks - 2 and step >= LONGER_FROM:
                length = 768
            loss = model(torch.randn(8, length, 1024, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == n_ranks - 1:
                kept.append(torch.empty(LEAK_BYTES, dtype=torch.uint8, device="cuda"))
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(f"{sys.argv[1]}/rank{rank}.pickle")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
