"""Trains ResNet-18 or a small transformer, natively or through memreel, and writes the snapshot.

usage: training.py resnet18|transformer native|memreel FOLDER
"""

import json
import os
import sys

from memreel import Memreel, skip_without_gpu

STEPS = 4


def model_of(name):
    import torch

    if name == "resnet18":
        import torchvision

        model = torchvision.models.resnet18()
        batch = lambda: (torch.randn(32, 3, 224, 224), torch.randint(0, 1000, (32,)))
        forward = lambda model, x: model(x)
    else:
        layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        model = torch.nn.ModuleList(
            [torch.nn.Embedding(5000, 256), torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(256, 5000)]
        )
        batch = lambda: (torch.randint(0, 5000, (16, 128)), torch.randint(0, 5000, (16 * 128,)))
        forward = lambda model, x: model[2](model[1](model[0](x))).flatten(0, 1)
    return model, batch, forward


def train(name):
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    model, batch, forward = model_of(name)
    model.cuda()
    optimizer = (
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        if name == "resnet18"
        else torch.optim.Adam(model.parameters(), lr=1e-3)
    )
    losses = []
    for _ in range(STEPS):
        x, y = batch()
        loss = torch.nn.functional.cross_entropy(forward(model, x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def main():
    name, mode, folder = sys.argv[1:]
    skip_without_gpu()
    import torch

    base = os.path.join(folder, f"{name}.{mode}")
    if mode == "native":
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=1_000_000)
        losses = train(name)
        torch.cuda.memory._dump_snapshot(base + ".pickle")
        allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    else:
        reel = Memreel()
        kept = reel.serve_torch()  # noqa: F841 - keeps the allocator
        reel.record(enabled="all", stacks="native")
        losses = train(name)
        reel.dump(base + ".pickle")
        stats = reel.stats()
        allocated, reserved = (stats[f"{what}_bytes.all.peak"] for what in ("allocated", "reserved"))
    figures = {"losses": losses, "allocated_peak": allocated, "reserved_peak": reserved}
    with open(base + ".json", "w") as file:
        json.dump(figures, file)
    print(f"{name} {mode}: {figures}")


main()
