"""Builds memreel's wheel: the classes of the answers, the libraries that are loaded into programs, and then the extension, with maturin.

The variable MEMREEL_WHEEL_TARGET, such as `x86_64-unknown-linux-gnu.2.28`, builds for the glibc of that version with
zig's linker (`pip install ziglang cargo-zigbuild`) and marks the wheel for manylinux. Without it, the wheel is for this
machine. For another processor MEMREEL_WHEEL_LIBGCC_S is the path of its libgcc_s.so.1, and STRIP its `strip`. MEMREEL_WHEEL_PYTHON, such as `python3.14t`, builds for another interpreter than this one; one without the lock gets
a wheel of its own, because the stable interface is that of interpreters with it. MEMREEL_WHEEL_PROFILE is the profile of cargo: `wheel` without it, `dev` for a wheel to test.
"""

from __future__ import annotations

import ctypes
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from functools import cache
from pathlib import Path

import maturin

try:
    import tomllib
except ModuleNotFoundError:
    # Before Python 3.11; maturin needs it there too.
    import tomli as tomllib

PROFILE = os.environ.get("MEMREEL_WHEEL_PROFILE", "wheel")
HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
LIBRARIES = HERE / "memreel" / "lib"
# The packages of the workspace that are libraries of their own.
PACKAGES = ("memreel-capi", "memreel-preload", "memreel-heap")
# What cargo builds of them, and maturin's arguments: one set of features, so that the library is compiled once.
CALLS = [[*(word for package in PACKAGES for word in ("-p", package)), "--features", "memreel-capi/cuda"]]
EXTENSION = "--features gpus"
if PROFILE == "dev":
    # The sets of features of the project's gate, whose builds are used.
    with_gpus = ["-p", "memreel", "-p", "memreel-capi", "--features"]
    with_gpus += ["memreel-capi/cuda,memreel/cuda-nvrtc,memreel/allocator-api2"]
    CALLS = [with_gpus, ["-p", "memreel-preload", "-p", "memreel-heap"]]
    EXTENSION = ""
# What no build needs.
NOT_IN_SDIST = ("fixtures/", "fuzz/", ".ci/", "dev/scripts/", "docs/images/")
# What an archive or a build of it has beside the sources.
MADE = ("pyproject.toml", "PKG-INFO", "target/", "python/memreel/lib/", "python/memreel/records.py", "python/LICENSE-")
# 1980-01-01, the first time that a zip archive can have.
NO_TIME = 315532800

get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    licences()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    announce()
    licences()
    records()
    libraries()
    use_target()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    licences()
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    announce()
    licences()
    records()
    libraries()
    use_target()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Writes an archive of the workspace, whose pyproject.toml is this one with its paths from the root. The same sources are
    the same bytes."""
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
    name = f"memreel-{version}"
    files = {path: ((ROOT / path).read_bytes(), os.access(ROOT / path, os.X_OK)) for path in tracked()}
    files["pyproject.toml"] = (from_root((HERE / "pyproject.toml").read_text()).encode(), False)
    files["PKG-INFO"] = (metadata(version).encode(), False)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, (content, is_program) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime = len(content), source_time()
            entry.mode = 0o755 if is_program else 0o644
            tar.addfile(entry, io.BytesIO(content))
    with open(Path(sdist_directory) / f"{name}.tar.gz", "wb") as file:
        # Without the name of the file and the time, which gzip would note.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            packed.write(archive.getvalue())
    return f"{name}.tar.gz"


def metadata(version):
    """The text of PKG-INFO. What it lacks no wheel of the archive may have (PEP 643)."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", project["name"]),
        ("Version", version),
        *(("Classifier", one) for one in project["classifiers"]),
        *(("License-File", path.name) for path in sorted(ROOT.glob("LICENSE-*"))),
        ("Summary", project["description"]),
        ("Keywords", ",".join(project["keywords"])),
        ("License-Expression", project["license"]),
        ("Requires-Python", project["requires-python"]),
        *(("Project-URL", f"{name}, {url}") for name, url in project.get("urls", {}).items()),
        ("Description-Content-Type", "text/markdown; charset=UTF-8"),
    ]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return "".join(f"{key}: {value}\n" for key, value in fields) + "\n" + readme


def from_root(project):
    """A pyproject.toml with its paths from the root of the workspace."""
    for old, new in (
        ('backend-path = ["backend"]', 'backend-path = ["python/backend"]'),
        ('readme = "README.md"', 'readme = "python/README.md"'),
        ('manifest-path = "Cargo.toml"', 'manifest-path = "python/Cargo.toml"'),
        ('python-source = "."', 'python-source = "python"'),
        ('path = "memreel/lib/', 'path = "python/memreel/lib/'),
        ('path = "memreel/records.py', 'path = "python/memreel/records.py'),
    ):
        assert old in project, old
        project = project.replace(old, new)
    return project


@cache
def source_time():
    """The time of each entry: that of SOURCE_DATE_EPOCH, or of the newest commit, or where there is no git, a fixed one."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    if not (ROOT / ".git").exists():
        return NO_TIME
    newest = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(newest.stdout) if newest.returncode == 0 else NO_TIME


def tracked():
    """The files of the workspace: those of git, or in an unpacked archive all that a build has not made."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True)
        paths = listed.stdout.decode().split("\0")
    else:
        paths = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
        paths = [path for path in paths if not path.startswith(MADE) and "__pycache__" not in path and not path.endswith(".so")]
    return [path for path in paths if path and not path.startswith(NOT_IN_SDIST)]


def announce():
    """Says what the build does and how long it takes, on the terminal: pip shows what a backend prints only if it fails."""
    rust = shutil.which("cargo")
    text = (
        "memreel: Rust builds the program and three libraries; this takes about ten processor minutes the first time "
        f"({os.cpu_count()} processors). `pip install -v` shows each step."
        if rust
        else "memreel: cargo is not in PATH, and the build needs Rust 1.88 or newer: https://rustup.rs"
    )
    try:
        with open("/dev/tty", "w") as terminal:
            terminal.write(f"\n  {text}\n")
    except OSError:
        # No terminal: the log has it.
        print(text, file=sys.stderr, flush=True)


def licences():
    """Copies the licences of the workspace beside pyproject.toml, which may name no file above it."""
    for path in ROOT.glob("LICENSE-*"):
        shutil.copy(path, HERE)


def records():
    """Makes memreel/records.py, the classes of the answers, from the schema of the program's lines."""
    subprocess.run([sys.executable, HERE / "generate_records.py"], check=True)


def libraries():
    """Builds the libraries into memreel/lib, where the package looks for them."""
    target = os.environ.get("MEMREEL_WHEEL_TARGET")
    if target:
        link_with_zig(target)
    for packages in CALLS:
        command = ["cargo", "build", "--profile", PROFILE, *packages]
        command += ["--target", target.rsplit(".", 2)[0]] if target else []
        print(" ".join(command), file=sys.stderr, flush=True)
        subprocess.run(command, check=True, cwd=ROOT)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = built / (target.rsplit(".", 2)[0] if target else "") / ("debug" if PROFILE == "dev" else PROFILE)
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    LIBRARIES.mkdir()
    for package in PACKAGES:
        name = "libmemreel.so" if package == "memreel-capi" else f"lib{package.replace('-', '_')}.so"
        shutil.copy(built / name, LIBRARIES / name)
        # Conda's compilers name theirs.
        if strip := shutil.which(os.environ.get("STRIP", "strip")):
            subprocess.run([strip, "--strip-debug", LIBRARIES / name], check=False)
    hook = LIBRARIES / "python" / "memreel_record"
    hook.mkdir(parents=True)
    for pattern in "*.py", "*.supp":
        for path in (HERE / "memreel_record").glob(pattern):
            shutil.copy(path, hook)


def link_with_zig(target):
    """Has cargo link with zig for the glibc of a target, and with the system's libgcc_s.

    zig puts an unwinder of its own in the place of libgcc_s. Exceptions of C++ and cancelled threads pass through memreel's
    functions, and their unwinder is libgcc_s: two unwinders in one process end it with a fault.
    """
    triple, major, minor = target.rsplit(".", 2)
    linker = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "zig-linker"
    linker.parent.mkdir(parents=True, exist_ok=True)
    linker.write_text(
        f"""#!/bin/sh
# Programs that run while this is built have no such exceptions.
case " $* " in *" -shared "*) kind=library ;; *) kind=program ;; esac
for word; do
  shift
  case "$kind $word" in
    "library -lgcc_s") set -- "$@" '{libgcc_s()}' ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec cargo-zigbuild zig cc -- -target {triple.replace("-unknown", "")}.{major}.{minor} "$@"
"""
    )
    linker.chmod(0o755)
    os.environ[f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER"] = str(linker)
    if "MEMREEL_WHEEL_LIBGCC_S" in os.environ:
        # For another processor it is the compiler of C too.
        os.environ.setdefault(f"CC_{triple.replace('-', '_')}", str(linker))


def libgcc_s():
    """Where the libgcc_s of the target is: this machine's, unless another is named."""
    if named := os.environ.get("MEMREEL_WHEEL_LIBGCC_S"):
        return named
    ctypes.CDLL("libgcc_s.so.1")
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libgcc_s.so.1"):
            return line.split(maxsplit=5)[5]
    raise RuntimeError("libgcc_s.so.1 is loaded, but not mapped")


def use_target():
    """Has maturin build for the target of MEMREEL_WHEEL_TARGET and the interpreter of MEMREEL_WHEEL_PYTHON."""
    target = os.environ.get("MEMREEL_WHEEL_TARGET")
    if target is None:
        # As pip does for a wheel of this machine alone.
        arguments = f"--profile {PROFILE} {EXTENSION} --compatibility linux"
    else:
        triple, major, minor = target.rsplit(".", 2)
        arguments = f"--profile {PROFILE} {EXTENSION} --target {triple} --compatibility manylinux_{major}_{minor}"
    named = os.environ.get("MEMREEL_WHEEL_PYTHON")
    if named:
        arguments += f" --interpreter {named}"
    if named.endswith("t") if named else sysconfig.get_config_var("Py_GIL_DISABLED"):
        # The interpreter without the lock has a stable interface of its own from 3.15 on.
        arguments += " --no-default-features"
    os.environ.setdefault("MATURIN_PEP517_ARGS", arguments)
