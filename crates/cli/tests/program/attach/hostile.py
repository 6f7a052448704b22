"""A target of `memreel attach` that attacks it: `hostile.py KIND VICTIM`. It runs until it is killed."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import time

kind, victim = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2


def folders():
    """The folders of `memreel attach` in the folder for temporary files, which is this process's own."""
    return [os.path.join("/tmp", name) for name in os.listdir("/tmp") if name.startswith("memreel-attach-")]


def new_folder():
    """Waits for a folder, without losing time: two names, of which one is known."""
    while len(names := os.listdir(b"/tmp")) == 1:
        pass
    return b"/tmp/" + next(name for name in names if name != b"decoys")


def wait_until_gone(new, pause):
    """`memreel attach` removes it, or cannot."""
    deadline = time.monotonic() + pause
    while os.path.lexists(new) and time.monotonic() < deadline:
        time.sleep(pause / 100)


def links_to_victim(decoy):
    os.mkdir(decoy, 0o700)
    for name in (b"script.py", b"socket"):
        os.symlink(victim, os.path.join(decoy, name))


def link_to_folder(decoy):
    os.symlink(os.path.join(os.path.dirname(victim), "private"), decoy)


def exchange(pause, make):
    """Puts something else in the place of each new folder, and leaves it there for some time."""
    os.mkdir("/tmp/decoys")
    for n_exchanged in range(1 << 30):
        decoy = f"/tmp/decoys/{n_exchanged}".encode()
        make(decoy)
        new = new_folder()
        libc.renameat2(AT_FDCWD, new, AT_FDCWD, decoy, RENAME_EXCHANGE)
        wait_until_gone(new, pause)
        with contextlib.suppress(OSError):
            os.rename(new, decoy + b"-left")


def plant(pause):
    """Puts links to the victim into each new folder: before its files are made, or in their place."""
    os.makedirs("/tmp/decoys/first")
    for n_planted in range(1 << 30):
        links = {name: f"/tmp/decoys/{n_planted}-{name}-left".encode() for name in ("script.py", "socket")}
        for link in links.values():
            os.symlink(victim, link)
        new = new_folder()
        n_done = 0
        for name, link in links.items():
            at = new + b"/" + name.encode()
            # A name that nothing has, or else one that something has.
            done = [libc.renameat2(AT_FDCWD, link, AT_FDCWD, at, flag) == 0 for flag in (RENAME_NOREPLACE, RENAME_EXCHANGE)]
            n_done += any(done)
        if n_done:
            os.mkdir(f"/tmp/decoys/{n_planted}")
        wait_until_gone(new, pause)
        shutil.rmtree(new, ignore_errors=True)


def exchange_tmp():
    """Exchanges the folder for temporary files for a link that leads outside, again and again."""
    while True:
        libc.renameat2(AT_FDCWD, b"/tmp", AT_FDCWD, b"/link", RENAME_EXCHANGE)


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
    exchange(0.1, links_to_victim)
elif kind == "exchange quickly":
    exchange(0.003, links_to_victim)
elif kind == "exchange for a link":
    exchange(0.003, link_to_folder)
elif kind == "plant":
    plant(0.003)
elif kind == "exchange tmp":
    exchange_tmp()
elif kind == "endless":
    send_without_end()
elif kind == "silent":
    be_silent()
elif kind == "child":
    send_a_child()
while True:
    time.sleep(1)
