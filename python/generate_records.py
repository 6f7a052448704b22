"""Makes memreel/records.py from schema/json.schema.json: a class for each object that the program prints with --json.

A build of the package runs it; git does not keep what it makes.
usage: python3 python/generate_records.py
"""

from __future__ import annotations

import json
import keyword
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent / "schema" / "json.schema.json"
# The answers, with the names that they have in Python where the schema's are of commands.
ANSWERS = {
    "summary": "Summary",
    "top_groups": "Top",
    "top_tree": "Tree",
    "top_new": "TopNew",
    "top_allocated": "TopAllocated",
    "leaks_sites": "Leaks",
    "leaks_between": "LeaksBetween",
    "leaks_older": "LeaksOlder",
    "churn": "Churn",
    "fragmentation": "Fragmentation",
    "oom_failed": "Oom",
    "oom_logged": "LoggedOom",
    "owners": "Owners",
    "timeline": "Timeline",
    "at_state": "State",
    "at_address": "AtAddress",
    "replay": "Replay",
    "fit": "Fit",
    "diff": "Diff",
    "gate": "Gate",
    "stats": "Stats",
    "finding": "Finding",
    "fix": "Fixed",
    "slim": "Slimmed",
    "merge": "Merged",
}
# Objects that are lines of an answer, and have other names in Python.
LINES = {"ranks_rank": "Rank", "ranks_broken": "UnreadRank", "ranks_step": "Step"}
# The list that an answer is about.
LISTS = {
    "summary": "holders",
    "top_groups": "groups",
    "top_tree": "tree",
    "top_new": "groups",
    "top_allocated": "groups",
    "leaks_sites": "sites",
    "leaks_between": "groups",
    "leaks_older": "groups",
    "churn": "sites",
    "fragmentation": "pinned",
    "oom_failed": "causes",
    "oom_logged": "causes",
    "owners": "rows",
    "timeline": "points",
    "at_state": "segments",
    "at_address": "owners",
    "diff": "changes",
    "fit": "predictions",
    "gate": "checks",
    "stats": "segments",
    "fix": "changes",
    "merge": "origins",
}
# What a record with a stack has in addition to the keys of --json.
OF_STACK = "That of the first frame of the stack that the text shows; None without a stack."
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def name_of(definition: str) -> str:
    return ANSWERS.get(definition) or LINES.get(definition) or "".join(word.title() for word in definition.split("_"))


class Writer:
    """The classes in an order in which each is defined before its use."""

    def __init__(self, schema: dict) -> None:
        shared, lines = schema["$defs"], schema["$defs"]["commands"]["$defs"]
        # A line of a command in the place of a definition would change every field that refers to it.
        assert not shared.keys() & lines.keys(), shared.keys() & lines.keys()
        self.definitions = {**shared, **lines}
        self.lines: list[str] = []
        self.written: set[str] = set()

    def type_of(self, value: object) -> tuple[str, str | None]:
        """The annotation of a value, and the definition of the object in it."""
        if not isinstance(value, dict) or not value.keys() - {"description"}:
            return "Any", None
        if "$ref" in value:
            definition = value["$ref"].rsplit("/", 1)[1]
            found = self.definitions[definition]
            if "properties" in found:
                return name_of(definition), definition
            return self.type_of(found)
        if "anyOf" in value:
            kinds = [self.type_of(kind) for kind in value["anyOf"]]
            return " | ".join(kind for kind, _ in kinds), next((inner for _, inner in kinds if inner), None)
        if "enum" in value:
            return f"Literal[{', '.join('None' if word is None else json.dumps(word) for word in value['enum'])}]", None
        kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
        inner = None
        texts = []
        for kind in kinds:
            if kind == "array":
                item, inner = self.type_of(value.get("items", {}))
                texts.append(f"list[{item}]")
            else:
                texts.append(PLAIN[kind])
        return " | ".join(texts), inner

    def write(self, definition: str) -> None:
        if definition in self.written:
            return
        self.written.add(definition)
        found = self.definitions[definition]
        required, optional, nested = [], [], {}
        for key, value in found["properties"].items():
            kind, inner = self.type_of(value)
            if inner is not None:
                self.write(inner)
                nested[key] = name_of(inner)
            assert not keyword.iskeyword(key), key
            description = " ".join(value.get("description", "").split())
            if key in found["required"]:
                required.append((f"    {key}: {kind}", description))
            else:
                optional.append((f"    {key}: {kind if kind.endswith('None') else kind + ' | None'} = None", description))
        base = "Record"
        if "stack" in found["properties"]:
            base = "AtSite"
            place = {"function": "str", "filename": "str", "line": "int"}
            missing = {name: kind for name, kind in place.items() if name not in found["properties"]}
            optional += [(f"    {name}: {kind} | None = None", OF_STACK) for name, kind in missing.items()]
        is_answer = definition in ANSWERS
        self.lines += ["", ""]
        self.lines.append(f"@dataclass(frozen=True{', repr=False' if is_answer else ''})")
        listed = LISTS.get(definition)
        base = "Answer" if is_answer else base
        if listed is not None:
            base = f"{'Judged' if definition == 'gate' else 'Listing'}[{nested[listed]}]"
        self.lines.append(f"class {name_of(definition)}({base}):")
        self.lines += [f'    """{found["description"]}"""', ""]
        pairs = "".join(f'"{key}": lambda: {kind}, ' for key, kind in nested.items()).removesuffix(", ")
        if listed is not None:
            self.lines += [f'    _rows: ClassVar[str] = "{listed}"']
        if nested:
            self.lines += [f"    _nested: ClassVar[Nested] = {{{pairs}}}"]
        for line, description in required + optional:
            self.lines += [line] + ([f'    """{description}"""'] if description else [])


def main() -> None:
    writer = Writer(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for definition in [*ANSWERS, *LINES]:
        writer.write(definition)
    head = '''"""The objects of the program's answers. Made by generate_records.py from schema/json.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memreel.answer import Answer, AtSite, Nested, Record
from memreel.judged import Judged
from memreel.listing import Listing'''
    (HERE / "memreel" / "records.py").write_text(head + "\n" + "\n".join(writer.lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
