"""A part of a suite: one command with the results of its tests."""

from __future__ import annotations

import re
import shutil


class Missing(Exception):
    """Why a suite cannot be run here."""


class Part:
    """One command with the results of its tests."""

    # Its time when it runs plain.
    seconds = 300
    # Words before the command, also before `memreel record`: limits and streams that both have.
    before = ()
    # The user whom its folder belongs to, and whom the words before it change to.
    user = None

    def __init__(self, name):
        self.name = name

    def command(self, folder):
        """Returns the words, more variables, and the folder to run in (none: a new one)."""
        raise NotImplementedError

    def results(self, status, text, folder):
        """Returns what became of each test; without a report, of the command as one."""
        return {self.name: "passed" if status == 0 else f"status {status}"}


class Lines(Part):
    """A command that prints a line for each test, or has an exit status alone."""

    def __init__(self, name, words, variables=None, cwd=None, pattern=None, word_of=None):
        super().__init__(name)
        self.words, self.variables, self.cwd = words, variables or {}, cwd
        self.pattern, self.word_of = pattern, word_of or {}

    def command(self, folder):
        variables = {name: value.replace("FOLDER", str(folder)) for name, value in self.variables.items()}
        return [word.replace("FOLDER", str(folder)) for word in self.words], variables, self.cwd

    def results(self, status, text, folder):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        matches = re.finditer(self.pattern, text, re.MULTILINE) if self.pattern else []
        found = {f"{self.name}: {match['name']}": self.word_of.get(match["word"], match["word"]) for match in matches}
        return {**super().results(status, text, folder), **found}


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"no {program}")
