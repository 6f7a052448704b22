"""A preprocessor of the site: it adds the pages that `cargo xtask pages` makes, and at the end, as pages, the files outside of
docs/ that others link to. On a hub such a link leads into the repository, which the site has not. mdBook starts this (book.toml).
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The folder of the pages that are made.
MADE = Path(os.environ.get("MEMREEL_PAGES", ROOT / "target" / "pages"))
# Files of the repository in whose place the site has such a page.
IN_PLACE = {"schema/json.schema.json": "schema/json.md"}
# What a reader of the repository runs, and a reader of the site follows.
HELP = re.compile(r"(?<!\[)`memreel help (COMMAND|[a-z]+)`")
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
    return IN_PLACE.get(path) or (path if path.endswith(".md") else path + ".md")


def rewritten(page: str, text: str, found: dict[str, None]) -> str:
    """Returns a page whose links outside lead to pages of the site, and notes these files. The help of a command is a link."""

    def link(match: re.Match[str]) -> str:
        path = inner_path(page, match[1])
        if path is None:
            return match[0]
        found.setdefault(path)
        return f"]({posixpath.relpath(place(path), posixpath.dirname(page) or '.')}{match[2] or ''})"

    def of_command(match: re.Match[str]) -> str:
        name = "index" if match[1] == "COMMAND" else match[1]
        return f"[{match[0]}]({posixpath.relpath(f'commands/{name}.md', posixpath.dirname(page) or '.')})"

    return HELP.sub(of_command, LINK.sub(link, text))


def text_of(path: str) -> str:
    if path in IN_PLACE:
        return (MADE / IN_PLACE[path]).read_text(encoding="utf-8")
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


def chapter(name: str, path: str, content: str, parents: tuple[str, ...] = ()) -> dict:
    return {"Chapter": {
        "name": name, "content": content, "number": None, "sub_items": [], "path": path, "source_path": None, "parent_names": [*parents],
    }}


def add_commands(index: dict) -> None:
    """Makes the chapter without a page the list of the commands, with a page of each below it."""
    index["path"] = "commands/index.md"
    index["content"] = (MADE / index["path"]).read_text(encoding="utf-8")
    for path in re.findall(r"^- \[\w+\]\((\w+\.md)\)", index["content"], re.MULTILINE):
        content = (MADE / "commands" / path).read_text(encoding="utf-8")
        index["sub_items"].append(chapter(path.removesuffix(".md"), f"commands/{path}", content, (index["name"],)))


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    if not MADE.is_dir():
        sys.exit(f"{MADE} is not there; `cargo xtask pages` makes it")
    _, book = json.load(sys.stdin)
    # Its name before mdBook 0.5, and since.
    items = book["sections"] if "sections" in book else book["items"]
    found: dict[str, None] = {}
    for page in chapters(items):
        if page["path"]:
            page["content"] = rewritten(page["path"], page["content"], found)
        else:
            add_commands(page)
    if found:
        items.append({"PartTitle": "Files of the repository"})
    items += [chapter(IN_PLACE.get(path, path), place(path), text_of(path)) for path in sorted(found)]
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
