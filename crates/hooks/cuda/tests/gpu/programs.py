"""Programs to be recorded on a GPU: each counts what it allocates by itself, and writes that as JSON to its last argument.

usage: programs.py torch|async|graph|expandable|asleep|awake|no_split|windows|compile|cupy|cupy_async|jax|jax_platform|ddp|llama COUNTED.json
"""

import json
import os
import sys
import time

what, out = sys.argv[1:3]
counted = {"program": what, "blocks": [], "losses": []}
BLOCK = 20 << 20


def done():
    rank = os.environ.get("RANK", "0")
    with open(out.replace(".json", f"-{rank}.json"), "w") as file:
        json.dump(counted, file)


def torch_blocks():
    import torch

    kept = [torch.full((BLOCK // 4,), 1.0, device="cuda") for _ in range(10)]
    counted["blocks"] = [[x.data_ptr(), BLOCK] for x in kept]
    if what != "async":
        counted["segments"] = [[s["address"], s["total_size"]] for s in torch.cuda.memory_snapshot()]
    counted["reserved"] = torch.cuda.memory_reserved()
    pinned = torch.ones(1 << 20).pin_memory()
    counted["pinned"] = pinned.data_ptr()
    done()
    return kept


def graph():
    """What a captured graph allocates are nodes of it, whose memory is the driver's."""
    import torch

    kept = [torch.full((BLOCK // 4,), 1.0, device="cuda") for _ in range(10)]
    # What a kernel loads when it runs first may not be captured.
    kept[0] * 2
    captured = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(captured):
        within = [x * 2 for x in kept]
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    counted["blocks"] = [[x.data_ptr(), BLOCK] for x in kept]
    done()
    return kept, within, captured


def sleeper():
    """Blocks whose memory goes back to the device, and comes again at the same addresses."""
    import ctypes

    import torch

    library = os.environ["SLEEPER"]
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "sleeper_malloc", "sleeper_free")
    torch.cuda.memory.change_current_allocator(allocator)
    kept = [torch.full((BLOCK // 4,), 1.0, device="cuda") for _ in range(10)]
    torch.cuda.synchronize()
    counted["blocks"] = [[x.data_ptr(), BLOCK] for x in kept]
    calls = ctypes.CDLL(library)
    free = [torch.cuda.mem_get_info()[0]]
    for turn in [calls.sleeper_sleep] + [calls.sleeper_wake] * (what == "awake"):
        turn()
        free.append(torch.cuda.mem_get_info()[0])
    if what == "awake":
        kept[0].fill_(2)
        torch.cuda.synchronize()
    counted["slept"] = free[1] - free[0]
    counted["kept"] = 0 if what == "asleep" else len(kept) * BLOCK
    done()
    os._exit(0)


def no_split():
    """Blocks of a pool that splits no segment: each has one of its own, also where it came from a larger one."""
    import torch

    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        kept = [torch.full((BLOCK // 4,), 1.0, device="cuda") for _ in range(20)]
        del kept[:10]
        kept += [torch.full((BLOCK // 10,), 1.0, device="cuda") for _ in range(5)]
        kept += [torch.full((1 << n,), 1.0, device="cuda") for n in range(8, 20)]
    torch.cuda.synchronize()
    counted["blocks"] = [[x.data_ptr(), x.nbytes] for x in kept]
    counted["segments"] = [[s["address"], s["total_size"]] for s in torch.cuda.memory_snapshot()]
    counted["kept"] = sum(x.nbytes for x in kept)
    counted["rows"] = [[0, "pytorch", "now", torch.cuda.memory_reserved()]]
    time.sleep(0.3)
    done()
    # The pool has what it has: its end would give all of it back.
    os._exit(0)


def windows():
    """Memory that both ranks have mapped: PyTorch's symmetric memory, and pools that NCCL allocates and registers."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=device, timeout=timedelta(seconds=60))
    dist.all_reduce(torch.ones(1, device=device))
    # What is held also where a later call fails.
    tensors, held, notes = [], [], []

    def symmetric():
        import torch.distributed._symmetric_memory as symmetric_memory

        mine = [symmetric_memory.empty(n * BLOCK // 4, dtype=torch.float32, device=device) for n in (1, 2, 3)]
        tensors.extend(mine)
        held.extend(symmetric_memory.rendezvous(x, dist.group.WORLD.group_name) for x in mine)
        mine[0].fill_(rank + 1)
        torch.cuda.synchronize()
        dist.barrier()
        return torch.ops.symm_mem.one_shot_all_reduce(mine[0], "sum", dist.group.WORLD.group_name)

    def registered(is_symmetric):
        backend = dist.group.WORLD._get_backend(device)
        pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            mine = [torch.full((n * BLOCK // 4,), rank + 1.0, device=device) for n in (2, 4)]
        tensors.extend(mine)
        held.append(pool)
        torch.cuda.synchronize()
        backend.register_mem_pool(pool, is_symmetric)
        dist.all_reduce(mine[1])
        dist.all_reduce(mine[0])
        return mine[0]

    for name, part in ("symmetric", symmetric), ("buffer", lambda: registered(False)), ("window", lambda: registered(True)):
        try:
            total = part()
            torch.cuda.synchronize()
            notes.append(f"{name}: the sum is {total[0].item()}")
        except Exception as error:
            notes.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:150]}")
        dist.barrier()
    counted["blocks"] = [[x.data_ptr(), x.nbytes] for x in tensors]
    counted["kept"] = sum(x.nbytes for x in tensors)
    counted["notes"] = notes
    done()
    # Both have what they have for a while.
    time.sleep(1)
    dist.barrier()
    torch.cuda.synchronize()
    time.sleep(0.5)
    os._exit(0)


def compiled():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
    step = torch.compile(model, mode="reduce-overhead")
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(20):
        torch.compiler.cudagraph_mark_step_begin()
        loss = step(torch.ones(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        counted["losses"].append(loss.item())
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(64, 64, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as p:
        for _ in range(10):
            x @ x
        torch.cuda.synchronize()
    counted["profiled"] = sum(1 for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA)
    done()


def cupy_blocks():
    import cupy

    if what == "cupy_async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    kept = [cupy.ones(BLOCK // 4, dtype="float32") for _ in range(10)]
    counted["blocks"] = [[x.data.ptr, BLOCK] for x in kept]
    done()
    return kept


def jax_blocks():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if what == "jax_platform":
        os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    import jax.numpy as jnp

    kept = [jnp.ones(BLOCK // 4, dtype="float32") + i for i in range(10)]
    [x.block_until_ready() for x in kept]
    counted["blocks"] = [[x.unsafe_buffer_pointer(), BLOCK] for x in kept]
    done()
    return kept


def ddp():
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2048, 2048).cuda(), device_ids=[rank])
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(5):
        loss = model(torch.ones(32, 2048, device="cuda")).square().mean()
        loss.backward()
        optimiser.step()
        counted["losses"].append(loss.item())
    torch.cuda.synchronize()
    counted["segments"] = [[s["address"], s["total_size"]] for s in torch.cuda.memory_snapshot() if s["device"] == rank]
    done()
    time.sleep(1)


def llama():
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, vocab_size=16000)
    model = LlamaForCausalLM(config).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    ids = torch.randint(0, 8000, (4, 256), device="cuda")
    times = []
    for _ in range(int(os.environ.get("LLAMA_STEPS", 30))):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        counted["losses"].append(loss.item())
    with torch.no_grad():
        counted["generated"] = model.generate(ids[:1, :8], max_new_tokens=16, do_sample=False).tolist()
    counted["step_ms"] = sorted(times)[len(times) // 2] * 1000
    counted["fastest_ms"] = min(times) * 1000
    counted["segments"] = [[s["address"], s["total_size"]] for s in torch.cuda.memory_snapshot()]
    done()


PROGRAMS = {"torch": torch_blocks, "async": torch_blocks, "graph": graph, "expandable": torch_blocks, "asleep": sleeper,
            "awake": sleeper, "no_split": no_split, "windows": windows, "compile": compiled,
            "cupy": cupy_blocks, "cupy_async": cupy_blocks, "jax": jax_blocks, "jax_platform": jax_blocks,
            "ddp": ddp, "llama": llama}
if what in ("async", "graph"):
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
if what == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
kept = PROGRAMS[what]()
