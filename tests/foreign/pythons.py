"""Every Python that is here, from 2.7 on: the recorder's hook runs in each of them."""

from __future__ import annotations

import pathlib
import re
import subprocess

from parts import Lines, Missing
from starts import Start

SCRIPT = r'''
from __future__ import print_function
import ctypes, decimal, json, multiprocessing, os, socket, subprocess, sys, threading, unittest
from email.mime.text import MIMEText
from xml.dom import minidom

def square(x): return x * x

if __name__ == "__main__":
    print(json.dumps({"a": [1]}), decimal.Decimal(2), ctypes.sizeof(ctypes.c_int), MIMEText("x").get_payload())
    try: import no_module_of_this_name
    except ImportError: print("no module")
    print(subprocess.check_output([sys.executable, "-c", "import json; print(json.dumps([2]))"]).decode().strip())
    print(subprocess.call([sys.executable, "-S", "-E", "-c", "import sys; sys.exit(5)"]))
    thread = threading.Thread(target=lambda: print("thread")); thread.start(); thread.join()
    child = os.fork()
    if child == 0: os._exit(6 if os.fork() else 0)
    print(os.waitpid(child, 0)[1] >> 8)
    pool = multiprocessing.Pool(2); print(pool.map(square, [1, 2, 3])); pool.close(); pool.join()
    sys.exit(7)
'''
TEXT = '{"a": [1]} 2 4 x\nno module\n[2]\n5\nthread\n6\n[1, 4, 9]\n'

# Modules of the package `test` of a Python that is older than those of the suite `cpython`.
OLD_MODULES = ("test_imp", "test_import", "test_pkg", "test_threading", "test_subprocess", "test_signal", "test_fork1", "test_os", "test_popen", "test_wait3", "test_wait4", "test_mmap")
OLD_PATTERN = r"^(?P<name>test\w+ \([\w.]+\)) \.\.\. (?:.*\n)??.*?(?P<word>ok|FAIL|ERROR|skipped)\b"


class OfInterpreter(Start):
    """A script of imports, threads, children and pools."""

    status = 7

    def __init__(self, name, python):
        super().__init__(name, f"cat >a.py <<'END'\n{SCRIPT}\nEND\nPYTHONWARNINGS=ignore exec {python} a.py", TEXT)


def interpreters():
    """Returns the name, the version and the path of each interpreter, the oldest first."""
    program = "import sys, platform; print('%s-%d.%d.%d' % ((platform.python_implementation().lower(),) + sys.version_info[:3]))"
    places = [*pathlib.Path.home().glob(".pyenv/versions/*/bin/python"), *pathlib.Path("/usr/bin").glob("p*y*"), *pathlib.Path("/usr/local/bin").glob("p*y*")]
    found = {}
    for path in places:
        if re.fullmatch(r"(python|pypy)(\d(\.\d+)?)?", path.name) and path.resolve() not in {path.resolve() for _, path in found.values()}:
            asked = subprocess.run([path, "-c", program], capture_output=True, text=True)
            if asked.returncode == 0:
                name = asked.stdout.strip()
                found.setdefault(name, ([int(n) for n in re.findall(r"\d+", name)], path))
    return sorted((version, name, path) for name, (version, path) in found.items())


def pythons(_, quick):
    """A script for each interpreter; quickly the oldest, the newest, and one that is no CPython. Then tests of the old."""
    found = interpreters()
    if not found:
        raise Missing("no Python")
    of_cpython = [each for each in found if each[1].startswith("cpython")]
    others = [each for each in found if each not in of_cpython]
    for _, name, path in [*of_cpython[:1], *of_cpython[1:][-1:], *others[:1]] if quick else found:
        yield OfInterpreter(f"pythons:{name}", path)
    for version, name, path in [] if quick else of_cpython:
        if version < [3, 9]:
            for module in OLD_MODULES:
                words = [str(path), "-m", "test.regrtest" if version < [3] else "test", "-v", module]
                yield Lines(f"pythons:{name}:{module}", words, {"TMPDIR": "FOLDER"}, None, OLD_PATTERN, {"ok": "passed"})
