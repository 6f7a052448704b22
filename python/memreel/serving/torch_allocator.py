"""memreel as PyTorch's allocator, through its `CUDAPluggableAllocator`."""

from __future__ import annotations

from typing import Any

from memreel._errors import RecordingError
from memreel.serving.library import Library, library

TOO_LATE = (
    "memreel.install() is too late: PyTorch has already used CUDA with its own allocator; call it directly after "
    "`import torch`, before the first tensor on a GPU"
)
# The methods of PyTorch's allocator that take a hook, and memreel's function for each.
HOOKS = {
    "set_init_fn": "memreel_init",
    "set_reset_fn": "memreel_empty_cache",
    "set_memory_fraction_fn": "memreel_set_memory_fraction",
    "set_base_alloc_fn": "memreel_base_allocation",
    "set_record_stream_fn": "memreel_record_stream",
    "set_begin_allocate_to_pool": "memreel_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "memreel_end_allocate_to_pool",
    "set_release_pool": "memreel_release_pool",
}


def serve(torch: Any, /) -> str | None:
    """Makes memreel PyTorch's allocator. Returns why it cannot be, where that is no fault of the program's.

    Raises RecordingError if PyTorch has used CUDA already.
    """
    if not hasattr(torch._C, "_cuda_customAllocator"):
        return "this PyTorch is built without CUDA"
    # Not `is_available`, after which children of fork could not use CUDA.
    if torch.cuda.device_count() == 0:
        return "PyTorch finds no GPU"
    if torch.cuda.is_initialized():
        raise RecordingError(TOO_LATE)
    memory = library()
    allocator = _allocator(torch, memory)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise RecordingError(f"{TOO_LATE} ({error})") from error
    memory.check_python()
    from memreel.serving.torch_entries import replace_entries

    replace_entries(torch, memory, allocator)
    return None


def _allocator(torch: Any, memory: Library) -> Any:
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(memory.path), "memreel_malloc", "memreel_free")
    hooked = allocator.allocator()
    for method, function in HOOKS.items():
        getattr(hooked, method)(memory.address(function))
    return allocator
