"""Programs that are on most machines, each with a script of its own and the text that the script prints."""

from __future__ import annotations

import shutil
import socket

from parts import Part

# A name, the programs that it needs, whether it is one of the quick parts, the script, and the text.
STARTS = [
    # Descriptors that a script opens, and those that it has closed.
    ("sh-descriptors", ["sh"], True, r"""
closed() { for fd; do if (: >&$fd) 2>/dev/null; then echo "$fd is open"; exit 1; fi; done; }
closed 3 4 5 6 7 8 9; exec 3>three 4>four; echo a >&3; exec 3>&- 4>&- 5<three; closed 3 4 6 7 8 9
read line <&5; echo "$line"; exec 5<&-; exec 3<three; read line <&3; echo "again $line"
""", "a\nagain a\n"),
    ("sh-signals", ["sh"], True, r"""
exec 2>/dev/null; trap 'echo usr1' USR1; kill -USR1 $$; sleep 100 & kill $!; wait $!; echo $?
sh -c 'kill -SEGV $$'; echo $?; (trap '' TERM; sh -c 'kill -TERM $$; echo ignored'); sh -c 'trap "echo left" EXIT; exit 7'; echo $?
""", "usr1\n143\n139\nignored\nleft\n7\n"),
    # A program without the recorder's variables, standard descriptors that are closed, and the threads of a program.
    ("sh-exec", ["sh", "env", "cat", "ls", "wc"], True, r"""
env -i "$(command -v sh)" -c 'echo "bare $0 $LD_PRELOAD"' name; (exec cat <&-) 2>/dev/null; echo $?
(exec 2>&-; exec sh -c 'exec 5>five; echo to five >&5'); cat five; sh -c 'exec sh -c "exec sh -c \"echo deep; exit 3\""'; echo $?
echo threads $(ls /proc/self/task | wc -l)
""", "bare name \n1\nto five\ndeep\n3\nthreads 1\n"),
    ("sh-pipes", ["sh", "seq", "sort", "head", "tail"], True, r"""
seq 20000 | sort -rn | head -1; yes | head -3 | tail -1; (ulimit -n 12; seq 3 | cat | tail -1); mkfifo f; (echo through >f) & cat f; wait
""", "20000\ny\n3\nthrough\n"),
    # The job server is a pipe at the first free descriptors.
    ("make-jobs", ["make"], True, r"""
printf 'all: a b c\n\t@echo all\na b c:\n\t@$(MAKE) --no-print-directory -f inner for-$@\n' >Makefile
printf 'for-%%: 1-%% 2-%%\n\t@echo $@ >>made\n1-%%:\n\t@echo $@ >>made; test -n "$(MAKEFLAGS)"\n2-%%:\n\t@+echo $@ >>made\n' >inner
make --no-print-directory -j4 && sort made | tr '\n' ' '
""", "all\n1-a 1-b 1-c 2-a 2-b 2-c for-a for-b for-c "),
    ("git", ["git"], True, r"""
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q one && cd one && for n in 1 2 3; do seq $n 500 >f$n; git add . && git commit -qm "c$n"; done
git -c pack.threads=4 repack -adq && git fsck --strict && cd .. && git clone -q --no-local one two && cd two
printf '#!/bin/sh\necho hook >&2\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
echo x >f1; git commit -qam c4 2>&1; git diff --stat HEAD~1 | tail -1; git log --format=%s | tr '\n' ' '
""", "hook\n 1 file changed, 1 insertion(+), 500 deletions(-)\nc4 c3 c2 c1 "),
    ("sqlite3", ["sqlite3"], True, r"""
sqlite3 a.db 'create table t(x integer primary key, y); with recursive n(i) as (select 1 union all select i+1 from n where i<2000) insert into t select i, hex(i) from n; create index u on t(y);'
sqlite3 a.db 'pragma journal_mode=wal; begin; delete from t where x%2; commit; vacuum; pragma integrity_check; select count(*), sum(x) from t;'
echo '.dump t' | sqlite3 a.db | sqlite3 b.db; sqlite3 b.db '.shell echo shell' 'select max(y) from t'
""", "wal\nok\n1000|1001000\nshell\n393938\n"),
    ("perl", ["perl"], True, r"""
perl -e '$| = 1; pipe(R, W); print fileno(R), "\n"; if (!($p = fork)) { close R; print W "child\n"; exit 5 } close W; print <R>; waitpid $p, 0; print $? >> 8, "\n";
$SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; select undef, undef, undef, 20 }; print $@; exec "sh", "-c", "echo exec"'
""", "3\nchild\n5\nalarm\nexec\n"),
    ("bash", ["bash"], True, r"""
bash -c 'coproc cat; echo to >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo "$line"; exec {free}>x; (( free >= 10 && free < 20 )) && echo low; cat <(echo one) <(echo two); set -m; sleep 50 & kill $!; wait $!; echo $?; ulimit -c 0; echo ${PIPESTATUS[@]}' 2>/dev/null
""", "to\nlow\none\ntwo\n143\n0\n"),
    ("node", ["node"], True, r"""
node -e 'const w=require("worker_threads"); console.log([1,2].map(x=>x*2).join()); new w.Worker("1",{eval:true}).on("exit",c=>console.log("worker",c))'
""", "2,4\nworker 0"),
    ("npm", ["npm"], False, "npm init -y >/dev/null && npm pack --silent", ".tgz"),
    ("java", ["javac", "java"], False, r"""
echo 'class A { public static void main(String[] a) throws Exception { var t = new Thread(() -> System.out.println("thread")); t.start(); t.join(); System.gc(); System.out.println("end"); } }' > A.java
javac A.java && java -cp . A
""", "thread\nend"),
    ("chromium", ["chromium"], False, r"""
echo '<p id=p>x</p><script>p.textContent = 6 * 7</script>' > a.html
chromium --headless --no-sandbox --disable-gpu --user-data-dir=profile --dump-dom "file://$PWD/a.html" 2>/dev/null
""", ">42<"),
    ("chromium-sandbox", ["chromium", "su"], False, r"""
echo '<p id=p>x</p><script>p.textContent = 6 * 7</script>' > a.html && chmod -R a+rwX . && chmod a+x ..
su nobody -s /bin/sh -c 'HOME=$PWD chromium --headless --disable-gpu --user-data-dir=$PWD/profile --dump-dom file://$PWD/a.html 2>/dev/null'
""", ">42<"),
    ("go", ["go"], False, r"""
printf 'package main\nimport "fmt"\nfunc main() { c := make(chan int); go func() { c <- 42 }(); fmt.Println(<-c) }\n' > a.go
GOCACHE=$PWD/cache go run a.go
""", "42"),
    ("static", ["cc"], True, r"""
printf 'int puts(const char*); int main(void) { puts("static"); return 0; }' > a.c && cc -static -o a a.c && ./a
""", "static"),
    # A library that was there before the recorder: a fork waits for its lock, and its other thread allocates under the lock.
    ("fork-handlers", ["cc"], True, r"""
cat >lib.c <<'END'
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void before(void) { pthread_mutex_lock(&lock); free(malloc(100)); }
static void after(void) { free(malloc(100)); pthread_mutex_unlock(&lock); }
static void *worker(void *unused) { for (;;) { pthread_mutex_lock(&lock); free(malloc(1000)); pthread_mutex_unlock(&lock); } }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before, after, after); }
void work(void) { pthread_t t; pthread_create(&t, 0, worker, 0); }
END
cat >a.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void work(void);
int main(void) {
  work();
  for (int i = 0; i < 200; i++) {
    int status, child = fork();
    if (!child) _exit(malloc(10) ? 7 : 1);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) return 1;
  }
  puts("forked");
}
END
cc -pthread -shared -fPIC -o liblib.so lib.c && cc -o a a.c -L. -llib -Wl,-rpath,"$PWD" && ./a
""", "forked\n"),
    ("perl-threads", ["perl"], True, r"""
perl -Mthreads -MPOSIX -e '@t = map { my $n = $_; threads->create(sub { my $p = fork; if (!$p) { POSIX::_exit($n) } waitpid $p, 0; $? >> 8 }) } 1 .. 8; $sum += $_->join for @t; print "$sum\n"'
""", "36\n"),
    ("asan", ["cc"], True, r"""
printf 'int puts(const char*); int main(void) { puts("asan"); return 0; }' > a.c && cc -fsanitize=address -o a a.c && ./a
""", "asan"),
]


class Start(Part):
    """A program that starts and prints a text."""

    seconds = 60
    status = 0

    def __init__(self, name, script, text):
        super().__init__(name)
        self.script, self.text = script, text

    def command(self, folder):
        return ["sh", "-c", self.script], {"PORT": str(free_port())}, None

    def results(self, status, text, folder):
        if status != self.status:
            return {self.name: f"status {status}"}
        return {self.name: "passed" if self.text in text else f"printed {text[:200]!r}"}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def of_list(suite, rows, quick):
    """Yields the parts whose programs are here."""
    for name, programs, is_quick, script, text in rows:
        if all(map(shutil.which, programs)) and (is_quick or not quick):
            yield Start(f"{suite}:{name}", script, text)


def starts(_, quick):
    return of_list("starts", STARTS, quick)
