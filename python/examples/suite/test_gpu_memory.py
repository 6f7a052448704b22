"""Limits of GPU memory in tests: `pytest --memreel test_gpu_memory.py`, on a machine with PyTorch and a GPU.

Three of the tests fail, to show what a failure prints.
"""

import pytest

torch = pytest.importorskip("torch")

cache = {}
kept = []


def block(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def attention():
    return block(12), block(12)


@pytest.fixture
def weights():
    return block(100)


@pytest.mark.limit_gpu_memory("64 MiB")
def test_passes(weights):
    # The fixture's memory is not the test's.
    for _ in range(3):
        hidden = block(48)
        del hidden


@pytest.mark.limit_gpu_memory("20 MiB")
def test_needs_too_much():
    query, key = attention()
    assert query is not key


@pytest.mark.limit_gpu_leaks("0 B")
def test_leaks():
    kept.append(block(8))


@pytest.mark.limit_gpu_leaks("0 B", warmups=2)
def test_fills_a_cache_at_its_first_call():
    if "mask" not in cache:
        cache["mask"] = block(4)
    product = block(2)
    assert product is not cache["mask"]


@pytest.mark.limit_gpu_leaks("0 B", warmups=2)
def test_leaks_at_each_call():
    kept.append(block(1))


@pytest.mark.parametrize("mib", [1, 5])
def test_of_the_baseline(mib):
    hidden = block(mib)
    assert hidden is not None
