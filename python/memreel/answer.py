"""`Record`, an object of an answer, and `Answer`, what a question about a snapshot returns."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from memreel._errors import UsageError
from memreel.markup import facts
from memreel.table import Table

Nested = Mapping[str, Callable[[], "type[Record]"]]
R = TypeVar("R", bound="Record")


class Record:
    """An object of an answer: its fields are the keys that the program prints with `--json`."""

    _nested: ClassVar[Nested] = {}
    _source: Mapping[str, Any]

    @classmethod
    def of(cls: type[R], source: Mapping[str, Any]) -> R:
        """Makes a record from a `--json` object. A key that this version does not know is only in `to_dict()`."""
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

    def _repr_html_(self) -> str:
        return facts(self._source)

    def to_dict(self) -> dict[str, Any]:
        """Returns the object as the program prints it with `--json`."""
        return dict(self._source)


def place_of(stack: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Returns the function, file and line that name a stack: those of the first frame that the text shows."""
    frames = stack or []
    frame = next((frame for frame in frames if frame["is_shown"]), frames[0] if frames else {})
    return {"function": frame.get("name"), "filename": frame.get("filename"), "line": frame.get("line")}


class AtSite(Record):
    """A record with a stack, whose `function`, `filename` and `line` are those of its first shown frame."""

    @classmethod
    def of(cls: type[R], source: Mapping[str, Any]) -> R:
        record = super().of({**place_of(source.get("stack")), **source})
        object.__setattr__(record, "_source", source)
        return record


class Answer(Record):
    """The answer to a question about a snapshot. Its `repr` is the program's text output."""

    _text: Callable[[], str]

    @classmethod
    def answered(cls: type[R], source: Mapping[str, Any], text: Callable[[], str]) -> R:
        """Makes the answer of an object of `--json`, and of what returns its text."""
        answer = cls.of(source)
        object.__setattr__(answer, "_text", text)
        return answer

    def __repr__(self) -> str:
        return self._text().rstrip("\n")

    def _repr_html_(self) -> str:
        return f'<pre style="white-space:pre-wrap">{html.escape(repr(self))}</pre>'

    def __rich__(self) -> object:
        return plain(repr(self))

    def table(self) -> Table:
        """Returns the answer's list as a table; raises UsageError if it has no list."""
        raise UsageError(f"{type(self).__name__} has no list for a table; its fields are in to_dict()")


def plain(text: str) -> object:
    """Returns a text for the library rich, which has it imported: without markup, whatever a file has in its names."""
    from rich.text import Text

    return Text(text)
