"""Fails on a GPU with little free memory, by seven causes, and again with the change that `memreel oom` advises.

usage: failures.py CASE FOLDER [--repaired [HOW]]   one case; FOLDER/CASE.pickle is its snapshot
       failures.py all FOLDER                       all; MEMREEL_PROGRAM names memreel
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

if sys.argv[1:2] != ["all"]:
    import torch
    from torch.utils.checkpoint import checkpoint

PROGRAM = os.environ.get("MEMREEL_PROGRAM", "memreel")
DEVICE, MIB, GIB = "cuda", 1 << 20, 1 << 30
ROOM, PINNED_ROOM, SECONDS_OF_TURN = 8 * GIB, 2 * GIB, 30
# What the texts advise; that of a fragmented process is a setting.
REPAIRS = {
    "backward": ["half", "checkpointed"], "optimizer": ["half-precision"], "streams": ["one-stream"],
    "mempool": ["deleted"], "graphs": ["one-pool"], "fragmentation": [], "pinned": ["synchronized"],
}


def filled(n_bytes):
    return torch.zeros(n_bytes, dtype=torch.uint8, device=DEVICE)


def backward(how):
    """The activations leave no room for the first backward."""
    class Block(torch.nn.Sequential):
        def forward(self, x):
            return x + self[1](torch.nn.functional.gelu(self[0](x)))

    blocks = [Block(torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)).to(DEVICE) for _ in range(3)]
    sgd = torch.optim.SGD([p for block in blocks for p in block.parameters()], lr=0.1)
    for _ in range(2):
        x = torch.randn(32_250 if how == "half" else 64_500, 1024, device=DEVICE)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if how == "checkpointed" else block(x)
        x.square().mean().backward()
        sgd.step()


def step_in_half(states, parameters):
    """A step of Adam with states in half precision."""
    for p in parameters:
        mean, square = states.setdefault(p, [torch.zeros_like(p, dtype=torch.bfloat16) for _ in range(2)])
        mean.lerp_(p.grad.bfloat16(), 0.1)
        square.lerp_(p.grad.square().bfloat16(), 0.01)
        p.data.sub_(mean / (square.sqrt() + 1e-6), alpha=1e-4)


def optimizer(how):
    """Weights and gradients leave no room for the states of the first step."""
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False, device=DEVICE) for _ in range(34)])
    adam, states = torch.optim.AdamW(model.parameters(), lr=1e-4), {}
    for _ in range(2):
        model(torch.randn(64, 4096, device=DEVICE)).square().mean().backward()
        step_in_half(states, model.parameters()) if how else adam.step()


def streams(how):
    """Each step makes a stream, and its result keeps the segment of the stream's temporary."""
    kept, one = [], torch.cuda.Stream()
    for _ in range(24):
        with torch.cuda.stream(one if how else torch.cuda.Stream()):
            kept.append(filled(512 * MIB).view(torch.float32).sum().repeat(6 * MIB))


def mempool(how):
    """A MemPool keeps what a first phase has freed."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        filled(5 * GIB)
    if how:
        del pool
    filled(4 * GIB)


def graphs(how):
    """Each graph is captured in a pool of its own, which keeps the memory of its temporaries."""
    x = torch.ones(MIB // 4, device=DEVICE)
    step = lambda: x.repeat(1024, 1).sum(0)
    step()
    captured = []
    for _ in range(6):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=captured[0][0].pool() if how and captured else None):
            captured.append((graph, step()))
    filled(3 * GIB)
    for graph, _ in captured:
        graph.replay()


def fragmentation(how):
    """Short sequences are cut from the segments of long ones."""
    held = [filled(GIB) for _ in range(7)]
    held.clear()
    held.extend(filled(520 * MIB) for _ in range(7))
    held.append(filled(GIB))


def pinned(how):
    """Pinned memory that is freed waits for the copies from it; there are addresses for 2 GiB, or else a limit."""
    target = filled(256 * MIB)
    addresses = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + PINNED_ROOM, resource.RLIM_INFINITY))
    for _ in range(12):
        torch.cuda._sleep(500_000_000)
        target.copy_(torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True), non_blocking=True)
        if how:
            torch.cuda.synchronize()
        if torch.cuda.host_memory_stats().get("allocated_bytes.current", 0) > PINNED_ROOM:
            raise MemoryError("the case's own limit of 2 GiB of pinned memory")


def leave(room):
    """Takes all but this of the device's memory from the driver, as if the device were small."""
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    while (spare := (torch.cuda.mem_get_info()[0] - room) // (2 * MIB)) > 0:
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(min(spare * 2 * MIB, 8 * GIB))) == 0


def run(name, folder, how):
    """Runs one case and returns the exit status: 0 if it finishes, 3 if memory ran out."""
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=100_000)
    if name != "pinned":
        leave(ROOM)
    try:
        globals()[name](how)
        torch.cuda.synchronize()
        return 0
    except (RuntimeError, MemoryError) as error:  # its frames keep what the case holds
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        print("error:", type(error).__name__, str(error).split("\n")[0][:400], flush=True)
        torch.cuda.memory._dump_snapshot(f"{folder}/{name}.pickle")
        return 3 if name == "pinned" or "out of memory" in str(error) else 1


def start(folder, case, how="", conf=""):
    """Starts a case in a folder of its own. It imports torch, and then waits for its turn."""
    name = how or conf or "failing"
    at = f"{folder}/{case}.{name}"
    os.mkdir(at)
    command = [sys.executable, __file__, case, at, *(how and ["--repaired", how])]
    if case == "pinned" and not how and Path(PROGRAM).with_name("libmemreel_preload.so").exists():
        command = [PROGRAM, "record", "--no-torch", "-o", f"{at}/recorded.pickle", "--", *command]
    env = {**os.environ, "AWAIT_TURN": "1", **({"PYTORCH_ALLOC_CONF": conf} if conf else {})}
    return case, name, at, Popen(command, env=env, text=True, stdin=PIPE, stdout=PIPE, stderr=STDOUT)


def turn(case, name, process):
    """Gives a case its turn and returns what came of it."""
    lines = process.communicate("go\n")[0].splitlines()
    outcome = {0: "finishes", 3: "fails"}.get(process.returncode, f"ends with status {process.returncode}")
    lines = [line for line in lines if line.startswith("error: ")] or lines[-3:]
    message = "" if outcome == "finishes" else " | ".join(lines)[-500:]
    print(f"== {case}, {name}: {outcome}", message, flush=True)
    return {"case": case, "run": name, "outcome": outcome, "message": message}


def run_all(folder):
    """Runs the cases one after the other, each with the whole device, and then with the settings of their texts."""
    work = tempfile.mkdtemp()
    ask = lambda *words: Popen(["timeout", "20", PROGRAM, *words], stdout=PIPE, text=True).communicate()[0]
    turns = [start(work, case) for case in REPAIRS]
    turns += [start(work, case, how) for case, hows in REPAIRS.items() for how in hows]
    try:
        with open(f"{folder}/results.jsonl", "w") as results, open(f"{folder}/texts.txt", "w") as texts:
            for case, name, at, process in turns:
                result, causes = turn(case, name, process), []
                for snapshot in map(str, sorted(Path(at).glob("*.pickle"))):
                    text, answers = ask("oom", snapshot), ask("oom", "--json", snapshot).splitlines()
                    print("\n".join(text.splitlines()[:12]), flush=True)
                    print(f"==== {snapshot}: {result['message']}\n{text}\n{ask('owners', snapshot)}", file=texts)
                    causes += [cause for answer in answers for cause in json.loads(answer).get("causes", [])]
                print(json.dumps({**result, "causes": causes}), file=results, flush=True)
                confs = {cause["conf"] for cause in causes} - {None} if name == "failing" else ()
                turns += [start(work, case, conf=conf) for conf in sorted(confs)]
    finally:
        shutil.make_archive(f"{folder}/snapshots", "xztar", work)


if __name__ == "__main__":
    case, folder, *rest = sys.argv[1:]
    if case == "all":
        sys.exit(run_all(folder))
    if "AWAIT_TURN" in os.environ and not sys.stdin.readline():
        sys.exit("nobody gives turns")
    signal.alarm(SECONDS_OF_TURN)
    sys.exit(run(case, folder, (rest[1:] + REPAIRS[case] + [""])[0] if rest[:1] == ["--repaired"] else ""))
