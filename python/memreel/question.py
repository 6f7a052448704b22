"""Questions: the words of the program's command line, about snapshots in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from memreel import _memreel
from memreel._errors import Error
from memreel.answer import Answer
from memreel.wording import in_python

A = TypeVar("A", bound=Answer)
Named = Sequence[tuple[str, _memreel.Opened]]


class Question:
    """A command with its options, and the snapshots that it is about."""

    def __init__(
        self, snapshots: Named, command: str, options: Sequence[str] = (), positionals: Sequence[str] | None = None
    ) -> None:
        self.snapshots = distinct(snapshots)
        self.command = command
        self.options = options
        # The names of all snapshots, unless the caller gives other words.
        self.positionals = [name for name, _ in self.snapshots] if positionals is None else positionals

    def words(self, *more: str) -> list[str]:
        """The words of the command line behind `memreel`."""
        return [self.command, *more, *self.options, "--", *self.positionals]

    def printed(self, *more: str) -> str:
        """Runs the command, with more options, and returns what the program prints. Errors speak of Python's parameters."""
        try:
            return _memreel.ask(self.snapshots, self.words(*more))[1]
        except Error as error:
            raise type(error)(in_python(str(error), self.command)) from None

    def text(self) -> str:
        """Returns what the program prints."""
        return self.printed()

    def objects(self, *more: str) -> list[dict[str, Any]]:
        """Returns what the program prints with `--json`, and with more options."""
        text = self.printed("--json", *more)
        # Not `splitlines`: texts of a snapshot may have other characters at which it splits.
        return [json.loads(line) for line in text.split("\n") if line]

    def answers(self, kind: type[A]) -> list[A]:
        """Returns an answer for each line of `--json`."""
        return [kind.answered(source, self.text) for source in self.objects()]


def distinct(snapshots: Named) -> list[tuple[str, _memreel.Opened]]:
    """The snapshots under names of which no two are equal."""
    named: list[tuple[str, _memreel.Opened]] = []
    for name, opened in snapshots:
        taken = {name for name, _ in named}
        n = 2
        unique = name
        while unique in taken:
            unique, n = f"{name} ({n})", n + 1
        named.append((unique, opened))
    return named


def options(given: Mapping[str, object]) -> list[str]:
    """The words of options: `min_size=4` is `--min-size=4`, True is the name alone, a list is the option again and again.
    None and False are no words."""
    words: list[str] = []
    for key, value in given.items():
        name = "-" + key if len(key) == 1 else "--" + key.replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if one is True:
                words.append(name)
            elif one is not None and one is not False:
                words += [f"{name}{one}" if len(key) == 1 else f"{name}={one}"]
    return words
