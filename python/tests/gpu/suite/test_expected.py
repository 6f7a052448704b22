"""Tests of limits on a GPU whose results are all as expected: what must fail is marked so."""

import gc
import os

import pytest

torch = pytest.importorskip("torch")

MIB = 1 << 20
must_fail = pytest.mark.xfail(raises=pytest.fail.Exception, strict=True)
kept = []


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


@pytest.mark.limit_gpu_memory("64 MiB")
def test_reused_memory_counts_once():
    for _ in range(10):
        del_me = block(64)
        del del_me


@must_fail
@pytest.mark.limit_gpu_memory("63 MiB")
def test_one_mib_too_much():
    block(64)


@must_fail
@pytest.mark.limit_gpu_leaks("0 B")
def test_a_leak():
    kept.append(block(3))


@pytest.mark.limit_gpu_memory("64 MiB")
def test_frees_wait_for_another_stream():
    """Its frees complete late, at a time that differs from run to run: they count when they are requested."""
    side = torch.cuda.Stream()
    for _ in range(8):
        x = block(64)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.add_(1)
        x.record_stream(side)
        del x
    torch.cuda.synchronize()


@pytest.mark.limit_gpu_leaks("0 B", warmups=2)
def test_libraries_keep_their_workspaces_from_the_first_call_on():
    a = torch.randn(512, 512, device="cuda", requires_grad=True)
    loss = (a @ a).relu().sum()
    loss.backward()
    loss.item()


@pytest.fixture(scope="module")
def llama():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, vocab_size=4000
    )
    model = transformers.LlamaForCausalLM(config).cuda()
    yield model
    del model
    gc.collect()


def test_llama_step(llama):
    """Of the baseline: the same peak in each run."""
    batch = 4 + int(os.environ.get("MORE_BATCHES", "0"))
    ids = torch.arange(batch * 128, device="cuda").reshape(batch, 128) % 4000
    llama(input_ids=ids, labels=ids).loss.backward()
    llama.zero_grad(set_to_none=True)


@pytest.mark.limit_host_memory("1 GB")
@pytest.mark.limit_gpu_memory("0 B")
def test_of_the_host_alone():
    bytearray(10 * MIB)
