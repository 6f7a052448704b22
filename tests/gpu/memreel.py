"""Loads libmemreel.so for the scripts in this folder, with nothing but ctypes."""

import ctypes
import json
import os
import sys

TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
LIBRARY = os.environ.get("MEMREEL_LIBRARY", f"{TARGET}/shared/libmemreel.so")


def skip_without_gpu():
    """Ends the program as skipped if there is no GPU."""
    try:
        import torch

        if torch.cuda.is_available():
            return
        why = "torch.cuda is not available"
    except ImportError as error:
        why = str(error)
    print(f"skipped: no CUDA device ({why})")
    sys.exit(0)


class Memreel:
    """The library and its functions."""

    def __init__(self, path=LIBRARY):
        self.path = os.path.abspath(path)
        self.lib = ctypes.CDLL(self.path)
        for name in ("memreel_error", "memreel_stats_json"):
            getattr(self.lib, name).restype = ctypes.c_char_p

    def address(self, name):
        return ctypes.cast(getattr(self.lib, name), ctypes.c_void_p).value

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.memreel_error().decode())

    def record(self, **options):
        self.check(self.lib.memreel_record(json.dumps(options).encode()))

    def dump(self, path):
        self.check(self.lib.memreel_dump(path.encode()))

    def stats(self, device=0):
        return json.loads(self.lib.memreel_stats_json(device))

    def torch_allocator(self):
        """Returns a CUDAPluggableAllocator with every hook set."""
        import torch

        allocator = torch.cuda.memory.CUDAPluggableAllocator(self.path, "memreel_malloc", "memreel_free")
        low = allocator.allocator()
        low.set_init_fn(self.address("memreel_init"))
        low.set_reset_fn(self.address("memreel_empty_cache"))
        low.set_memory_fraction_fn(self.address("memreel_set_memory_fraction"))
        low.set_base_alloc_fn(self.address("memreel_base_allocation"))
        low.set_record_stream_fn(self.address("memreel_record_stream"))
        low.set_begin_allocate_to_pool(self.address("memreel_begin_allocate_to_pool"))
        low.set_end_allocate_to_pool_fn(self.address("memreel_end_allocate_to_pool"))
        low.set_release_pool(self.address("memreel_release_pool"))
        return allocator

    def serve_torch(self):
        """Makes memreel PyTorch's allocator. Call it before CUDA is first used, and keep the result."""
        import torch

        allocator = self.torch_allocator()
        torch.cuda.memory.change_current_allocator(allocator)
        return allocator
