"""PostgreSQL's regression tests, and a connection for each transaction, on a server of the version that is installed."""

import pathlib
import shutil
import subprocess

from parts import Lines, Missing, needs
from source import build, source

# The server refuses to run as root.
USER = "nobody"
RIGHTS = ("setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups")
BEGIN = '"$BIN/initdb" -D data -U postgres --no-sync >log && echo "fsync = off" >>data/postgresql.conf && "$BIN/pg_ctl" -D data -w -t 600 -l log -o "-h \'\' -k $PWD" start >>log || exit'
END = '"$BIN/pg_ctl" -D data -w -t 600 -m fast stop >>log'
CONNECTIONS = f"""{BEGIN}
"$BIN/pgbench" -h "$PWD" -U postgres -i -s 1 -q postgres 2>>log && "$BIN/pgbench" -h "$PWD" -U postgres -n -C -c 4 -j 2 -t 25 postgres | grep processed; {END}
"""
REGRESSION = """"$REGRESS" --inputdir=regress --bindir="$BIN" --dlpath=regress --temp-instance=instance --schedule=regress/parallel_schedule --max-connections=4
s=$?; cat regression.diffs 2>/dev/null | head -300; exit $s"""


class OfUser(Lines):
    """A part that is run by a user who is not root."""

    seconds = 900
    user = USER
    before = RIGHTS

    def __init__(self, *rest, copied=None):
        super().__init__(*rest)
        self.copied = copied

    def command(self, folder):
        if self.copied:
            shutil.copytree(self.copied, folder / "regress")
        return super().command(folder)


def postgres(cache, quick):
    """PostgreSQL's tests; quickly a connection for each transaction."""
    needs("cc", "setpriv")
    places = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda path: int(path.parts[-3]))
    if not places:
        raise Missing("no /usr/lib/postgresql/*/bin/pgbench")
    if subprocess.run([*RIGHTS, "test", "-r", __file__], check=False).returncode:
        raise Missing(f"no process can become {USER}, or {USER} cannot read {__file__}")
    programs = places[-1].parent
    variables = {"BIN": str(programs), "HOME": "FOLDER", "LC_ALL": "C"}
    pattern = r"^number of transactions actually (?P<name>processed): (?P<word>\d+/\d+)"
    yield OfUser("postgres:pgbench", ["sh", "-c", CONNECTIONS], variables, None, pattern, {"100/100": "passed"})
    if quick:
        return
    regress = source(cache, f"postgresql-{places[-1].parts[-3]}") / "src/test/regress"
    asked = subprocess.run([programs / "pg_config", "--includedir-server", "--pkglibdir"], capture_output=True, text=True)
    headers, libraries = asked.stdout.split()
    script = f"cp {libraries}/autoinc.so {libraries}/refint.so . && cc -O1 -shared -fPIC -I {headers} -o regress.so regress.c"
    build(regress / "regress.so", ["sh", "-c", script], regress, "PostgreSQL's tests", "postgresql-server-dev-all")
    variables |= {"REGRESS": str(programs.parent / "lib/pgxs/src/test/regress/pg_regress")}
    pattern = r"^(?:test| ) +(?P<name>\w+) +\.\.\. (?P<word>ok|FAILED|failed \(ignored\))"
    yield OfUser("postgres:regress", ["sh", "-c", REGRESSION], variables, None, pattern, {"ok": "passed"}, copied=regress)
