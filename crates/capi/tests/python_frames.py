"""Allocates at the ends of random call chains, and writes down the frames that the interpreter shows there.

    python python_frames.py LIBRARY SNAPSHOT N [kill]

compares the frames of N allocations in the snapshot with the interpreter's. With `kill` the process kills itself,
and prints the interpreter's frames before it does.
"""

import ctypes
import json
import os
import pickle
import random
import signal
import sys
import threading

library, snapshot, n, kill = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["kill"]
# Not PyDLL: the lock is released before each call.
lib = ctypes.CDLL(library)
lib.memreel_malloc.restype = ctypes.c_void_p
lib.memreel_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
lib.memreel_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
lib.memreel_error.restype = ctypes.c_char_p

DEEPEST = 128
BASE = 10_000
expected = {}
numbers = iter(range(10**9))
lock = threading.Lock()


def frames(frame):
    all = []
    while frame and len(all) < DEEPEST:
        all.append([frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0])
        frame = frame.f_back
    return all


def here():
    with lock:
        size = BASE + next(numbers)
    # On one line, so that both see the same line.
    seen, block = frames(sys._getframe()), lib.memreel_malloc(size, 0, None)
    lib.memreel_free(block, size, 0, None)
    expected[size] = seen


def generator(d):
    yield 0
    yield chain(
        d - 1
    )


async def coroutine(d):
    return await inner_coroutine(d)


async def inner_coroutine(d):
    return chain(d - 1)


def decorator(f):
    def wrapper(*a, **k):
        return f(*a, **k)
    return wrapper


@decorator
@decorator
def decorated(d, other=1):
    chain(d - 1)


class Mapping(dict):
    def __missing__(self, d):
        chain(d - 1)
        return 0

    @property
    def größe(self):
        chain(self["d"])
        return 1


def executed(d):
    # Tables of the same length at addresses that are used again.
    before, between = random.randrange(5), random.randrange(5)
    text = "\n" * before + "x = 1\n" + "\n" * between + "chain(d)\n" + "\n" * (10 - before - between) + "y = 2\n"
    name = random.choice(["<string>", "файл.py", "数.py", "🦀.py"])
    exec(compile(text, name, "exec"), {"chain": chain, "d": d - 1})


def raising(d):
    try:
        try:
            raise ValueError
        finally:
            chain(d - 1)
    except ValueError:
        pass


def chain(d):
    if d <= 0:
        return here()
    kind = random.randrange(12)
    if kind == 0:
        for _ in generator(d):
            pass
    elif kind == 1:
        try:
            coroutine(d).send(None)
        except StopIteration:
            pass
    elif kind == 2:
        decorated(d, other=2)
    elif kind == 3:
        sorted([d], key=lambda x: chain(x - 1) or 0)
    elif kind == 4:
        executed(d)
    elif kind == 5:
        list(map(lambda x: chain(x - 1), [d]))
    elif kind == 6:
        Mapping()[d]
    elif kind == 7:
        Mapping(d=d - 1).größe
    elif kind == 8:
        [chain(x) for x in (
            d - 1,
        )]
    elif kind == 9:
        raising(d)
    elif kind == 10:
        eval("chain(d)", {"chain": chain, "d": d - 1})
    else:
        class Body:
            chain(d - 1)


def deep(d):
    here() if d == 0 else deep(d - 1)


def many(n, seed):
    for _ in range(n):
        chain(random.randrange(1, 20))


if not kill:
    checker = ctypes.PyDLL(library)
    assert checker.memreel_check_python() == 0, lib.memreel_error()
    assert lib.memreel_check_python() == -1 and b"lock" in lib.memreel_error(), lib.memreel_error()
    options = {"stacks": "python", "context": "alloc", "max_entries": 1_000_000}
    assert lib.memreel_record(json.dumps(options).encode()) == 0, lib.memreel_error()
else:
    # A call without the lock that finds the interpreter has no Python frames: they begin when Python code runs next.
    lib.memreel_free(lib.memreel_malloc(BASE - 1, 0, None), BASE - 1, 0, None)
random.seed(17)
many(n // 2, 0)
deep(50), deep(DEEPEST - 3), deep(300)
threads = [threading.Thread(target=many, args=(n // 16, seed)) for seed in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if kill:
    print(json.dumps(list(expected.items())), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
assert lib.memreel_dump(snapshot.encode()) == 0, lib.memreel_error()
with open(snapshot, "rb") as file:
    trace = pickle.load(file)["device_traces"][0]
seen = {}
for entry in trace:
    if entry["action"] == "alloc" and entry["size"] >= BASE:
        seen[entry["size"]] = [[f["name"], f["filename"], f["line"]] for f in entry["frames"]]
assert seen.keys() == expected.keys(), (len(seen), len(expected))
for size, want in expected.items():
    if seen[size] != want:
        for got, wanted in zip(seen[size] + [None] * 200, want):
            print(got, wanted, "" if got == wanted else "<--")
        sys.exit(f"the frames of {size} differ")
kinds = len({name for all in expected.values() for name, _, _ in all})
print(f"CPython {sys.version.split()[0]}: {len(seen)} stacks of {kinds} functions are equal")
