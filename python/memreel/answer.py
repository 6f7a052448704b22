"""`Record`, an object of an answer, and `Answer`, what a question about a snapshot returns."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from memreel._errors import UsageError
from memreel.table import Table

Nested = Mapping[str, Callable[[], "type[Record]"]]
R = TypeVar("R", bound="Record")


class Record:
    """An object of an answer: its fields are the keys that the program prints with `--json`."""

    _nested: ClassVar[Nested] = {}
    _source: Mapping[str, Any]

    @classmethod
    def of(cls: type[R], source: Mapping[str, Any]) -> R:
        """Makes the record of an object of `--json`. A key that this version does not know is in `to_dict()` alone."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        values = {key: cls._value(key, value) for key, value in source.items() if key in known}
        record = cls(**values)
        object.__setattr__(record, "_source", source)
        return record

    @classmethod
    def _value(cls, key: str, value: Any) -> Any:
        if key not in cls._nested:
            return value
        inner = cls._nested[key]()
        if isinstance(value, list):
            return [inner.of(item) for item in value]
        return value if value is None else inner.of(value)

    def to_dict(self) -> dict[str, Any]:
        """Returns the object as the program prints it with `--json`."""
        return dict(self._source)


class Answer(Record):
    """What a question about a snapshot returns. Its `repr` is the program's answer in words."""

    _text: Callable[[], str]
    _rows: ClassVar[str] = ""

    @classmethod
    def answered(cls: type[R], source: Mapping[str, Any], text: Callable[[], str]) -> R:
        """Makes the answer of an object of `--json`, and of what returns its text."""
        answer = cls.of(source)
        object.__setattr__(answer, "_text", text)
        return answer

    def __repr__(self) -> str:
        return self._text().rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def table(self) -> Table:
        """Returns the answer's list as a table: a row for each group, site, owner or point, with the call that it names.

        Raises UsageError if it has no list.
        """
        found: list[Mapping[str, Any]] = next((value for value in self._source.values() if _is_rows(value)), [])
        if found:
            return Table.of_rows([_flat(row) for row in found])
        return Table.of_columns({name: [] for name in self._columns()})

    @classmethod
    def _columns(cls) -> list[str]:
        """The columns of a table without rows: the fields of the objects in the answer's first list."""
        lists = {field.name for field in fields(cls) if str(field.type).startswith("list[")}  # type: ignore[arg-type]
        inner = next((cls._nested[name]() for name in cls._nested if name in lists), None)
        if inner is None:
            raise UsageError(f"{cls.__name__} has no list to make a table of; its fields are in to_dict()")
        names: list[str] = []
        for field in fields(inner):  # type: ignore[arg-type]
            if field.name == "stack":
                names += ["function", "filename", "line"]
            elif field.name not in inner._nested and "list[" not in str(field.type):
                names.append(field.name)
        return names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.table())

    def __bool__(self) -> bool:
        return True


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _flat(row: Mapping[str, Any]) -> dict[str, int | float | bool | str | None]:
    """A row of a list without its inner objects; of a stack, the innermost call that identifies it."""
    flat: dict[str, int | float | bool | str | None] = {}
    for key, value in row.items():
        if key == "stack":
            frame = next((frame for frame in value or [] if frame.get("is_shown")), None)
            flat["function"] = frame and frame["name"]
            flat["filename"] = frame and frame["filename"]
            flat["line"] = frame and frame["line"]
        elif value is None or isinstance(value, (int, float, str)):
            flat[key] = value
    return flat
