"""install(): memreel's library serves a PyTorch and a CuPy that are stubs, with memory of the host."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memreel._libraries import folder

TESTS = Path(__file__).parent
PRELUDE = """
import ctypes, sys, types, warnings
sys.path.insert(0, {tests!r})
from stub_torch import StubTorch
torch = StubTorch()
import memreel
"""

pytestmark = pytest.mark.skipif(
    folder() is None or not (folder() / "libmemreel.so").is_file(), reason="libmemreel.so is not installed"
)


def run(program: str, **variables: str) -> list[str]:
    """Runs a program in a process of its own, and returns the lines that it printed."""
    text = PRELUDE.format(tests=str(TESTS)) + textwrap.dedent(program)
    known = {key: value for key, value in os.environ.items() if key != "MEMREEL"}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**known, "MEMREEL_DEVICE": "host", **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", ["libmemreel.so", "libmemreel_preload.so"])
def test_exceptions_of_cpp_can_pass_through_the_libraries(name):
    # They need the process's own unwinder; a linker may put another one into the library.
    assert b"libgcc_s.so.1" in (folder() / name).read_bytes()


def test_pytorchs_functions_have_memreels_figures():
    assert run("""
        user = types.ModuleType("user")
        user.stats, user.Pool = torch._C._cuda_memoryStats, torch.cuda.MemPool
        sys.modules["user"] = user
        memreel.install()
        memreel.install()
        assert user.stats is not None and user.Pool is torch.cuda.MemPool is torch.cuda.memory.MemPool
        block = torch.alloc(5000)
        stats = user.stats(0)
        print(stats["allocated_bytes"]["all"]["current"], stats["requested_bytes"]["small_pool"]["peak"], stats["num_ooms"])
        torch.free(block)
        stats = torch._C._cuda_memoryStats(0)
        print(stats["allocated_bytes"]["all"])
        torch._C._cuda_resetPeakMemoryStats(0)
        torch._C._cuda_resetAccumulatedMemoryStats(0)
        print(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"])
        print(torch._C._cuda_getMemoryFraction(0))
        torch.hook("set_memory_fraction_fn", ctypes.c_double(0.25), ctypes.c_int(0))
        print(torch._C._cuda_getMemoryFraction(0))
        try:
            torch._C._cuda_memoryStats(7)
        except RuntimeError as error:
            print(error)
    """) == [
        "5120 5000 0",
        "{'allocated': 5120, 'current': 0, 'freed': 5120, 'peak': 5120}",
        "{'allocated': 0, 'current': 0, 'freed': 0, 'peak': 0}",
        "1.0",
        "0.25",
        "there is no device 7: this reel has 1",
    ]


def test_pytorchs_history_is_memreels():
    assert run("""
        memreel.install()
        c = torch._C
        print(c._cuda_isHistoryEnabled())
        c._cuda_record_memory_history("all", "all", "python", sys.maxsize, False, False, False, ["free_requested"])
        print(c._cuda_isHistoryEnabled(), memreel.start())
        block = torch.alloc(1000)
        c._cuda_setMemoryMetadata("mine")
        with memreel.scope("step"):
            print(c._cuda_getMemoryMetadata())
            kept = torch.alloc(2000)
            c._cuda_setMemoryMetadata("other")
        torch.alloc(3000)
        c._cuda_setMemoryMetadata("")
        torch.free(block)
        snapshot = torch.cuda.memory._snapshot()
        for entry in snapshot["device_traces"][0]:
            print(entry["action"], entry["size"], entry["user_metadata"])
        print([key for key in snapshot["allocator_settings"] if key.startswith("memreel")])
        print([frame["name"] for frame in snapshot["device_traces"][0][1]["frames"]][:3])
        print(torch._C._cuda_memorySnapshot((0, 0, False))["device_traces"])
        memreel.stop()
        print(c._cuda_isHistoryEnabled())
        c._cuda_record_memory_history(None)
        print(c._cuda_isHistoryEnabled())
        c._cuda_record_memory_history_legacy(True, True, 100, True, False)
        torch.alloc(4000)
        print(len(torch.cuda.memory._snapshot()["device_traces"][0]))
        try:
            c._cuda_record_memory_history("sometimes")
        except RuntimeError as error:
            print("refused:", "sometimes" in str(error))
    """) == [
        "False",
        "True None",
        "mine",
        "segment_alloc 2097152 ",
        "alloc 1000 ",
        "alloc 2000 step/mine",
        "alloc 3000 other",
        "free_completed 1000 ",
        "[]",
        "['alloc', '<module>']",
        "[[]]",
        "True",
        "False",
        "1",
        "refused: True",
    ]


def test_recordings_are_memreels(tmp_path):
    lines = run(f"""
        memreel.install()
        with memreel.record({str(tmp_path / "run.pickle")!r}, max_entries=4):
            with memreel.scope("step"):
                for _ in range(3):
                    torch.free(torch.alloc(1 << 20))
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    memreel.dump({str(tmp_path / "part.pickle")!r})
                print(warned[0].message)
        print(torch._C._cuda_isHistoryEnabled())
        try:
            memreel.dump({str(tmp_path / "none.pickle")!r})
        except memreel.RecordingError as error:
            print(error)
        part = memreel.load({str(tmp_path / "part.pickle")!r})
        print([row["action"] for row in part.events], {{row["scope"] for row in part.events}})
        torch.hook("set_memory_fraction_fn", ctypes.c_double(0.0), ctypes.c_int(0))
        seen = []
        memreel.start()
        torch._C._cuda_attach_out_of_memory_observer(lambda *what: seen.append(what))
        print(torch.alloc(64 << 20), seen[0][:2], len(seen[0]))
        memreel.dump({str(tmp_path / "oom.pickle")!r})
        print(repr(memreel.load({str(tmp_path / "oom.pickle")!r}).oom()).splitlines()[0])
        print(len(list(__import__("pathlib").Path({str(tmp_path)!r}).iterdir())))
    """)
    assert lines[0].startswith("the history is incomplete: ")
    assert lines[1:4] == [
        "False",
        "nothing is recorded: call memreel.start() first",
        "['alloc', 'free_requested', 'free_completed', 'free_completed'] {'record/step'}",
    ] or (lines[1:3] == ["False", "nothing is recorded: call memreel.start() first"] and "record/step" in lines[3])
    assert lines[4] == "None (0, 67108864) 4"
    assert "64" in lines[5]
    assert lines[6] == "3"


def test_a_measured_part_that_erases_the_history_is_not_measured():
    assert run("""
        from memreel.pytest_plugin.window import Window
        memreel.install()
        kept = torch.alloc(1000)
        for erases in (False, True):
            window = Window("none")
            window.begin()
            torch.alloc(2000)
            if erases:
                torch._C._cuda_record_memory_history(clear_history=True)
            torch.alloc(3000)
            measured = window.end(None)
            print(measured.gpu_peak_bytes, "lacks allocations of the test" in measured.why_no_gpu)
    """) == ["5000 False", "3000 True"]


def test_a_pool_of_memory_is_memreels():
    assert run("""
        memreel.install()
        pool = torch.cuda.MemPool(no_split=True)
        print(pool.id, pool.use_count(), pool.device, pool.allocator, type(pool).__module__, type(pool).__name__)
        first, second = (ctypes.c_uint64(part) for part in pool.id)
        torch.hook("set_begin_allocate_to_pool", ctypes.c_int(0), first, second, ctypes.c_void_p())
        print(pool.use_count())
        inside = torch.alloc(1000)
        torch.hook("set_end_allocate_to_pool_fn", ctypes.c_int(0), first, second)
        torch.hook("set_release_pool", ctypes.c_int(0), first, second)
        outside = torch.alloc(1000)
        print(pool.use_count(), [one["segment_pool_id"] for one in pool.snapshot()])
        print(len(torch.cuda.memory_snapshot()))
        torch.free(inside)
        del pool
        print(len(torch.cuda.memory_snapshot()))
        try:
            torch.cuda.MemPool(object())
        except memreel.UsageError as error:
            print("memreel record" in str(error))
    """) == ["(0, 1) 1 0 None torch.cuda.memory MemPool", "2", "1 [(0, 1)]", "2", "1", "True"]


def test_what_pytorch_refuses_names_the_other_way():
    assert run("""
        memreel.install()
        for name in ("_cuda_getCheckpointState", "_cuda_checkPoolLiveAllocations"):
            try:
                getattr(torch._C, name)(0, (0, 1))
            except memreel.RecordingError as error:
                print('mode="reduce-overhead"' in str(error), "memreel record -- python" in str(error))
    """) == ["True True", "True True"]


@pytest.mark.parametrize(
    "change",
    ["torch.cuda.is_initialized = lambda: True", "torch.current = object()"],
)
def test_too_late_says_where_to_put_it(change):
    (line,) = run(f"""
        {change}
        try:
            memreel.install()
        except memreel.RecordingError as error:
            print(error)
    """)
    assert "is too late" in line and "directly after `import torch`" in line


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("del torch._C._cuda_customAllocator", "this PyTorch is built without CUDA"),
        ("torch.cuda.device_count = lambda: 0", "PyTorch finds no GPU"),
        ("del sys.modules['torch']", "neither PyTorch nor CuPy is imported; call memreel.install() after importing them"),
    ],
)
def test_without_a_gpu_the_program_goes_on(change, why):
    lines = run(f"""
        {change}
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as warned:
            memreel.install()
        print(warned[0].message, warned[0].category.__name__)
        with warnings.catch_warnings(record=True) as warned, memreel.scope("step"):
            memreel.start()
        print(len(warned))
    """)
    assert lines[0] == f"memreel.install() does nothing: {why} MemreelWarning"


CUPY = """
del sys.modules["torch"]
cuda = types.SimpleNamespace(is_available=lambda: True, get_current_stream=lambda: types.SimpleNamespace(ptr=stream))
stream = 0
class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"{size} of {total}")
cuda.memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
class PythonFunctionAllocator:
    def __init__(self, malloc, free):
        self.allocate, self.release = malloc, free
        self.malloc = self
cuda.PythonFunctionAllocator = PythonFunctionAllocator
cuda.set_allocator = lambda allocator: setattr(cuda, "allocator", allocator)
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
cupy.cuda = cuda
"""


def test_cupys_blocks_belong_to_the_current_stream(tmp_path):
    path = str(tmp_path / "cupy.pickle")
    assert run(CUPY.replace("\n", "\n        ") + f"""
        memreel.install()
        memreel.start()
        one = cuda.allocator.allocate(1000, 0)
        stream = 7
        two = cuda.allocator.allocate(1000, 0)
        cuda.allocator.release(one, 0)
        cuda.allocator.release(two, 0)
        print(cuda.allocator.allocate(0, 0))
        memreel.dump({path!r})
        print([(row["action"], row["stream"]) for row in memreel.load({path!r}).events if row["action"] == "alloc"])
        from memreel.serving.library import library
        library().raw("memreel_set_memory_fraction").argtypes = [ctypes.c_double, ctypes.c_int]
        library().raw("memreel_set_memory_fraction")(0.0, 0)
        try:
            cuda.allocator.allocate(64 << 20, 0)
        except MemoryError as error:
            print(error, type(error.__cause__).__name__, "out of memory" in str(error.__cause__))
    """) == [
        "0",
        "[('alloc', 0), ('alloc', 7)]",
        "67108864 of 0 RecordingError True",
    ]
