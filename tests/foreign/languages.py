"""Tests of PHP, Ruby and Go that need the interpreter, its processes, signals and threads."""

import pathlib
import shutil
import subprocess

from parts import Lines, Missing, needs
from source import build, source

PHP_FOLDERS = ("Zend/tests/fibers", "Zend/tests/generators", "Zend/tests/weakrefs", "ext/standard/tests/general_functions", "ext/pcntl/tests", "ext/posix/tests")
PHP_WORDS = {"PASS": "passed", "WARN": "passed", "FAIL": "failed", "SKIP": "skipped", "XFAIL": "failed", "BORK": "broken"}


def php(cache, quick):
    """PHP's tests of the interpreter that is installed."""
    needs("php")
    version = subprocess.run(["php", "-r", 'echo implode(".", array_slice(explode(".", PHP_VERSION), 0, 2));'], capture_output=True, text=True).stdout
    top = source(cache, f"php{version}")
    for folder in PHP_FOLDERS:
        if not quick or folder == "ext/posix/tests":
            copy = 'mkdir -p "$1" && cp -r "$0/$1/." "$1" && cp "$0/run-tests.php" . && exec php run-tests.php -q -n -p "$(command -v php)" "$1"'
            variables = {"NO_INTERACTION": "1", "SKIP_ONLINE_TESTS": "1", "TEST_TIMEOUT": "600"}
            pattern = rf"(?:^|\r)(?P<word>{'|'.join(PHP_WORDS)}) .*\[(?P<name>[^\]]+\.phpt)\]"
            part = Lines(f"php:{folder}", ["sh", "-c", copy, str(top), folder], variables, None, pattern, PHP_WORDS)
            part.seconds = 600
            yield part


RUBY_MODULES = ("array", "string", "fiber", "thread", "process", "signal", "gc", "exception", "io")
# A test that ends has a line; one that did not pass has another, with a word.
RUBY_PATTERN = r"^(?:\[ *\d+/\d+\] (?=.* s$)| *\d+\) (?P<word>Failure|Error|Skipped):\n)(?P<name>\w+(?:::\w+)*#[^\s:]+)"


def ruby(cache, quick):
    """Ruby's tests of the interpreter that is installed."""
    needs("ruby")
    version = subprocess.run(["ruby", "-e", "print RUBY_VERSION[/\\d+\\.\\d+/]"], capture_output=True, text=True).stdout
    top = source(cache, f"ruby{version}")
    for module in RUBY_MODULES:
        if not quick or module == "signal":
            words = ["ruby", "test/runner.rb", "-v", f"test/ruby/test_{module}.rb"]
            part = Lines(f"ruby:{module}", words, {"TMPDIR": "FOLDER", "HOME": "FOLDER"}, top, RUBY_PATTERN, {None: "passed"})
            part.seconds = 600
            yield part


def go(cache, quick):
    """Go's tests of its calls to and from C, which are built once, and are too many to be quick."""
    if quick:
        return
    needs("go", "cc")
    top = pathlib.Path(subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True).stdout.strip()) / "misc"
    if not (top / "cgo/test").is_dir():
        raise Missing("Go's folder misc/cgo/test is not here")
    place = cache / "go"
    program = place / "misc/cgo/test/cgo.test"
    if not place.is_dir():
        shutil.copytree(top, place / "misc")
    script = f"cd {program.parent} && GOFLAGS=-mod=mod GOCACHE={place}/cache go test -c -o {program}"
    build(program, ["sh", "-c", script], cache, "Go's tests")
    pattern = r"^ *--- (?P<word>PASS|FAIL|SKIP): (?P<name>\S+)"
    yield Lines("go:cgo", [str(program), "-test.v"], {}, program.parent, pattern, {"PASS": "passed"})
