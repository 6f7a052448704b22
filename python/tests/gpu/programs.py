"""Programs on a GPU that use the package: python programs.py NAME MODE OUT.json

NAME is `llama`, `oom`, `late` or `compile`; MODE is `plain`, `record`, `install` or `both`. Prints nothing; what it counted is in OUT.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
name, mode, out = sys.argv[1:4]
counted: dict = {"program": name, "mode": mode}


def recording(path):
    """The recording of this mode."""
    if mode in ("install", "both"):
        import torch  # noqa: F401 - before `install`

        import memreel

        memreel.install()
    if mode not in ("record", "both"):
        return contextlib.nullcontext()
    import memreel

    return memreel.record(path)


def scope(text):
    if mode not in ("record", "both"):
        return contextlib.nullcontext()
    import memreel

    return memreel.scope(text)


def llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with recording(out.replace(".json", ".pickle")):
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True)
        config = LlamaConfig(
            hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16, vocab_size=16000
        )
        model = LlamaForCausalLM(config).cuda()
        optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
        ids = torch.randint(0, 8000, (4, 256), device="cuda")
        times, counted["losses"] = [], []
        for _ in range(30):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            with scope("step"):
                loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
                optimiser.step()
                optimiser.zero_grad()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            counted["losses"].append(loss.item())
        counted["step_ms"] = sorted(times)[len(times) // 2] * 1000
        counted["least_ms"] = min(times) * 1000
        counted["peak_bytes"] = torch.cuda.max_memory_allocated()


def oom():
    import torch

    import memreel

    try:
        with memreel.on_oom(out.replace(".json", ".pickle")):
            torch.cuda.set_per_process_memory_fraction(0.05)
            kept = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(1000)]
            del kept
    except torch.OutOfMemoryError as error:
        counted["raised"] = str(error)[:60]


def late():
    """A recording that begins before PyTorch has a context, with workers of a DataLoader."""
    import torch

    import memreel

    class Numbers(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, at):
            return torch.full((1000,), float(at))

    with recording(out.replace(".json", ".pickle")):
        assert not torch.cuda.is_initialized()
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2)
        counted["sum"] = sum(batch.cuda().sum().item() for batch in loader)
    counted["history"] = torch._C._cuda_isHistoryEnabled()
    counted["events"] = memreel.load(out.replace(".json", ".pickle")).n_events if mode == "record" else 0


def reduced():
    """What PyTorch refuses for an allocator that is not its own."""
    import torch

    import memreel

    if mode == "install":
        memreel.install()
    function = torch.compile(lambda x: (x @ x).relu() + 1, mode="reduce-overhead")
    try:
        for _ in range(4):
            counted["sum"] = float(function(torch.ones(64, 64, device="cuda")).sum())
    except Exception as error:
        counted["raised"] = [type(error).__name__, str(error)]


{"llama": llama, "oom": oom, "late": late, "compile": reduced}[name]()
with open(out, "w") as file:
    json.dump(counted, file)
