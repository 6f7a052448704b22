"""A target of `memreel attach` that attacks it: `hostile.py KIND VICTIM`. It runs until it is killed."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time

kind, victim = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def folders():
    """The folders of `memreel attach` in the folder for temporary files, which is this process's own."""
    return [os.path.join("/tmp", name) for name in os.listdir("/tmp") if name.startswith("memreel-attach-")]


def exchange():
    """Puts a folder with links to the victim in the place of each new folder."""
    os.mkdir("/tmp/decoys")
    for n_exchanged in range(1 << 30):
        decoy = f"/tmp/decoys/{n_exchanged}".encode()
        os.mkdir(decoy, 0o700)
        for name in (b"script.py", b"socket"):
            os.symlink(victim, os.path.join(decoy, name))
        # Quick: two names, of which one is known.
        while len(names := os.listdir(b"/tmp")) == 1:
            pass
        new = b"/tmp/" + next(name for name in names if name != b"decoys")
        libc.renameat2(AT_FDCWD, new, AT_FDCWD, decoy, RENAME_EXCHANGE)
        # `memreel attach` removes it, or cannot.
        deadline = time.monotonic() + 0.1
        while os.path.exists(new) and time.monotonic() < deadline:
            time.sleep(0.001)
        with contextlib.suppress(OSError):
            os.rename(new, decoy + b"-left")


def connected():
    """Connects, as the script would."""
    while True:
        for folder in folders():
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(os.path.join(folder, "socket"))
            except OSError:
                continue
            return channel


def say(channel, **what):
    channel.sendall(json.dumps(what).encode() + b"\n")


def send_without_end():
    channel = connected()
    say(channel, history="ours", torch="2.11.0", devices=[])
    channel.recv(1)
    say(channel, n_events=1, history="off", devices=[])
    while True:
        channel.sendall(bytes(1 << 20))


def be_silent():
    channel = connected()
    while True:
        channel.sendall(b" ")
        time.sleep(0.01)


def send_a_child():
    if os.fork() == 0:
        channel = connected()
        say(channel, history="ours", torch="of another process", devices=[])
        heard = b""
        # The end, as soon as `memreel attach` has seen who came.
        with contextlib.suppress(ConnectionResetError):
            heard = channel.recv(1)
        with open(victim, "w") as file:
            file.write(f"heard {heard}")
        os._exit(0)
    os.wait()
    time.sleep(1000)


def change(number, frame):
    if number == signal.SIGUSR1:
        os.execv("/bin/sleep", ["python3", "1000"])
    os.setresuid(1234, 1234, 1234)
    # It still ends with its parent, which another user is a reason for the system to forget.
    libc.prctl(1, signal.SIGKILL)


signal.signal(signal.SIGUSR1, change)
signal.signal(signal.SIGUSR2, change)
print("ready", flush=True)
if kind == "exchange":
    exchange()
elif kind == "endless":
    send_without_end()
elif kind == "silent":
    be_silent()
elif kind == "child":
    send_a_child()
while True:
    time.sleep(1)
