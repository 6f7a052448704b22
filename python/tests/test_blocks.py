"""Blocks of Python, JSON, TOML and YAML in the README and in docs/ are valid: each is compiled or parsed."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", ROOT / "snapshot" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A list of signatures, which test_docs.py compares with the package.
SIGNATURES = ROOT / "docs" / "python-reference.md"
BLOCK = re.compile(r"^( *)```(python|json|toml|yaml)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[object]:
    """Each block as a parameter of a test: its language and its text, named after its page and line."""
    found = []
    for page in PAGES:
        if page == SIGNATURES:
            continue
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = f"{page.relative_to(ROOT)}:{line}"
            found.append(pytest.param(match[2], textwrap.dedent(match[3]), id=name))
    return found


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


def test_the_pages_have_blocks() -> None:
    assert len(blocks()) > 20
