"""No module imports, even by way of others, from a module that imports from it.

Imports in functions and for type checkers count too. The sources are only read, so `pytest --noconftest` runs this without the
extension.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1]
Imports = dict[str, set[str]]


def modules_of(folder: Path, package: str) -> dict[str, Path]:
    """Returns the modules of a folder by their names, which begin with that of the package."""
    found = {}
    for path in [*folder.rglob("*.py"), *folder.rglob("*.pyi")]:
        parts = [package, *path.relative_to(folder).with_suffix("").parts]
        found[".".join(part for part in parts if part not in ("", "__init__"))] = path
    return found


def imports_of(folder: Path, package: str) -> Imports:
    """Returns the modules of a package that each of them imports from."""
    modules = modules_of(folder, package)
    imports = {}
    for module, path in modules.items():
        within = module if path.stem == "__init__" else module.rpartition(".")[0]
        targets = set(targets_of(ast.parse(path.read_text(encoding="utf-8")), within, modules))
        imports[module] = (targets & modules.keys()) - {module}
    return imports


def targets_of(tree: ast.Module, package: str, modules: dict[str, Path]) -> Iterator[str]:
    """Returns the names that a module of a package imports from. A text that is a module's name may be an
    argument of `import_module`; that of the whole package is in other texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else base for name in names)
        elif isinstance(node, ast.Constant) and node.value != package.split(".")[0]:
            yield str(node.value)


def circles_of(imports: Imports) -> set[frozenset[str]]:
    """Returns every set of modules that all reach each other."""
    reached = {module: reachable(imports, module) for module in imports}
    circles = {frozenset(other for other in reached[module] if module in reached[other]) for module in imports}
    return circles - {frozenset()}


def reachable(imports: Imports, module: str) -> set[str]:
    """Returns the modules that a module imports from, directly or not."""
    found: set[str] = set()
    open_ones = [*imports[module]]
    while open_ones:
        following = open_ones.pop()
        if following not in found:
            found.add(following)
            open_ones.extend(imports[following])
    return found


@pytest.mark.parametrize(("folder", "package"), [("memreel", "memreel"), ("memreel_record", "")])
def test_no_modules_import_in_a_circle(folder: str, package: str) -> None:
    imports = imports_of(PYTHON / folder, package)
    # Those that import nothing are imported.
    assert sum(map(len, imports.values())) >= len(imports) - 1, imports
    assert circles_of(imports) == set()


@pytest.mark.parametrize(
    "text",
    [
        "from package.rooms.high import f",
        "from package.rooms import high",
        "from .rooms import high",
        "from .rooms.high import f",
        "from . import rooms",
        "import package.rooms.high",
        "import package.rooms.high as renamed",
        "def f():\n    from package.rooms import high",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from package.rooms.high import f",
        "from importlib import import_module\nimport_module('package.rooms.high')",
    ],
)
def test_a_circle_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "rooms").mkdir()
    (tmp_path / "__init__.py").write_text("from package.rooms.high import f")
    (tmp_path / "rooms" / "__init__.py").write_text("from package.rooms.high import f")
    (tmp_path / "rooms" / "high.py").write_text("from ..low import g")
    low = tmp_path / "low.py"
    low.write_text("import high\nfrom rooms import high\n'see package.rooms.high'")
    assert all("package.rooms.high" not in circle for circle in circles_of(imports_of(tmp_path, "package")))
    low.write_text(text)
    circle = next(iter(circles_of(imports_of(tmp_path, "package"))))
    assert circle >= {"package.low", "package.rooms.high"}
