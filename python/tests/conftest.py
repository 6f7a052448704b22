"""What the tests share: a PyTorch without a GPU, and the runner of suites."""

from __future__ import annotations

import pytest
from fake_torch import FakeTorch, import_torch

# The fixture `pytester` forgets what is first imported in a test, and a second copy would have other classes.
import memreel.snapshot  # noqa: F401

pytest_plugins = ["pytester"]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    return import_torch(monkeypatch, FakeTorch())
