"""memreel as CuPy's allocator."""

from __future__ import annotations

from typing import Any

from memreel.serving.library import library


def serve(cupy: Any, /) -> str | None:
    """Makes memreel CuPy's allocator. Returns why it cannot be.

    Blocks belong to the stream that is current at the request, as in CuPy's own pool. Arrays that exist already stay in the
    memory that they have.
    """
    if not cupy.cuda.is_available():
        return "CuPy finds no GPU"
    memory = library()
    request, release = memory.raw("memreel_cupy_malloc_on"), memory.raw("memreel_cupy_free")

    def malloc(size: int, device: int) -> int:
        address: int | None = request(size, device, cupy.cuda.get_current_stream().ptr)
        if address is None and size > 0:
            raise _out_of_memory(cupy, memory.error(), size, device)
        return address or 0

    def free(address: int, device: int) -> None:
        release(None, address, device)

    memory.check_python()
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)
    return None


def _out_of_memory(cupy: Any, why: str, size: int, device: int) -> Exception:
    """Returns CuPy's exception for a request that failed, with memreel's reason as its cause."""
    from memreel._errors import RecordingError

    if "out of memory" not in why:
        return RecordingError(why)
    error: Exception = cupy.cuda.memory.OutOfMemoryError(size, library().stats(device)["reserved_bytes.all.current"])
    error.__cause__ = RecordingError(why)
    return error
