"""The suites: how each is found or fetched, its parts, and how their results are read."""

import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree


class Missing(Exception):
    """Why a suite cannot be run here."""


# Whether what is not here yet is fetched and built.
may_fetch = True


class Part:
    """One command with the results of its tests."""

    seconds = 120

    def __init__(self, name):
        self.name = name

    def command(self, folder):
        """Returns the words, more variables, and the folder to run in (none: a new one)."""
        raise NotImplementedError

    def results(self, status, text, folder):
        """Returns what became of each test; without a report, of the command as one."""
        return {self.name: "passed" if status == 0 else f"status {status}"}


class Lines(Part):
    """A command that prints a line for each test, or has an exit status alone."""

    def __init__(self, name, words, variables=None, cwd=None, pattern=None, word_of=None):
        super().__init__(name)
        self.words, self.variables, self.cwd = words, variables or {}, cwd
        self.pattern, self.word_of = pattern, word_of or {}

    def command(self, folder):
        return [word.replace("FOLDER", str(folder)) for word in self.words], self.variables, self.cwd

    def results(self, status, text, folder):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        matches = re.finditer(self.pattern, text, re.MULTILINE) if self.pattern else []
        found = {f"{self.name}: {match['name']}": self.word_of.get(match["word"], match["word"]) for match in matches}
        return {**super().results(status, text, folder), **found}


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"no {program}")


def source(cache, package):
    """Returns the folder of a Debian package's source, which is fetched once."""
    place = cache / package
    if not place.is_dir():
        if not may_fetch:
            raise Missing(f"the source of {package} was not fetched yet: run tests/foreign/run without --offline")
        needs("apt-get", "tar")
        apt = cache / "apt"
        (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
        of_system = pathlib.Path("/etc/apt/sources.list.d/debian.sources")
        if not of_system.is_file():
            raise Missing("no list of Debian's packages")
        (apt / "debian.sources").write_text(re.sub(r"^Types: deb$", "Types: deb-src", of_system.read_text(), flags=re.MULTILINE))
        places = {"Etc::sourcelist": apt / "debian.sources", "Etc::sourceparts": "-", "State::lists": apt / "lists", "Cache": apt / "cache"}
        lines = [f'Dir::{key} "{place}";' for key, place in places.items()]
        (apt / "apt.conf").write_text("\n".join([*lines, 'APT::Sandbox::User "root";', ""]))
        fetched = apt / package
        fetched.mkdir(exist_ok=True)
        for words in (["update"], ["source", "--download-only", package]):
            done = subprocess.run(["apt-get", "-q", *words], cwd=fetched, env={"APT_CONFIG": str(apt / "apt.conf"), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, capture_output=True, text=True)
            if done.returncode:
                raise Missing(f"apt-get {words[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
        new = cache / f"{package}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        subprocess.run(["tar", "xf", *map(str, fetched.glob("*.orig.tar.*z*")), "-C", str(new), "--strip-components=1"], check=True)
        new.rename(place)
    return place


class OfPython(Part):
    """A module of CPython's package `test`."""

    def __init__(self, python, module):
        super().__init__(f"{pathlib.Path(python).resolve().name}:{module}")
        self.python, self.module = python, module

    def command(self, folder):
        words = [self.python, "-m", "test", "--junit-xml", str(folder / "tests.xml"), "--timeout", "1000", self.module]
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


# Signals, forks, threads, the end of the interpreter, and what looks at the process itself.
QUICK_MODULES = ["test_atexit", "test_fork1", "test_wait3", "test_sys", "test_pthread_getcpuclockid", "test_threadsignals"]


def cpython(_, quick):
    home = pathlib.Path.home()
    found = {}
    for path in [*pathlib.Path("/usr/bin").glob("python3.*"), *home.glob(".pyenv/versions/3.*/bin/python3")]:
        program = "import sys, test.regrtest, test.libregrtest; print(sys.version.split()[0], sys.version_info >= (3, 9))"
        asked = subprocess.run([path, "-c", program], capture_output=True, text=True) if re.fullmatch(r"python3(\.\d+)?", path.name) else None
        if asked and asked.returncode == 0 and asked.stdout.split()[1] == "True":
            found[asked.stdout.split()[0]] = str(path)
    if not found:
        raise Missing("no CPython with its package `test` (Debian: libpython3-testsuite)")
    for version, python in sorted(found.items(), key=lambda pair: [int(n) for n in re.findall(r"\d+", pair[0])]):
        listed = subprocess.run([python, "-m", "test", "--list-tests"], capture_output=True, text=True).stdout.split()
        if quick:
            listed = [module for module in listed if module in QUICK_MODULES] if python == list(found.values())[-1] else []
        for module in listed:
            part = OfPython(python, module)
            part.name = f"{version}:{module}"
            yield part


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
    if not (top / "t/helper/test-tool").exists():
        if not may_fetch:
            raise Missing("git's own test programs were not built yet: run tests/foreign/run git without --offline")
        without = [f"NO_{what}=1" for what in ("CURL", "OPENSSL", "EXPAT", "GETTEXT", "TCLTK", "PYTHON", "ICONV")]
        built = subprocess.run(["make", "-j2", "CFLAGS=-O0", *without, "t/helper/test-tool", "GIT-BUILD-OPTIONS", "bin-wrappers/test-tool"], cwd=top, capture_output=True, text=True)
        if built.returncode:
            raise Missing(f"git's tests cannot be built: {built.stderr.strip().splitlines()[-1:]}")
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
    if not program.exists():
        if not may_fetch:
            raise Missing("SQLite's test program was not built yet: run tests/foreign/run sqlite without --offline")
        program.parent.mkdir(exist_ok=True)
        for words in (["../configure", "--disable-shared", "CFLAGS=-O1"], ["make", "testfixture"]):
            built = subprocess.run(words, cwd=program.parent, capture_output=True, text=True)
            if built.returncode:
                raise Missing(f"SQLite's tests cannot be built (Debian: tcl-dev): {built.stderr.strip().splitlines()[-1:]}")
    for path in sorted((top / "test").glob("*.test")):
        if re.fullmatch(r"(thread001|lock)" if quick else SQLITE_SCRIPTS, path.stem):
            # A test that fails has no word behind its name.
            pattern = r"^(?P<name>\S+?)\.\.\.(?: (?P<word>Ok|Omitted|)\S*)?$"
            yield Lines(f"sqlite:{path.stem}", [str(program), str(path)], {}, None, pattern, {"Ok": "passed", "": "failed", None: "failed"})


# Programs that start, each with a text that it prints.
STARTS = {
    "node": (["node"], "node -e 'const w=require(\"worker_threads\"); console.log([1,2].map(x=>x*2).join()); new w.Worker(\"1\",{eval:true}).on(\"exit\",c=>console.log(\"worker\",c))'", "2,4\nworker 0"),
    "npm": (["npm"], "npm init -y >/dev/null && npm pack --silent", ".tgz"),
    "java": (["javac", "java"], "echo 'class A { public static void main(String[] a) throws Exception { var t = new Thread(() -> System.out.println(\"thread\")); t.start(); t.join(); System.gc(); System.out.println(\"end\"); } }' > A.java && javac A.java && java -cp . A", "thread\nend"),
    "chromium": (["chromium"], "echo '<p id=p>x</p><script>p.textContent = 6 * 7</script>' > a.html && chromium --headless --no-sandbox --disable-gpu --user-data-dir=profile --dump-dom \"file://$PWD/a.html\" 2>/dev/null", ">42<"),
    "chromium-sandbox": (["chromium", "su"], "echo '<p id=p>x</p><script>p.textContent = 6 * 7</script>' > a.html && chmod -R a+rwX . && chmod a+x .. && su nobody -s /bin/sh -c 'HOME=$PWD chromium --headless --disable-gpu --user-data-dir=$PWD/profile --dump-dom file://$PWD/a.html 2>/dev/null'", ">42<"),
    "go": (["go"], "printf 'package main\\nimport \"fmt\"\\nfunc main() { c := make(chan int); go func() { c <- 42 }(); fmt.Println(<-c) }\\n' > a.go && GOCACHE=$PWD/cache go run a.go", "42"),
    "static": (["cc"], "printf 'int puts(const char*); int main(void) { puts(\"static\"); return 0; }' > a.c && cc -static -o a a.c && ./a", "static"),
    "asan": (["cc"], "printf 'int puts(const char*); int main(void) { puts(\"asan\"); return 0; }' > a.c && cc -fsanitize=address -o a a.c && ./a", "asan"),
}


class Start(Part):
    """A program that starts and prints a text."""

    def __init__(self, name, script, text):
        super().__init__(f"starts:{name}")
        self.script, self.text = script, text

    def command(self, folder):
        return ["sh", "-c", self.script], {}, None

    def results(self, status, text, folder):
        return {self.name: "passed" if status == 0 and self.text in text else f"status {status}"}


def starts(_, quick):
    for name, (programs, script, text) in STARTS.items():
        if all(map(shutil.which, programs)) and not (quick and name in ("npm", "go", "chromium-sandbox")):
            yield Start(name, script, text)


SUITES = {"cpython": cpython, "bash": bash, "make": make, "redis": redis, "coreutils": coreutils, "git": git, "sqlite": sqlite, "starts": starts}
