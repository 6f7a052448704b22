"""A PyTorch without a GPU, with the parts that `memreel attach` uses. It writes each call of its history into the file CALLS."""

import os
import sys
import types

GIB = 1 << 30
SEGMENT = 0x7F0000000000


def module(name, **members):
    found = types.ModuleType(name)
    vars(found).update(members)
    sys.modules[name] = found
    return found


def note(*what):
    with open(os.environ["CALLS"], "a") as file:
        print(os.getpid(), *what, file=file)


state = {"is_initialized": False, "is_on": False, "ring": 0, "trace": [], "queue": [], "live": {}, "n": 0}


def record(enabled="all", context="all", stacks="all", max_entries=99):
    note("record", enabled, context, stacks, max_entries)
    if os.environ.get("NO_HISTORY"):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory")
    state.update(is_on=enabled is not None, ring=max_entries, trace=[])


def event(action, address, size):
    if state["is_on"]:
        frames = [{"filename": "train.py", "line": 7, "name": "step"}]
        entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": state["n"], "frames": frames}
        state["trace"] = [*state["trace"], entry][-state["ring"] :]


def alloc(size):
    """Takes 512 KiB or a multiple."""
    address = max(state["live"], default=SEGMENT - (1 << 20)) + (1 << 20)
    state["live"][address] = size
    state["n"] += 1
    event("alloc", address, size)
    return address


def free(address):
    size = state["live"].pop(address)
    state["n"] += 1
    event("free_requested", address, size)
    event("free_completed", address, size)


def snapshot():
    note("snapshot", "torch._inductor" in sys.modules)
    blocks, at = [], SEGMENT
    for address, size in sorted(state["live"].items()):
        if address > at:
            blocks.append({"address": at, "size": address - at, "requested_size": 0, "state": "inactive"})
        live = {"address": address, "size": size, "requested_size": size, "state": "active_allocated"}
        blocks.append({**live, "frames": []})
        at = address + size
    blocks.append({"address": at, "size": SEGMENT + GIB - at, "requested_size": 0, "state": "inactive"})
    in_use = sum(state["live"].values())
    segment = {"device": 0, "address": SEGMENT, "total_size": GIB, "stream": 0, "segment_type": "large"}
    segment.update(allocated_size=in_use, active_size=in_use, requested_size=in_use, blocks=blocks, frames=[])
    segment.update(segment_pool_id=(0, 0), is_expandable=False)
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "roundup_power2_divisions": {}}
    return {"segments": [segment], "device_traces": [list(state["trace"])], "allocator_settings": settings}


def memory_stats(device):
    counts = {"allocation.all.allocated": state["n"], "allocation.all.freed": 0}
    return {**counts, "allocated_bytes.all.current": sum(state["live"].values()), "reserved_bytes.all.current": GIB}


def _lazy_init():
    state["is_initialized"] = True
    for call in state["queue"]:
        call()


_C = module(
    "torch._C",
    _cuda_record_memory_history=record,
    _cuda_memorySnapshot=snapshot,
    _cuda_isHistoryEnabled=lambda: state["is_on"],
)
memory = module("torch.cuda.memory", _record_memory_history=record, _snapshot=snapshot)
cuda = module("torch.cuda", memory=memory, memory_stats=memory_stats)
cuda.is_initialized = lambda: state["is_initialized"]
cuda.device_count = lambda: 1
cuda.mem_get_info = lambda device: (5 * GIB, 8 * GIB)
cuda._lazy_init = _lazy_init
cuda._lazy_call = lambda call: call() if state["is_initialized"] else state["queue"].append(call)
__version__ = "2.11.0"
