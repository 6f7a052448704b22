"""The reference of the package against the package: signatures, and a line for each parameter."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import memreel
from memreel.judged import Judged
from memreel.listing import Listing
from memreel.recording.source import Stacks
from memreel.snapshot import Moment

PAGE = Path(__file__).parents[2] / "docs" / "python-reference.md"
SECTION = PAGE.read_text(encoding="utf-8")
# What annotations name, and what they stand for.
ALIASES = {"Stacks": str(Stacks), "Moment": str(Moment)}


def functions() -> dict[str, object]:
    """What a program can call, by how the page names it: `top` of a snapshot is `s.top`."""
    found = {}
    for name in memreel.__all__:
        value = getattr(memreel, name)
        is_record = inspect.isclass(value) and name[0].islower()
        if inspect.isfunction(value) or is_record:
            found[f"memreel.{name}"] = value
    for prefix, kind in (("s", memreel.Snapshot), ("sizes", memreel.Sizes), ("answer", Listing), ("gate", Judged), ("table", memreel.Table)):
        for name, value in inspect.getmembers(kind, inspect.isroutine):
            # `of` and `answered` make answers; they are the package's own.
            is_own = prefix != "gate" or name in vars(kind)
            if not name.startswith("_") and not inspect.ismethod(value) and is_own:
                found[f"{prefix}.{name}"] = value
    return found


def parameters(function: object) -> list[inspect.Parameter]:
    return [one for one in inspect.signature(function).parameters.values() if one.name != "self"]


def signature(name: str, function: object) -> str:
    words = []
    for one in parameters(function):
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        star = "**" if one.kind is one.VAR_KEYWORD else ""
        default = one.default
        shown = json.dumps(default) if isinstance(default, str) else repr(default)
        words.append(star + one.name + ("" if default is one.empty else f"={shown}"))
    return f"{name}({', '.join(words)})"


def rows() -> list[tuple[str, list[str], str]]:
    """The table of parameters: the name, the functions that the row is about (empty: all others), and what it says."""
    found = re.findall(r"^\| `(\w+)` \|([^|]*)\| (.*) \|$", SECTION, re.MULTILINE)
    return [(name, re.findall(r"`([\w.]+)`", of), text) for name, of, text in found]


def test_signatures_are_those_of_the_package():
    (block,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    expected = [signature(name, function) for name, function in functions().items()]
    assert sorted(line for line in block.splitlines() if line) == sorted(expected)


@pytest.mark.parametrize("name", functions())
def test_each_parameter_has_one_line_with_its_values(name):
    for one in parameters(functions()[name]):
        of_name = [row for row in rows() if row[0] == one.name]
        of_function = [row for row in of_name if name in row[1]] or [row for row in of_name if not row[1]]
        assert len(of_function) == 1, f"{one.name} of {name} has {len(of_function)} lines"
        annotation = re.sub(r"\w+", lambda found: ALIASES.get(found[0], found[0]), str(one.annotation))
        for values in re.findall(r"Literal\[([^]]*)\]", annotation):
            for value in re.findall(r"['\"](\w+)['\"]", values):
                assert f"`{value}`" in of_function[0][2], f"{one.name} of {name}: {value} is missing"


def test_no_line_is_about_what_is_not_there():
    known = {(one.name, name) for name, function in functions().items() for one in parameters(function)}
    for name, of, text in rows():
        assert name in {parameter for parameter, _ in known}, name
        assert text
        for function in of:
            assert (name, function) in known, (name, function)
