"""A program that `memreel attach` attaches to: `program.py KIND FOLDER`. It goes on until there is a file FOLDER/stop."""

import contextlib
import os
import queue
import signal
import sys
import threading
import time

kind, folder = sys.argv[1:]
names = sorted(vars(sys))
if kind != "plain":
    import torch
# These begin with five blocks, of 512 KiB each.
if kind not in ("plain", "late"):
    torch.cuda._lazy_init()
    kept = [torch.alloc(512 << 10) for _ in range(5)]
if kind == "recording":
    torch.cuda.memory._record_memory_history(max_entries=99)


def is_over():
    return os.path.exists(os.path.join(folder, "stop"))


def step():
    address = torch.alloc(1 << 20)
    for _ in range(1000):
        pass
    torch.free(address)


def until_the_end():
    while not is_over():
        time.sleep(0.01)


class Over(Exception):
    """The end of a wait."""


signals = []


def end(*_):
    signals.append(1)
    if len(signals) == 2:
        raise Over


def interrupt():
    """Ends the wait of the main thread. A script that waits for the interpreter is run at the first signal."""
    until_the_end()
    for n_signals in (1, 2):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        while len(signals) < n_signals:
            time.sleep(0.01)
        time.sleep(0.2)


def import_slowly():
    """Imports a module of Python's that the script needs too, in two seconds."""
    import importlib.machinery as machinery

    class Slow(machinery.SourceFileLoader):
        def exec_module(self, module):
            print("ready", flush=True)
            for _ in range(200):
                time.sleep(0.01)
            super().exec_module(module)

    origin = machinery.PathFinder.find_spec("json").origin
    loader = Slow("json", origin)
    spec = machinery.ModuleSpec("json", loader, origin=origin, is_package=True)
    spec.submodule_search_locations.append(os.path.dirname(origin))

    class Finder:
        @staticmethod
        def find_spec(name, path, target=None):
            return spec if name == "json" else None

    sys.meta_path.insert(0, Finder)
    assert "json" not in sys.modules
    import json  # noqa: F401


def receive():
    import socket

    ends = socket.socketpair()
    ends[0].recv(1)


def poll():
    import multiprocessing

    ends = multiprocessing.Pipe()
    ends[0].poll(None)


WAITS = {
    "asleep": lambda: time.sleep(1000),
    "queued": lambda: queue.SimpleQueue().get(),
    "receiving": receive,
    "polling": poll,
}
if kind == "importing":
    import_slowly()
else:
    print("ready", flush=True)
if kind == "locked":
    thread = threading.Thread(target=until_the_end)
    thread.start()
    thread.join()
elif kind in WAITS:
    # Nothing but the signal ends the wait.
    signal.signal(signal.SIGUSR1, end)
    threading.Thread(target=interrupt).start()
    with contextlib.suppress(Over):
        WAITS[kind]()
elif kind == "held":
    # One call of C that has the interpreter's lock all the time.
    while not is_over():
        sum(range(300_000_000))
elif kind == "late":
    while not os.path.exists(os.path.join(folder, "begin")):
        time.sleep(0.01)
    torch.cuda._lazy_init()
    while not is_over():
        step()
elif kind == "plain":
    until_the_end()
else:
    while not is_over():
        step()
        if kind == "forks" and os.fork() == 0:
            sys.exit(0)
        while kind == "forks":
            try:
                if os.waitpid(-1, 0) is not None:
                    break
            except ChildProcessError:
                break
print("new in sys:", sorted(set(vars(sys)) - set(names)))
print("main:", [name for name in globals() if "memreel" in name or name in ("attach", "Attached")])
if kind != "plain":
    print("history:", torch.state["is_on"], "_inductor" in vars(torch))
