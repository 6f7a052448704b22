"""Programs that run out of memory as people's do. usage: programs.py NAME SNAPSHOT [--fixed | --limit BYTES]

Prints a JSON object: whether it failed, the most bytes that PyTorch reserved, the size of the device.
"""

import json
import sys

import torch

NAME, SNAPSHOT = sys.argv[1:3]
IS_FIXED = "--fixed" in sys.argv
MIB = 1 << 20
DEVICE_BYTES = torch.cuda.get_device_properties(0).total_memory
torch.backends.cuda.matmul.allow_tf32 = True


def model(n_layers=8):
    def layer():
        return torch.nn.Sequential(torch.nn.Linear(4096, 16384), torch.nn.GELU(), torch.nn.Linear(16384, 4096))

    return torch.nn.Sequential(*[layer() for _ in range(n_layers)]).cuda()


def bytes_of(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def train(n_steps, rows=lambda step: 4096, kept=None):
    net = model()
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(n_steps):
        optimizer.zero_grad()
        loss = net(torch.randn(rows(step), 4096, device="cuda")).square().mean()
        loss.backward(retain_graph=kept is not None)
        if kept is not None:
            kept.append(loss)
        optimizer.step()


def keeps_losses():
    """A list of losses, each with the graph behind it."""
    train(20, kept=None if IS_FIXED else [])


def longer_batch():
    longer = 4096 if IS_FIXED else 4096 * (DEVICE_BYTES // (3 << 30))
    train(12, rows=lambda step: longer if step == 9 else 4096)


def fragmented():
    """Tensors of two sizes share segments, and those that stay are in the way of the last, large one."""
    n = int(DEVICE_BYTES * 0.9) // (800 * MIB)
    whole = [bytes_of(800) for _ in range(n)]
    del whole
    pairs = [[bytes_of(530), bytes_of(270)] for _ in range(n)]
    stay = [pair[1] for pair in pairs]
    del pairs
    return stay, bytes_of(20 << 10)


def limited():
    """A limit that the last tensor does not fit into, on a device that is almost empty."""
    usual = DEVICE_BYTES // 5
    limit = int(sys.argv[sys.argv.index("--limit") + 1]) if "--limit" in sys.argv else usual
    torch.cuda.set_per_process_memory_fraction(min(1.0, (limit + 1) / DEVICE_BYTES))
    return [bytes_of(1500) for _ in range(usual // (1500 * MIB) + 1)]


def server():
    """Answers requests, and remembers the answers."""
    net, remembered = model(1), {}
    with torch.no_grad():
        for request in range(100 if IS_FIXED else 100_000):
            answer = net(torch.randn(4096, 4096, device="cuda"))
            if not IS_FIXED:
                remembered[request] = answer


torch.cuda.memory._record_memory_history(max_entries=1_000_000)
has_failed = False
try:
    globals()[NAME]()
except torch.OutOfMemoryError:
    has_failed = True
torch.cuda.memory._dump_snapshot(SNAPSHOT)
print(json.dumps({"failed": has_failed, "reserved_peak_bytes": torch.cuda.max_memory_reserved()}))
