"""The callbacks with their frameworks, on a GPU: python integrations.py [transformers|lightning|jax|oom] in an empty folder.

Without a name, each is run by a process of its own, JAX under `memreel record`, and a line is printed for each. Needs torch,
transformers with accelerate, lightning and jax with CUDA; what is not installed is said and is a failure.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
os.environ.update(WANDB_DISABLED="true", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
NAMES = ("transformers", "lightning", "oom", "jax")


def scopes(path):
    import memreel

    snapshot = memreel.load(path)
    device = snapshot._opened.gpus[0]
    rows = [row for row in snapshot.events if row["device"] == device and row["action"] == "alloc"]
    found = {part for row in rows for part in (row["scope"] or "").split("/")}
    assert "step" in found, f"{path}: no event has the scope step, but {sorted(found)[:9]}"
    return snapshot, len(rows), snapshot.top(by="scope", device=device)


def with_transformers(n_steps=6, hidden=256, **given):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    from memreel.integrations.transformers import MemoryCallback

    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=4, num_attention_heads=4, vocab_size=4000
    )
    rows = [{"input_ids": torch.arange(64) % 4000, "labels": torch.arange(64) % 4000} for _ in range(64)]
    args = TrainingArguments(
        "trainer", max_steps=n_steps, per_device_train_batch_size=4, report_to=[], save_strategy="no", logging_steps=1000,
        disable_tqdm=True,
    )
    callback = MemoryCallback("transformers-{why}.pickle", at_step=3, at_peak=True, **given)
    Trainer(LlamaForCausalLM(config), args, train_dataset=rows, callbacks=[callback]).train()
    assert callback.training.n_steps == n_steps, callback.training.n_steps
    return callback


def run_transformers():
    import torch

    callback = with_transformers()
    assert not torch._C._cuda_isHistoryEnabled(), "the history is still on"
    _, n, _ = scopes("transformers-step.pickle")
    peak, _, _ = scopes("transformers-peak.pickle")
    assert not Path("transformers-oom.pickle").exists()
    return f"{n} allocations up to step 3; peak of PyTorch {callback.training.highest_bytes}, of the file {peak.peak.allocated_bytes}"


def run_oom():
    import torch

    import memreel

    torch.empty(1, device="cuda")
    # The model and its gradients fit, and not the state of the optimiser.
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((500 << 20) / total)
    try:
        with_transformers(hidden=1024, stacks="python")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("the training did not run out of memory")
    # Before the training begins it is nobody's: the model may be too large already.
    path = Path("transformers-oom.pickle")
    assert path.exists(), "no snapshot was written when the request failed"
    why = memreel.load(path).oom()
    assert why is not None
    return repr(why).splitlines()[0]


def run_lightning():
    import torch

    try:
        import lightning.pytorch as pl
    except ImportError:
        import pytorch_lightning as pl

    from memreel.integrations.lightning import MemoryCallback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))

        def training_step(self, batch, number):
            if self.trainer.global_step == 5 and self.is_greedy:
                torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
            return self.layers(batch[0]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(256, 256)), batch_size=32)

    def fit(is_greedy):
        callback = MemoryCallback("lightning-{why}.pickle", at_step=3, at_peak=True)
        assert isinstance(callback, pl.Callback), type(callback).__mro__
        module = Module()
        module.is_greedy = is_greedy
        pl.Trainer(
            max_epochs=1, accelerator="gpu", devices=1, callbacks=[callback], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        ).fit(module, data)
        return callback

    assert fit(False).training.n_steps == 8
    _, n, _ = scopes("lightning-step.pickle")
    scopes("lightning-peak.pickle")
    assert not Path("lightning-oom.pickle").exists()
    with contextlib.suppress(torch.OutOfMemoryError):
        fit(True)
    snapshot, _, _ = scopes("lightning-oom.pickle")
    return f"{n} allocations up to step 3; {repr(snapshot.oom()).splitlines()[0]}"


def run_jax():
    import jax
    import jax.numpy as jnp

    from memreel.integrations.jax import memory, peak_bytes

    @jax.jit
    def update(weights, batch):
        return weights - 0.01 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)

    weights, batch = jnp.ones((2048, 2048)), jnp.ones((512, 2048))
    assert "cuda" in str(weights.devices()).lower(), weights.devices()
    try:
        with memory("jax-{why}.pickle", at_step=3, at_peak=True) as training:
            for _ in range(6):
                with training.step():
                    weights = update(weights, batch).block_until_ready()
            steps = training.training.n_steps
            with training.step():
                jnp.ones((1 << 22, 1 << 20)).block_until_ready()
    except Exception as error:
        assert "RESOURCE_EXHAUSTED" in str(error) or "emory" in str(error), error
    else:
        raise AssertionError("JAX did not run out of memory")
    assert steps == 6, steps
    assert Path("jax-oom.pickle").exists(), "no snapshot was written when memory ran out"
    _, n, _ = scopes("jax-step.pickle")
    has_peak = Path("jax-peak.pickle").exists()
    assert has_peak == (peak_bytes() > 0), (has_peak, peak_bytes())
    return f"{n} allocations up to step 3; JAX counts its peak: {has_peak}"


def run_all():
    failed = []
    for name in NAMES:
        folder = Path(name)
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.pickle"):
            old.unlink()
        command = [sys.executable, os.path.abspath(__file__), name]
        if name == "jax":
            command = [sys.executable, "-m", "memreel", "record", "--", *command]
        try:
            ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            found = [line for line in ended.stdout.splitlines() if line.startswith(f"{name}: ")]
            is_ok = ended.returncode == 0 and bool(found)
            text = found[-1] if is_ok else f"{name}: FAILED ({ended.returncode})\n" + "\n".join(ended.stderr.splitlines()[-12:])
        except subprocess.TimeoutExpired as error:
            is_ok, text = False, f"{name}: FAILED, no end after {error.timeout:.0f} s"
        print(text, flush=True)
        failed += [] if is_ok else [name]
    print(f"failed: {' '.join(failed) or 'none'}")
    return len(failed)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(f"{sys.argv[1]}: {globals()['run_' + sys.argv[1]]()}", flush=True)
    else:
        sys.exit(run_all())
