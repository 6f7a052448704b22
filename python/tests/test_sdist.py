"""The source archive: the same bytes each time, and everything that a build of it reads."""

from __future__ import annotations

import email
import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BACKEND = ROOT / "python" / "backend" / "memreel_build.py"

pytest.importorskip("maturin", reason="the backend imports it")
tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")


def backend(path: Path = BACKEND):
    spec = importlib.util.spec_from_file_location("memreel_build", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of an unpacked archive."""
    folder = tmp_path_factory.mktemp("sdist")
    name = backend().build_sdist(folder)
    with tarfile.open(folder / name) as archive:
        # Python 3.11.4 and newer ask which members are safe.
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder / name.removesuffix(".tar.gz")


def test_two_archives_have_the_same_bytes(unpacked, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    first = backend().build_sdist(one)
    # As in the folder of another user on another day, with what a build leaves there.
    copy = shutil.copytree(unpacked, tmp_path / "copy")
    for n, path in enumerate(copy.rglob("*.py")):
        os.utime(path, (n, n))
        path.chmod(path.stat().st_mode & 0o700)
    for path in ("target/debug/libmemreel.so", "python/memreel/_memreel.abi3.so", "python/LICENSE-MIT", "python/memreel/lib/x", "python/memreel/records.py"):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text("made")
    second = backend(copy / "python" / "backend" / "memreel_build.py").build_sdist(two)
    assert (one / first).read_bytes() == (two / second).read_bytes()


def test_entries_have_no_owner_and_one_time(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    name = backend().build_sdist(tmp_path)
    # The time in the head of gzip, and no name of a file.
    assert (tmp_path / name).read_bytes()[3:8] == b"\0\0\0\0\0"
    with tarfile.open(tmp_path / name) as archive:
        entries = archive.getmembers()
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in entries} == {(1700000000, 0, 0, "", "")}
    assert {one.mode for one in entries} <= {0o644, 0o755}
    names = [one.name for one in entries]
    assert names == sorted(set(names))


def test_the_time_is_that_of_the_newest_commit(tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    newest = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    if newest.returncode != 0:
        pytest.skip("this is not a clone")
    assert backend().source_time() == int(newest.stdout)


def test_the_archive_has_every_file_of_the_workspace(unpacked):
    workspace = tomllib.loads((unpacked / "Cargo.toml").read_text())["workspace"]
    for member in workspace["members"]:
        manifest = unpacked / member / "Cargo.toml"
        package = tomllib.loads(manifest.read_text())
        targets = [package.get("lib", {}), *(one for kind in ("bin", "bench", "test", "example") for one in package.get(kind, ()))]
        for kind, folder in (("bench", "benches"), ("example", "examples"), ("test", "tests")):
            for one in package.get(kind, ()):
                name = one["name"]
                choices = [one["path"]] if "path" in one else [f"{folder}/{name}.rs", f"{folder}/{name}/main.rs"]
                assert any((manifest.parent / path).is_file() for path in choices), (member, name)
        paths = [one["path"] for one in targets if "path" in one]
        paths += [one["path"] for one in package.get("dependencies", {}).values() if isinstance(one, dict) and "path" in one]
        assert all((manifest.parent / path).exists() for path in paths), (member, paths)
        assert (manifest.parent / "src").is_dir(), member
    assert (unpacked / "Cargo.lock").is_file()
    # What the sources of the workspace's packages include when they are compiled.
    for source in unpacked.glob("**/src/**/*.rs"):
        for path in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
            assert (source.parent / path).is_file(), (source, path)


def test_the_metadata_is_that_of_the_project(unpacked):
    project = tomllib.loads((unpacked / "pyproject.toml").read_text())["project"]
    found = email.message_from_bytes((unpacked / "PKG-INFO").read_bytes())
    version = tomllib.loads((unpacked / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert (found["Name"], found["Version"], found["Metadata-Version"]) == (project["name"], version, "2.4")
    assert (found["Summary"], found["Requires-Python"]) == (project["description"], project["requires-python"])
    assert found["License-Expression"] == project["license"] and found["Keywords"].split(",") == project["keywords"]
    assert found.get_all("Classifier") == project["classifiers"]
    assert found.get_all("License-File") == ["LICENSE-APACHE", "LICENSE-MIT"]
    assert found.get_all("Project-URL", []) == [f"{name}, {url}" for name, url in project.get("urls", {}).items()]
    readme = (unpacked / "python" / "README.md").read_bytes()
    assert found.get_payload(decode=True) == readme and found["Description-Content-Type"] == "text/markdown; charset=UTF-8"


def test_registries_can_follow_every_link_of_the_readme(unpacked):
    # A registry shows the page without the files beside it.
    project = tomllib.loads((unpacked / "pyproject.toml").read_text())["project"]
    text = (unpacked / "python" / "README.md").read_text()
    links = [*re.findall(r"\]\(([^)\s]+)", text), *re.findall(r"^\[[^]]+\]:\s*(\S+)", text, re.MULTILINE)]
    links += [*re.findall(r"(?:href|src)=[\"']([^\"']+)", text), *project.get("urls", {}).values()]
    assert [link for link in links if not link.startswith("https://")] == []


def test_what_pyproject_names_is_in_the_archive(unpacked):
    project = tomllib.loads((unpacked / "pyproject.toml").read_text())
    assert (unpacked / project["build-system"]["backend-path"][0] / "memreel_build.py").is_file()
    assert (unpacked / project["project"]["readme"]).is_file()
    assert list(unpacked.glob(project["project"]["license-files"][0]))
    maturin = project["tool"]["maturin"]
    assert (unpacked / maturin["manifest-path"]).is_file() and (unpacked / maturin["python-source"] / "memreel").is_dir()
    for folder in ("capi", "hooks/cuda", "hooks/malloc"):
        assert (unpacked / "crates" / folder / "Cargo.toml").is_file()
    assert list((unpacked / "python" / "memreel_record").glob("*.py"))


def test_the_archive_makes_the_classes_of_the_answers(unpacked):
    made = unpacked / "python" / "memreel" / "records.py"
    assert not made.exists()
    backend(unpacked / "python" / "backend" / "memreel_build.py").records()
    text = made.read_text()
    made.unlink()
    assert "class Summary(" in text
