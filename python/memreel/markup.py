"""HTML for notebooks: tables of records, with sizes in words. Every text of a file is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from memreel._memreel import bytes_text

# The rows of a list that a cell shows.
MOST_ROWS = 20
# The keys that one column about the call stands for.
CALL = ("function", "filename", "line")
NUMBER = ' style="text-align:right;white-space:nowrap"'


def facts(source: Mapping[str, Any]) -> str:
    """Returns a table of an object's texts and numbers, each in a row; what is inside of it, and its marks, are left out."""
    rows = [(name, value) for name, value in source.items() if isinstance(value, (int, float, str)) and not isinstance(value, bool)]
    lines = (f'<tr><th style="text-align:left">{_words(name)}</th><td>{_text(name, value)}</td></tr>' for name, value in rows)
    return f"<table>{''.join(lines)}</table>"


def rows(all_rows: list[dict[str, Any]]) -> str:
    """Returns a table of flat rows, at most MOST_ROWS of them. Columns without a value are left out, and the call is one."""
    shown = all_rows[:MOST_ROWS]
    names = [name for name in _names(shown) if any(row.get(name) is not None for row in shown)]
    # Where each block counts once, the two are the same.
    if all(row.get("total_bytes") == row.get("bytes") for row in shown):
        names = [name for name in names if name != "total_bytes"]
    has_call = "function" in names
    names = [name for name in names if not (has_call and name in CALL)]
    head = "".join(f"<th>{_words(name)}</th>" for name in names) + ("<th>allocated by</th>" if has_call else "")
    body = "".join(f"<tr>{_cells(row, names)}{_call(row) if has_call else ''}</tr>" for row in shown)
    rest = len(all_rows) - len(shown)
    more = f"<p>and {rest:,} more rows</p>" if rest else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _names(shown: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of all rows, each once, in their order."""
    return list(dict.fromkeys(name for row in shown for name in row))


def _cells(row: Mapping[str, Any], names: list[str]) -> str:
    def cell(name: str) -> str:
        value = row.get(name)
        align = NUMBER if isinstance(value, (int, float)) and not isinstance(value, bool) else ' style="text-align:left"'
        return f"<td{align}>{_text(name, value)}</td>"

    return "".join(map(cell, names))


def _call(row: Mapping[str, Any]) -> str:
    """A cell with the function, and its file and line; the path is shown when the pointer is on it."""
    function, filename, line = (row.get(key) for key in CALL)
    if function is None:
        return '<td style="text-align:left">(no stack)</td>'
    place = "" if filename in (None, "", "??") else f" ({str(filename).replace(chr(92), '/').rsplit('/', 1)[-1]}{f':{line}' if line else ''})"
    return f'<td style="text-align:left" title="{html.escape(str(filename))}">{html.escape(f"{function}{place}")}</td>'


def _words(name: str) -> str:
    """A key as the head of a row or a column; the unit of its values is in them."""
    words = name.removesuffix("_bytes").removeprefix("n_").removeprefix("is_").replace("_", " ")
    return html.escape(words)


def _text(name: str, value: object) -> str:
    """A value; bytes in words, with the exact number when the pointer is on them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name == "bytes" or name.endswith("_bytes")):
        size = bytes_text(abs(value))
        return f'<span title="{value:,} bytes">{"-" if value < 0 else ""}{html.escape(size)}</span>'
    if isinstance(value, (int, float)):
        # The number of an event or a device is a name.
        return str(value) if name in ("event", "device", "line") or name.endswith("_event") else f"{value:,}"
    return html.escape(str(value))
