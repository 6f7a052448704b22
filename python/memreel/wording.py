"""The program's refusals in the words of Python: its options are parameters here."""

from __future__ import annotations

import re
from collections.abc import Callable

Name = Callable[[str], str]
# Options and places whose parameter has another name, by command.
PARAMETERS = {
    "at": {"<WHEN>": "event"},
    "leaks": {"--between": "first and second", "--older-than": "events"},
}
OPTION = r"(--?[a-z][a-z-]*|<[A-Z]+>)"
# An option as a word of a sentence, and its value if it has one. Not within names and paths of the snapshot.
IN_SENTENCE = re.compile(r"(?<!\S)(--[a-z][a-z-]*)(?: ((?:\d|[A-Z])[\w.]*|owner\b|scope\b))?")


def in_python(message: str, command: str) -> str:
    """Returns a refusal of a command in the words of its caller in Python."""
    said = without_help(message)
    for pattern, words in (
        (rf"invalid value '(?s:(.*))' for '{OPTION}[^']*'(?:: (?s:(.*)))?\s*(?:\[possible values: (.*)\])?", _invalid),
        (rf"a value is required for '{OPTION}.*", lambda found, name: f"{name(found[1])} needs a value"),
        (
            rf"the argument '{OPTION}[^']*' cannot be used with '{OPTION}[^']*'",
            lambda found, name: f"{name(found[1])} and {name(found[2])} cannot be used together",
        ),
        (r"the following required arguments were not provided:\s*(?s:(.*))", _missing),
    ):
        found = re.fullmatch(pattern, said)
        if found:
            return words(found, lambda option: parameter(option, command))
    return IN_SENTENCE.sub(lambda found: _assigned(parameter(found[1], command), found[2]), said)


def without_help(message: str) -> str:
    """Returns a refusal without what follows it about the command line."""
    said = re.sub(r"\n\s*For more information, try '--help'\.\s*\Z", "", message)
    # A value that is quoted may have any lines, and no usage follows it.
    return said if said.startswith("invalid value ") else re.split(r"\n\s*(?:Usage|tip):", said)[0].strip()


def parameter(option: str, command: str) -> str:
    """Returns the parameter of an option of a command."""
    return PARAMETERS.get(command, {}).get(option) or option.strip("-<>").replace("-", "_")


def _invalid(found: re.Match[str], name: Name) -> str:
    value, option, why, possible = found.groups()
    if possible:
        why = f"not one of {possible}"
    elif why == "invalid digit found in string":
        why = "not a whole number from 0 on"
    shown = value if re.fullmatch(r"-?\d+", value) else repr(value)
    return f"{name(option)}={shown}" + (f": {why.strip()}" if why else " is not understood")


def _missing(found: re.Match[str], name: Name) -> str:
    lacks = re.findall(OPTION, found[1])
    if "<FILE>" in lacks[:1]:
        return "no snapshot given"
    # Each option is followed by the place of its value.
    return f"{' and '.join(name(option) for option in lacks if option.startswith('-'))} is needed too"


def _assigned(name: str, value: str | None) -> str:
    return name if value is None else f"{name}={value if value.isupper() or value.isdigit() else repr(value)}"
