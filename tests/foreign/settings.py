"""What a program is given, and what it gives up: streams, signals, limits, rights, and the root of its files."""

from __future__ import annotations

import shutil

from starts import Start

# A program that allocates: `perl -e "$ALLOCATES"`.
ALLOCATES = """export ALLOCATES='push @a, "x" x 50 for 1 .. 100000; print scalar(@a), "\\n"'; """
ONCE = """once() { sed '0,/^memreel: process .* is not recorded/{//d}'; }; """
# The folder `root` has a shell and `ls`, and nothing of the recorder's.
ROOT = r"""
mkdir root; for p in sh ls; do p=$(command -v $p); for f in "$p" $(env -u LD_PRELOAD ldd "$p" | grep -o '/[^ )]*'); do cp --parents -L "$f" root; done; done
sh=$(command -v sh); """

# A name, the programs that it needs, what a shell does before the recorder starts, the script, the text, and the exit status.
# Where a script prints brackets, it prints what the program wrote to its standard error too. A process that gave up the rights to
# write a tape says so once (docs/record.md): `once` takes that line away.
SETTINGS = [
    ("closed-input", ["cat"], "exec <&-", "cat; echo $?", "1\n", 0),
    ("closed-output", ["sh"], "exec >&-", "if (: 3>&1); then exit 1; else exit 9; fi", "", 9),
    ("closed-errors", ["sh"], "exec 2>&-", "if (: 3>&2); then exit 1; else exit 9; fi", "", 9),
    ("closed-all", ["sh"], "exec <&- >&- 2>&-", "for n in 0 1 2; do if (: 3>&$n); then exit 1; fi; done; exit 9", "", 9),
    ("status", ["sh"], ":", "exit 42", "", 42),
    ("status-of-signal", ["sh"], ":", "kill -USR2 $$", "", 140),
    ("children-ignored", ["perl"], """exec perl -e '$SIG{CHLD} = q(IGNORE); exec @ARGV' "$@" """, "exit 3", "", 3),
    ("signals-ignored", ["sh"], "trap '' HUP INT QUIT TERM USR1 USR2 ALRM", "for s in HUP INT QUIT TERM USR1 USR2 ALRM; do kill -$s $$; done; echo lived; exit 4", "lived\n", 4),
    ("file-size", ["perl"], "ulimit -f 8192", ALLOCATES + 'perl -e "$ALLOCATES"; exit 5', "100000\n", 5),
    ("file-size-none", ["sh"], "ulimit -f 0", "exit 6", "", 6),
    ("address-space", ["ls"], "ulimit -v 100000", "ls / >/dev/null; echo $?", "0\n", 0),
    ("descriptors", ["perl"], "ulimit -n 8", ALLOCATES + 'perl -e "$ALLOCATES"', "100000\n", 0),
    ("stack", ["perl"], "ulimit -s 200", ALLOCATES + 'perl -e "$ALLOCATES"', "100000\n", 0),
    ("rights", ["setpriv", "perl"], ":", ALLOCATES + ONCE + """echo "[$( (setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'perl -e "$ALLOCATES"; id -u; exit 3'; echo $?) 2>&1 | once)]" """, "[100000\n65534\n3]", 0),
    ("rights-without-exec", ["perl"], ":", ALLOCATES + ONCE + r"""echo "[$(perl -e 'if (!fork) { $< = $> = 65534; eval $ENV{ALLOCATES}; if (!fork) { eval $ENV{ALLOCATES}; print "$<\n"; exit 0 } wait; exit 3 } wait; print $? >> 8' 2>&1 | once)]" """, "[100000\n200000\n65534\n3]", 0),
    ("chroot", ["chroot", "ldd"], ":", ROOT + """echo "[$(chroot root "$sh" -c 'ls -d /; ls /nothing; (ls -d / | (while read line; do echo $line; done)); exit 3' 2>&1; echo $?)]" """, "[/\nls: cannot access '/nothing': No such file or directory\n/\n3]", 0),
    ("bwrap", ["bwrap", "ldd"], ":", ROOT + """echo "[$(bwrap --bind root / --proc /proc --dev /dev --unshare-all --die-with-parent "$sh" -c 'ls -d /; (ls -d /); exit 3' 2>&1; echo $?)]" """, "[/\n/\n3]", 0),
    ("unshare", ["unshare"], ":", """echo "[$(unshare --fork --pid --mount --mount-proc sh -c 'echo $$; ls -d /proc/1; (exit 3)' 2>&1; echo $?)]" """, "[1\n/proc/1\n3]", 0),
]


class Setting(Start):
    """A program that is started with some setting, and ends with a status."""

    def __init__(self, name, before, script, text, status):
        super().__init__(name, script, text)
        self.before, self.status = ["sh", "-c", f'{before}; exec "$@"', "sh"], status


def settings(_, quick):
    for name, programs, before, script, text, status in SETTINGS:
        if all(map(shutil.which, programs)):
            yield Setting(f"settings:{name}", before, script, text, status)
