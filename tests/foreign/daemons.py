"""Daemons: programs that fork twice, become leaders of sessions, give up rights, and go on when their starter has ended."""

from __future__ import annotations

from starts import of_list

# `waits` tries a command until it succeeds, for a minute.
WAITS = """
waits() { for n in $(seq 600); do if "$@" >/dev/null 2>&1; then return 0; fi; sleep 0.1; done; echo "in vain: $*"; exit 1; }
ends() { waits sh -c '! kill -0 "$0" 2>/dev/null' "$1"; }
"""

# As in `starts`: a name, the programs that it needs, whether it is one of the quick parts, the script, and the text.
DAEMONS = [
    ("dash-subshells", ["dash"], True, r"""
dash -c '( ( ( true ) ; true ); true ); echo $?; ( ( (exit 4); echo $?; exit 5 ); echo $?; exit 6); echo $?'
dash -c '(sleep 0.2 &) ; ( ( (echo in) & wait ) & wait ); x=$( (echo a; (echo b; (echo c))) | (cat) ); echo $x; (trap "echo left" EXIT; (true))'
""", "0\n4\n5\n6\nin\na b c\nleft\n"),
    ("perl-forks", ["perl"], True, r"""
perl -e '$| = 1; if (!fork) { if (!fork) { if (!fork) { exit 3 } wait; exit(($? >> 8) + 1) } wait; exit(($? >> 8) + 1) } wait; print $? >> 8, "\n"'
perl -e 'for (1 .. 40) { my $p = fork; if (!$p) { fork or exit 0; wait; exit 0 } waitpid $p, 0 } print "all\n"'
""", "5\nall\n"),
    # It closes every descriptor, as daemons of old do.
    ("perl-daemon", ["perl"], True, WAITS + r"""
perl -MPOSIX -e 'exit 0 if fork; setsid; exit 0 if fork; POSIX::close($_) for 0 .. 255; open STDIN, "<", "/dev/null"; open STDOUT, ">", "log"; $| = 1;
$SIG{HUP} = sub { print "again\n" }; $SIG{TERM} = sub { print "ends\n"; exit 0 }; open F, ">", "pid.new"; print F $$; close F; rename "pid.new", "pid"; select undef, undef, undef, 60 while 1'
waits test -s pid; p=$(cat pid); kill -HUP $p; waits grep again log; kill $p; ends $p; cat log
""", "again\nends\n"),
    ("start-stop-daemon", ["start-stop-daemon", "perl"], True, WAITS + r"""
start-stop-daemon --start --background --make-pidfile --pidfile "$PWD/pid" --exec "$(command -v perl)" -- -e '$SIG{TERM} = sub { exit 0 }; sleep 60 while 1'
waits start-stop-daemon --status --pidfile "$PWD/pid"; p=$(cat pid); start-stop-daemon --stop --oknodo --quiet --pidfile "$PWD/pid"; ends $p; echo stopped
""", "stopped\n"),
    ("python-daemon", ["python3"], True, WAITS + r"""
python3 -c '
import os, signal, sys, threading, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
threading.Thread(target=lambda: open("thread", "w").write("thread"), daemon=True).start()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while not os.path.exists("thread"): time.sleep(0.01)
open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")
while True: time.sleep(60)'
waits test -s pid; p=$(cat pid); kill $p; ends $p; cat thread
""", "thread"),
    ("php-forks", ["php"], True, r"""
php -r 'if (!pcntl_fork()) { if (!pcntl_fork()) { exit(3); } pcntl_wait($s); exit(pcntl_wexitstatus($s) + 1); } pcntl_wait($s); echo pcntl_wexitstatus($s), "\n";'
""", "4\n"),
    ("ruby-daemon", ["ruby"], True, WAITS + r"""
ruby -e 'Process.daemon(true); t = Thread.new { sleep }; trap("TERM") { File.write("ended", "ended"); exit! }; File.write("pid.new", $$.to_s); File.rename("pid.new", "pid"); t.join'
waits test -s pid; p=$(cat pid); kill $p; ends $p; cat ended; ruby -e 'p fork { fork { exit!(0) }; Process.wait; exit!(7) }.then { Process.wait2(_1)[1].exitstatus }'
""", "ended7\n"),
    ("memcached", ["memcached", "perl"], True, WAITS + r"""
chmod 777 . && memcached -d -u nobody -l 127.0.0.1 -p $PORT -P "$PWD/pid" -t 4 && waits test -s pid && cat >client <<'END'
use IO::Socket::INET; for (1 .. 100) { last if $s = IO::Socket::INET->new("127.0.0.1:$ENV{PORT}"); select undef, undef, undef, 0.1 }
for (1 .. 500) { print $s "set k$_ 0 0 1000\r\n", "x" x 1000, "\r\n"; $stored += <$s> =~ /^STORED/ }
for (1 .. 500) { print $s "get k$_\r\n"; $_ = <$s>; $got += length(<$s>) - 2; <$s> } print "$stored $got\n";
END
perl client; p=$(cat pid); kill $p; ends $p; echo ended
""", "500 500000\nended\n"),
    # Its master is root's and its workers are not, where root runs it.
    ("nginx", ["nginx", "ab"], True, WAITS + r"""
cat >n.conf <<END
worker_processes 2; pid pid; error_log error.log; events { worker_connections 64; }
http { access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  server { listen 127.0.0.1:$PORT; location / { return 200 "hello"; } } }
END
nginx() { command nginx -e error.log -p "$PWD/" -c n.conf "$@" 2>&1; }; counts() { ab -q -n $1 -c 10 http://127.0.0.1:$PORT/ | awk '/^(Complete|Failed|Non-2xx)/ { print $1, $NF }'; }
nginx; waits test -s pid; counts 3000; nginx -s reload; counts 1000; p=$(cat pid); nginx -s stop; ends $p; echo ended
""", "Complete 3000\nFailed 0\nComplete 1000\nFailed 0\nended\n"),
    ("redis", ["redis-server", "redis-cli"], False, WAITS + r"""
redis-server --daemonize yes --port 0 --unixsocket "$PWD/s" --dir "$PWD" --pidfile "$PWD/pid" --logfile "$PWD/log" >/dev/null; r="redis-cli -s $PWD/s"; waits $r ping
$r set a b; $r bgsave; waits test -s dump.rdb; p=$(cat pid); $r shutdown nosave; ends $p; echo ended
""", "OK\nBackground saving started\nended\n"),
    ("ssh-agent", ["ssh-agent", "ssh-add"], False, WAITS + r"""
eval $(ssh-agent -a "$PWD/s"); ssh-add -l; ssh-agent -k >/dev/null; ends $SSH_AGENT_PID; echo ended
""", "The agent has no identities.\nended\n"),
    ("gpg-agent", ["gpg-agent", "gpg-connect-agent", "gpgconf"], False, WAITS + r"""
mkdir -m 700 home; export GNUPGHOME=$PWD/home; gpg-agent --daemon >/dev/null 2>&1; gpg-connect-agent /bye; gpgconf --kill gpg-agent; waits sh -c '! test -e home/S.gpg-agent'; echo ended
""", "ended\n"),
    ("dbus", ["dbus-daemon", "dbus-send"], False, WAITS + r"""
p=$(dbus-daemon --session --fork --print-pid --nopidfile --address="unix:path=$PWD/s"); DBUS_SESSION_BUS_ADDRESS="unix:path=$PWD/s" dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames | grep -c string
kill $p; ends $p; echo ended
""", "2\nended\n"),
    ("tmux", ["tmux"], False, WAITS + r"""
t="tmux -S $PWD/s -f /dev/null"; $t new-session -d 'echo in >in; sleep 60'; waits test -s in; p=$($t display -p '#{pid}'); $t kill-server; ends $p; cat in
""", "in\n"),
]


def daemons(_, quick):
    return of_list("daemons", DAEMONS, quick)
