"""The suites: how each is found or fetched, its parts, and how their results are read."""

import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from daemons import daemons
from languages import go, php, ruby
from parts import Lines, Missing, Part, needs
from postgres import postgres
from pythons import pythons
from settings import settings
from source import build, source
from starts import starts
from stress import stress


class OfPython(Part):
    """A module of CPython's package `test`, or those of its tests that match patterns."""

    def __init__(self, name, python, module, patterns=()):
        super().__init__(name)
        self.python, self.module, self.patterns = python, module, patterns

    def command(self, folder):
        chosen = [word for pattern in self.patterns for word in ("-m", pattern)]
        words = [self.python, "-m", "test", "--junit-xml", str(folder / "tests.xml"), "--timeout", "1000", *chosen, self.module]
        return words, {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}, None

    def results(self, status, text, folder):
        try:
            cases = ElementTree.parse(folder / "tests.xml").getroot().iter("testcase")
        except (OSError, ElementTree.ParseError):
            return super().results(status, text, folder)
        words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
        found = {}
        for case in cases:
            word = next((words[child.tag] for child in case if child.tag in words), "passed")
            found[f"{self.name}: {case.get('name')}"] = word
        return {**super().results(status, text, folder), **found}


# Descriptors, signals, forks, threads, exec, the end of the interpreter, and what looks at the process itself.
QUICK_MODULES = {
    "test_fork1": (),
    "test_wait3": (),
    "test_fcntl": (),
    "test_fileio": (),
    "test_openpty": (),
    "test_pty": (),
    "test_poll": (),
    "test_resource": (),
    "test_mmap": (),
    "test_threadsignals": (),
    "test_threading_local": (),
    "test_atexit": (),
    "test_popen": (),
    "test_posix": (),
    "test_signal": ("*PosixTests*", "WakeupFDTests", "WakeupSignalTests", "PendingSignalsTests", "RaiseSignalTest", "PidfdSignalTest"),
    "test_threading": ("ThreadTests",),
    "test_subprocess": ("POSIXProcessTestCase",),
    "test_faulthandler": (),
    "test_os": ("FDInheritanceTests", "ExecTests", "PidTests", "SpawnTests", "ForkTests", "MemfdCreateTests", "EventfdTests"),
    "test_sys": ("SysModuleTest",),
}


def interpreters():
    """Yields the version and the path of each CPython that has its package `test`, that of this script first."""
    program = "import sys, test.regrtest, test.libregrtest; print(sys.version.split()[0], sys.version_info >= (3, 9))"
    places = [*pathlib.Path("/usr/bin").glob("python3.*"), *pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3")]
    seen = set()
    for path in [pathlib.Path(sys.executable), *places]:
        if not re.fullmatch(r"python3?(\.\d+)?", path.name) or path.resolve() in seen:
            continue
        seen.add(path.resolve())
        asked = subprocess.run([path, "-c", program], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.split()[1] == "True":
            yield asked.stdout.split()[0], str(path)


def cpython(_, quick):
    """CPython's own tests; quickly those of one interpreter."""
    found = interpreters()
    first = next(found, None)
    if not first:
        raise Missing("no CPython with its package `test` (Debian: libpython3-testsuite)")
    if quick:
        version, python = first
        for module, patterns in QUICK_MODULES.items():
            yield OfPython(f"{version}:{module}", python, module, patterns)
        return
    for version, python in sorted([first, *found], key=lambda pair: [int(n) for n in re.findall(r"\d+", pair[0])]):
        for module in subprocess.run([python, "-m", "test", "--list-tests"], capture_output=True, text=True).stdout.split():
            yield OfPython(f"{version}:{module}", python, module)


def bash(cache, quick):
    """GNU bash's tests of the bash that is installed."""
    needs("bash", "cc")
    tests = source(cache, "bash") / "tests"
    for helper in ("recho", "zecho", "printenv", "xcase"):
        if not (tests / helper).exists():
            has = ["-DHAVE_STRING_H", "-DHAVE_STDLIB_H", "-DHAVE_UNISTD_H", "-DSTDC_HEADERS", "-DPROTOTYPES", "-D_GNU_SOURCE"]
            folders = ["-I", str(tests.parent), "-I", str(tests.parent / "include")]
            subprocess.run(["cc", "-w", *has, *folders, "-o", str(tests / helper), str(tests.parent / f"support/{helper}.c")], check=True)
    names = sorted(path.name for path in tests.glob("run-*") if path.name not in ("run-all", "run-minimal", "run-gprof") and not path.name.endswith("~"))
    for name in names:
        if not quick or name in ("run-trap", "run-redir"):
            copy = 'cp -r "$0" tests && cd tests && exec sh "$1"'
            variables = {"THIS_SH": shutil.which("bash"), "BASH_TSTOUT": "/tmp/bashtst", "TMPDIR": "/tmp"}
            script = f'export BASH_TSTOUT=$PWD/out PATH=$PWD/tests:$PATH; {copy}'
            yield Lines(f"bash:{name}", ["bash", "-c", script, str(tests), f"./{name}"], variables)


def make(cache, quick):
    """GNU make's tests of the make that is installed."""
    needs("make", "perl", "cc")
    tests = source(cache, "make-dfsg") / "tests"
    scripts = sorted(str(path.relative_to(tests / "scripts")) for path in (tests / "scripts").glob("*/*") if path.suffix == "")
    for script in scripts:
        if not quick or script in ("features/jobserver", "features/parallelism", "functions/shell", "features/output-sync"):
            copy = 'cp -r "$0" tests && cd tests && exec perl -I. run_make_tests.pl -make "$(command -v make)" "$1"'
            yield Lines(f"make:{script}", ["sh", "-c", copy, str(tests), script], {}, None, r"^(?P<name>\S+) \.+ +(?P<word>\S+)", {"ok": "passed"})


def redis(cache, quick):
    """redis' tests of the server that is installed."""
    needs("redis-server", "tclsh")
    top = source(cache, "redis")
    for program in ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-sentinel"):
        link = top / "src" / program
        if shutil.which(program) and not link.is_symlink():
            link.symlink_to(shutil.which(program))
    units = sorted(str(path.relative_to(top / "tests"))[:-4] for folder in ("unit", "unit/type", "integration") for path in (top / "tests" / folder).glob("*.tcl"))
    for unit in units:
        if not quick or unit in ("unit/type/incr", "unit/auth"):
            words = ["sh", "-c", 'cp -r "$0" redis && cd redis && exec ./runtest --single "$1"', str(top), unit]
            yield Lines(f"redis:{unit}", words, {}, None, r"^\[(?P<word>ok|err|ignore|exception)\]: (?P<name>.*?)(?: \(\d+ ms\))?$", {"ok": "passed"})


def coreutils(cache, quick):
    """coreutils' tests of the programs that are installed."""
    needs("bash", "perl", "cc")
    top = source(cache, "coreutils")
    version = re.search(r"\(GNU coreutils\) (\S+)", subprocess.run(["ls", "--version"], capture_output=True, text=True).stdout)
    programs = " ".join(path.stem for path in (top / "man").glob("*.x") if shutil.which(path.stem))
    variables = {"srcdir": str(top), "abs_top_srcdir": str(top), "abs_srcdir": str(top), "built_programs": programs, "PERL": "perl", "SHELL": "/bin/bash"}
    variables |= {"VERSION": version[1] if version else "", "PACKAGE_VERSION": version[1] if version else "", "CC": "cc", "LC_ALL": "C"}
    for path in sorted((top / "tests").glob("*/*.sh")):
        name = str(path.relative_to(top / "tests"))
        if not quick or name in ("misc/env.sh", "misc/nice.sh"):
            script = 'mkdir src && exec 9>&2 && exec bash "$0"'
            yield Lines(f"coreutils:{name}", ["bash", "-c", script, str(path)], variables)


def git(cache, quick):
    """git's tests of the git that is installed; the tests' own programs are built once."""
    needs("git", "make", "cc", "perl")
    top = source(cache, "git")
    without = " ".join(f"NO_{what}=1" for what in ("CURL", "OPENSSL", "EXPAT", "GETTEXT", "TCLTK", "PYTHON", "ICONV"))
    tools = "CFLAGS=-O0 t/helper/test-tool GIT-BUILD-OPTIONS bin-wrappers/test-tool"
    script = f"make -j2 {without} {tools} && make -j2 {without} -C templates"
    build(top / "templates/blt", ["sh", "-c", script], top, "git's own test programs")
    for path in sorted((top / "t").glob("t[0-9][0-9][0-9][0-9]-*.sh")):
        if not quick or path.name in ("t0005-signals.sh", "t0008-ignores.sh"):
            words = ["sh", path.name, "--root=FOLDER"]
            variables = {"GIT_TEST_INSTALLED": str(pathlib.Path(shutil.which("git")).parent), "TEST_NO_MALLOC_CHECK": "1", "TEST_OUTPUT_DIRECTORY_OVERRIDE": ""}
            yield Lines(f"git:{path.stem}", words, variables, top / "t", r"^(?P<word>ok|not ok) \d+ - (?P<name>.*?)$", {"ok": "passed", "not ok": "failed"})


# What the library needs from others: files, locks, threads, processes, memory, and its own errors.
SQLITE_SCRIPTS = r"(attach|backup|backup_.*|bigfile|blob|crash[1-3]|exclusive2?|fts3aa|fts3_common|io|journal[1-3]|lock[0-9]?|malloc[0-9A]?|mem[a-z0-9]*|mmap[0-9]*|multiplex[0-9]|mutex[12]|notify[1-3]|pager[1-4]|select[1-9]|shared[0-9]*|sort[0-9]*|symlink2?|syscall|tempdb|temptable[0-9]?|thread[0-9]+|trans[0-9]?|trigger[1-9]|unix.*|vacuum[1-9]?|wal[0-9a-z]*|walthread|write_.*|zerodamage)"


def sqlite(cache, quick):
    """SQLite's tests of a library of the same source, which is built once."""
    needs("make", "cc", "tclsh")
    top = source(cache, "sqlite3")
    program = top / "build/testfixture"
    script = "mkdir -p build && cd build && ../configure --disable-shared CFLAGS=-O1 && make testfixture"
    build(program, ["sh", "-c", script], top, "SQLite's test programs", "tcl-dev")
    for path in sorted((top / "test").glob("*.test")):
        if re.fullmatch(r"(thread001|lock)" if quick else SQLITE_SCRIPTS, path.stem):
            # A test that fails has no word behind its name.
            pattern = r"^\.*(?P<name>[^.\s]\S*?)\.\.\.(?: (?P<word>Ok|Omitted|)\S*)?$"
            yield Lines(f"sqlite:{path.stem}", [str(program), str(path)], {}, None, pattern, {"Ok": "passed", "": "failed", None: "failed"})


# In this order: what every machine has is first, so that a limit in seconds leaves out the rest.
SUITES = {"starts": starts, "pythons": pythons, "settings": settings, "daemons": daemons, "cpython": cpython, "bash": bash, "make": make}
SUITES |= {"redis": redis, "coreutils": coreutils, "git": git, "sqlite": sqlite, "php": php, "ruby": ruby, "go": go, "postgres": postgres, "stress": stress}

# Debian's packages with the programs that the suites need; Pythons other than Debian's are those of pyenv.
PACKAGES = (
    "apache2-utils bash bubblewrap dbus gcc git gnupg golang-go make memcached nginx-light openssh-client perl php-cli"
    " postgresql postgresql-server-dev-all pypy3 redis-server ruby sqlite3 stress-ng tcl-dev tmux"
)
