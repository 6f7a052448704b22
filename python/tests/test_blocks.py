"""Blocks of Python, JSON, TOML and YAML in the README and in docs/ are valid: each is compiled or parsed. Blocks of Python that
need no GPU, no training and no cluster are run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_torch import FakeTorch

import memreel

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", ROOT / "crates" / "snapshot" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A list of signatures, which test_docs.py compares with the package.
SIGNATURES = ROOT / "docs" / "python-reference.md"
BLOCK = re.compile(r"^( *)```(python|json|toml|yaml)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# What a block has that is not here: a PyTorch or CuPy with a GPU, a training of another library, a library on the loader's
# path, files of a cluster.
ELSEWHERE = re.compile(r"\b(torch|cupy|integrations|PyDLL|parquet)\b")
# What takes tables; a block without one of them that it uses is skipped.
TABLES = ("duckdb", "pandas", "polars", "pyarrow")
FIXTURES = ROOT / "fixtures" / "torch-2.11"


def blocks(is_wanted: Callable[[str, str], bool] = lambda language, text: True) -> list[object]:
    """Each block as a parameter of a test: its language and its text, named after its page and line."""
    found = []
    for page in PAGES:
        if page == SIGNATURES:
            continue
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = f"{page.relative_to(ROOT)}:{line}"
            if is_wanted(match[2], match[3]):
                found.append(pytest.param(match[2], textwrap.dedent(match[3]), id=name))
    return found


def runs(language: str, text: str) -> bool:
    return language == "python" and not ELSEWHERE.search(text)


def check(language: str, text: str) -> None:
    if language == "python":
        compile(text, "block", "exec", dont_inherit=True)
    elif language == "json":
        json.loads(text)
    elif language == "toml":
        pytest.importorskip("tomllib").loads(text)
    else:
        pytest.importorskip("yaml").safe_load(text)


@pytest.mark.parametrize(("language", "text"), blocks())
def test_a_block_is_valid(language: str, text: str) -> None:
    check(language, text)


@pytest.mark.parametrize(("language", "text"), [("python", "def f(:"), ("json", "{,}"), ("toml", "a = "), ("yaml", "a: [1")])
def test_a_block_that_is_not_valid_fails(language: str, text: str) -> None:
    with pytest.raises(Exception, match=r"."):
        check(language, text)


@pytest.fixture
def given(torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The names that a page takes as known, in a folder with the files that it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    shutil.copytree(FIXTURES / "ranks", "snapshots")
    shutil.copy(FIXTURES / "snapshots" / "resnet18_python_stacks.pickle", "snapshot.pickle")
    update = ["gate", "--baseline", "baseline.json", "--update-baseline", "snapshot.pickle"]
    subprocess.run([sys.executable, "-m", "memreel", *update], check=True)
    return {"memreel": memreel, "snapshot": memreel.load("snapshot.pickle"), "train": lambda: torch.empty(1 << 20)}


@pytest.mark.parametrize(("language", "text"), blocks(runs))
def test_a_block_of_python_runs(language: str, text: str, given: dict[str, object]) -> None:
    for name in TABLES:
        if name in text:
            pytest.importorskip(name)
    exec(compile(text, "block", "exec", dont_inherit=True), given)


def test_the_pages_have_blocks() -> None:
    assert len(blocks()) > 20
    assert len(blocks(runs)) > 7
