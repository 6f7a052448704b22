"""The recipe for conda has the version and the requirements of the manifests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1]

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")
yaml = pytest.importorskip("yaml")


def test_the_recipe_agrees_with_the_manifests() -> None:
    recipe = yaml.safe_load((PYTHON / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    manifest = tomllib.loads((PYTHON / "pyproject.toml").read_text(encoding="utf-8"))
    workspace = tomllib.loads((PYTHON.parent / "Cargo.toml").read_text(encoding="utf-8"))
    least = manifest["project"]["requires-python"].removeprefix(">=")
    build = [re.sub(r"(?=[<>=])", " ", one, count=1) for one in manifest["build-system"]["requires"]]
    assert recipe["context"]["version"] == workspace["workspace"]["package"]["version"]
    assert recipe["requirements"]["host"] == ["python", "pip", *build]
    assert f'match(python, "<{least}")' in recipe["build"]["skip"]
    assert recipe["about"]["license"] == manifest["project"]["license"]
