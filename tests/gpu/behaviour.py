"""Tests PyTorch on memreel's allocator: out of memory, several streams, CUDA graphs, threads."""

import os
import sys

from memreel import Memreel, skip_without_gpu

skip_without_gpu()
import torch  # noqa: E402 - only where there is a GPU

folder = sys.argv[1]
reel = Memreel()
kept = reel.serve_torch()
reel.record(enabled="all", stacks="native")
failed = []


def test(function):
    try:
        function()
        print(f"test {function.__name__}: ok")
    except Exception as error:
        failed.append(function.__name__)
        print(f"test {function.__name__}: FAILED {type(error).__name__}: {error}")


@test
def out_of_memory_raises_torch_out_of_memory_error_and_the_program_continues():
    reel.check(reel.lib.memreel_save_on_oom(os.path.join(folder, "behaviour.oom.pickle").encode()))
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        raise AssertionError("PyTorch allocated a tensor of 1 TiB")
    except torch.OutOfMemoryError as error:
        print(f"  {type(error).__name__}: {error}")
        assert "Tried to allocate 1024.00 GiB" in str(error), error
        assert str(error).startswith("CUDA out of memory. "), "PyTorch's sentences come first"
        verdict = str(error).split("\n", 1)[1]
        assert verdict.startswith("full: "), "memreel's verdict follows"
    with open(os.path.join(folder, "behaviour.oom.verdict.txt")) as file:
        assert file.read().strip() in verdict
    assert torch.ones(10, device="cuda").sum().item() == 10
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(total // 50, dtype=torch.uint8, device="cuda")
        raise AssertionError("the memory fraction was exceeded")
    except torch.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(total // 50, dtype=torch.uint8, device="cuda")


@test
def zero_bytes_give_a_null_pointer_and_no_event():
    before = reel.stats()["allocation.all.allocated"]
    assert torch.empty(0, device="cuda").data_ptr() == 0
    assert reel.stats()["allocation.all.allocated"] == before


@test
def empty_cache_returns_segments():
    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    del x
    torch.cuda.empty_cache()
    stats = reel.stats()
    assert stats["reserved_bytes.all.current"] < 100 << 20, stats["reserved_bytes.all.current"]


@test
def a_recorded_stream_keeps_a_block():
    side = torch.cuda.Stream()
    n_seen = 0
    for _ in range(20):
        x = torch.full((1 << 22,), 7.0, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            y = x * 2
            done = torch.cuda.Event()
            done.record()
        x.record_stream(side)
        address = x.data_ptr()
        del x
        z = torch.empty(1 << 22, device="cuda")
        # The first launches load kernels, which may wait for the side stream; those rounds prove nothing.
        if not done.query():
            n_seen += 1
            assert z.data_ptr() != address, "the block was handed out while a stream used it"
        z.fill_(1.0)
        torch.cuda.synchronize()
        assert y.min().item() == 14.0 and y.max().item() == 14.0
        del y, z
    assert n_seen >= 10, f"only {n_seen} of 20 rounds saw the stream busy"


@test
def a_graph_is_captured_in_a_pool_and_replayed():
    static = torch.zeros(1000, 1000, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            (static @ static + 1).relu()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (static @ static + 1).relu()
    keep = [torch.full((1000, 1000), 9.0, device="cuda") for _ in range(20)]
    static.copy_(torch.eye(1000, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert result.sum().item() == 1000 * 1000 + 1000, result.sum().item()
    assert all(k.min().item() == 9.0 for k in keep)
    del result, graph


@test
def ipc_finds_the_segment_of_a_block():
    import ctypes

    x = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
    size = ctypes.c_size_t()
    base = reel.lib.memreel_base_allocation
    base.restype = ctypes.c_void_p
    start = base(ctypes.c_void_p(x.data_ptr()), ctypes.byref(size))
    assert start <= x.data_ptr() < start + size.value


@test
def other_threads_allocate_and_free():
    import threading

    def work():
        for _ in range(200):
            torch.ones(1000, device="cuda")

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


reel.dump(os.path.join(folder, "behaviour.pickle"))
left_until_the_end = torch.ones(1000, device="cuda")
print(f"result: {'FAILED ' + ', '.join(failed) if failed else 'passed'}")
sys.exit(len(failed) > 0)
