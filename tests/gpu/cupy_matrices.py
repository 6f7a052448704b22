"""Computes with CuPy matrices in memory from memreel."""

import os
import sys

from memreel import Memreel, skip_without_gpu

skip_without_gpu()
try:
    import cupy
except ImportError as error:
    print(f"skipped: no CuPy ({error})")
    sys.exit(0)

reel = Memreel()
reel.record(enabled="all", stacks="native")
allocator = cupy.cuda.CFunctionAllocator(0, reel.address("memreel_cupy_malloc"), reel.address("memreel_cupy_free"), reel.lib)
cupy.cuda.set_allocator(allocator.malloc)
reel.check(reel.lib.memreel_scope_begin(b"power iteration"))
cupy.random.seed(1)
a = cupy.random.rand(1500, 1500)
a = a + a.T
v = cupy.ones(1500)
for _ in range(60):
    v = a @ v
    v /= cupy.linalg.norm(v)
value = float(v @ (a @ v))
reel.check(reel.lib.memreel_scope_end())
largest = float(cupy.linalg.eigvalsh(a)[-1])
squares = cupy.asnumpy((a @ a).sum(axis=0)[:3])
stats = reel.stats()
reel.dump(os.path.join(sys.argv[1], "cupy.pickle"))
print(f"CuPy: largest eigenvalue {value:.6f} by power iteration, {largest:.6f} by eigvalsh; {squares}; "
      f"{stats['allocation.all.allocated']} requests, peak {stats['allocated_bytes.all.peak']} bytes")
passed = abs(value - largest) < 1e-6 * largest and stats["allocation.all.allocated"] > 100
print(f"result: {'passed' if passed else 'FAILED'}")
sys.exit(not passed)
