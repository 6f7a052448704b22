"""The types and keys of what PyTorch's functions of memory return: python shapes.py plain|install OUT.json"""

from __future__ import annotations

import json
import os
import sys
import tempfile

mode, out = sys.argv[1:3]

import torch  # noqa: E402

if mode == "install":
    # Modules that imported the functions before.
    from torch._C import _cuda_memorySnapshot  # noqa: F401 - looked up by its name
    from torch.cuda import MemPool, memory_stats  # noqa: F401

    import memreel

    memreel.install()
    assert sys.modules["__main__"].MemPool is torch.cuda.MemPool is torch.cuda.memory.MemPool
    assert sys.modules["__main__"]._cuda_memorySnapshot is torch._C._cuda_memorySnapshot
    assert memory_stats is torch.cuda.memory_stats

pickled = os.path.join(tempfile.mkdtemp(), "snapshot.pickle")


def use():
    """Some allocations: small, large, freed, on another stream, in a pool, in a graph."""
    kept = [torch.ones(1000, device="cuda"), torch.ones(5 << 20, device="cuda")]
    kept[0] @ kept[0]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        other = kept[1] * 2
    other.record_stream(torch.cuda.current_stream())
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept.append(torch.ones(3 << 20, device="cuda"))
    torch.cuda.synchronize()
    return kept, pool


def pools():
    pool = torch.cuda.MemPool(None, use_on_oom=True)
    before = pool.use_count()
    with torch.cuda.use_mem_pool(pool):
        inside = pool.use_count()
        block = torch.ones(1 << 20, device="cuda")
    found = [type(pool.id), type(pool.id[0]), before, inside, pool.use_count(), len(pool.snapshot())]
    del block
    return [repr(one) for one in found]


def too_much():
    torch.cuda.set_per_process_memory_fraction(0.01)
    fraction = torch.cuda.get_per_process_memory_fraction()
    try:
        torch.empty(100 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return [type(error).__name__, str(error)[:45], fraction]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def observed():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *figures: seen.append([type(one).__name__ for one in figures]))
    too_much()
    return seen


def dumped():
    import pickle

    torch.cuda.memory._dump_snapshot(pickled)
    with open(pickled, "rb") as file:
        return pickle.load(file)


def graph():
    held = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        twice = held * 2
    graph.replay()
    torch.cuda.synchronize()
    return [float(twice.sum()), type(graph.pool()).__name__]


def metadata():
    torch.cuda.memory._set_memory_metadata("mine")
    found = torch.cuda.memory._get_memory_metadata()
    torch.cuda.memory._set_memory_metadata("")
    return [found, torch.cuda.memory._get_memory_metadata()]


def history():
    torch.cuda.memory._record_memory_history(max_entries=100000, stacks="python")
    held = use()
    return [torch._C._cuda_isHistoryEnabled(), held is not None]


cuda = torch.cuda
CALLS = {
    "history": history,
    "memory_stats": cuda.memory_stats,
    "memory_stats_as_nested_dict": cuda.memory_stats_as_nested_dict,
    "memory_allocated": cuda.memory_allocated,
    "max_memory_allocated": cuda.max_memory_allocated,
    "memory_reserved": cuda.memory_reserved,
    "max_memory_reserved": cuda.max_memory_reserved,
    "memory_cached": cuda.memory_cached,
    "max_memory_cached": cuda.max_memory_cached,
    "reset_peak_memory_stats": cuda.reset_peak_memory_stats,
    "reset_accumulated_memory_stats": cuda.reset_accumulated_memory_stats,
    "reset_max_memory_allocated": cuda.reset_max_memory_allocated,
    "reset_max_memory_cached": cuda.reset_max_memory_cached,
    "memory_summary": lambda: cuda.memory_summary().splitlines()[1::2][:2] and len(cuda.memory_summary().splitlines()),
    "memory_snapshot": cuda.memory_snapshot,
    "memory_snapshot without traces": lambda: cuda.memory_snapshot(include_traces=False),
    "_snapshot": cuda.memory._snapshot,
    "_dump_snapshot": dumped,
    "mem_get_info": cuda.mem_get_info,
    "empty_cache": cuda.empty_cache,
    "MemPool": pools,
    "CUDAGraph": graph,
    "metadata": metadata,
    "host_memory_stats": cuda.host_memory_stats,
    "list_gpu_processes": lambda: type(cuda.list_gpu_processes()).__name__,
    "accelerator.memory_stats": torch.accelerator.memory_stats,
    "accelerator.memory_allocated": torch.accelerator.memory_allocated,
    "accelerator.reset_peak_memory_stats": torch.accelerator.reset_peak_memory_stats,
    "accelerator.empty_cache": torch.accelerator.empty_cache,
    "set_per_process_memory_fraction": too_much,
    "observer": observed,
    "caching_allocator_alloc": lambda: cuda.caching_allocator_delete(cuda.caching_allocator_alloc(1000)),
    "history off": lambda: cuda.memory._record_memory_history(enabled=None),
    "isHistoryEnabled": torch._C._cuda_isHistoryEnabled if mode == "plain" else lambda: torch._C._cuda_isHistoryEnabled(),
}
# Values that are equal in both runs, and not only their types.
EXACT = {"history", "MemPool", "CUDAGraph", "metadata", "set_per_process_memory_fraction", "observer", "isHistoryEnabled"}


def shape(value):
    """The type of a value, with its keys; lists of dictionaries have the keys of all."""
    if isinstance(value, dict):
        return {str(key): shape(inner) for key, inner in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        kinds = sorted({json.dumps(shape(inner), sort_keys=True) for inner in value})
        merged = {}
        for kind in map(json.loads, kinds):
            if isinstance(kind, dict):
                merged.update(kind)
        return [type(value).__name__, merged or kinds]
    return type(value).__name__


kept = use()
found = {}
for name, call in CALLS.items():
    try:
        value = call()
        found[name] = value if name in EXACT else shape(value)
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"[:200]
with open(out, "w") as file:
    json.dump(found, file, indent=1, sort_keys=True)
