"""Runs torch.cuda.MemPool on memreel: PyTorch caches and records, memreel serves the segments."""

import os
import sys

from memreel import Memreel, skip_without_gpu

skip_without_gpu()
import torch  # noqa: E402 - only where there is a GPU

reel = Memreel()
allocator = reel.torch_allocator()
reel.record(enabled="all", stacks="none")
pool = torch.cuda.MemPool(allocator.allocator())
with torch.cuda.use_mem_pool(pool):
    inside = [torch.ones(1 << 20, device="cuda") for _ in range(8)]
outside = torch.ones(1 << 20, device="cuda")
stats = reel.stats()
print(f"MemPool: {stats['allocation.all.allocated']} requests of PyTorch's own allocator reached memreel, "
      f"{stats['allocated_bytes.all.current']} bytes are held")
passed = stats["allocated_bytes.all.current"] >= 8 << 22 and sum(x.sum().item() for x in inside) == 8 << 20
del inside
reel.dump(os.path.join(sys.argv[1], "mempool.pickle"))
print(f"result: {'passed' if passed else 'FAILED'}")
sys.exit(not passed)
