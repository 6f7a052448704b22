"""A preprocessor of the site: files outside of docs/ that pages link to become pages of their own, at the end.

On a hub such a link leads into the repository, which the site has not. mdBook starts this (book.toml).
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".rs": "rust,noplayground", ".py": "python", ".sh": "shell", ".h": "c", ".json": "json", ".yml": "yaml"}


def inner_path(page: str, link: str) -> str | None:
    """Returns the file of the repository that a page of the site links to; None if it is not one outside of docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if "://" in link or path.startswith(("docs/", "../")) or not (ROOT / path).is_file():
        return None
    return path


def place(path: str) -> str:
    """Returns the page of the site that a file of the repository becomes."""
    return path if path.endswith(".md") else path + ".md"


def rewritten(page: str, text: str, found: dict[str, None]) -> str:
    """Returns a page whose links outside lead to pages of the site, and notes these files."""

    def link(match: re.Match[str]) -> str:
        path = inner_path(page, match[1])
        if path is None:
            return match[0]
        found.setdefault(path)
        return f"]({posixpath.relpath(place(path), posixpath.dirname(page) or '.')}{match[2] or ''})"

    return LINK.sub(link, text)


def text_of(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        # Its links begin at its own folder, and those into docs/ are pages of the site.
        return LINK.sub(lambda match: f"]({moved(path, match[1])}{match[2] or ''})", text)
    return f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n````\n"


def moved(path: str, link: str) -> str:
    """Returns a link of a file outside of docs/, from its place in the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if not target.startswith("docs/"):
        return link
    return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(path))


def chapters(items: list) -> list[dict]:
    """Returns the chapters of a list of items, and those inside them."""
    found = []
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is not None:
            found += [chapter, *chapters(chapter["sub_items"])]
    return found


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    # Its name before mdBook 0.5, and since.
    items = book["sections"] if "sections" in book else book["items"]
    found: dict[str, None] = {}
    for chapter in chapters(items):
        if chapter["path"]:
            chapter["content"] = rewritten(chapter["path"], chapter["content"], found)
    if found:
        items.append({"PartTitle": "Files of the repository"})
    for path in sorted(found):
        page = place(path)
        content = text_of(path)
        items.append({"Chapter": {
            "name": path, "content": content, "number": None, "sub_items": [], "path": page, "source_path": None, "parent_names": [],
        }})
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
