"""Marks: tests that pass, fail and leak, and limits that cannot be checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import memreel as memreel_of_package
from memreel._libraries import folder

ALL = {"passed": 4, "failed": 3}


def test_the_sample_suite_passes_fails_and_leaks(sample):
    result = sample.run()
    result.assert_outcomes(**ALL)
    assert "GPU 0 had 24.00 MiB of the test's memory at the peak, 4.00 MiB above the limit of 20 MiB" in sample.text
    assert "GPU 0 has 8.00 MiB of the test's memory left at its end, 8.00 MiB above the limit of 0 B" in sample.text
    assert "GPU 0 has 1.00 MiB of the test's memory left" in sample.text
    # The stacks of both failures' blocks.
    result.stdout.re_match_lines([r".*100.0 %   24.00 MiB      2  block \(test_gpu_memory.py:15\)", r".*← attention \("])
    assert not list(sample.path.glob(".memreel*"))


def test_a_test_that_fails_or_skips_or_is_expected_to_fail_stays_what_it_is(suite):
    suite.write("""
kept = []
limit = pytest.mark.limit_gpu_leaks("0 B")

@limit
def test_fails():
    kept.append(torch.empty(100))
    assert "its own" == "failure"

@limit
def test_skips():
    kept.append(torch.empty(100))
    pytest.skip("for a reason")

@limit
@pytest.mark.xfail
def test_is_expected_to_leak():
    kept.append(torch.empty(100))

@limit
@pytest.mark.xfail(strict=True)
def test_does_not_leak():
    torch.empty(100)
""")
    suite.run().assert_outcomes(failed=2, skipped=1, xfailed=1)
    assert "its own" in suite.text and "limit_gpu_leaks" not in suite.text
    assert "XPASS(strict)" in suite.text


def test_classes_parameters_fixtures_and_unittest(suite):
    suite.write("""
import unittest

@pytest.mark.limit_gpu_memory("1 KiB")
class TestClass:
    @pytest.mark.parametrize("n", [1024, 1025])
    def test_method(self, n):
        torch.empty(n)

    @pytest.mark.limit_gpu_memory("2 KiB")
    def test_own_limit(self, big):
        torch.empty(2048)

class Case(unittest.TestCase):
    @pytest.mark.limit_gpu_memory(1000)
    def test_too_much(self):
        torch.empty(1001)

    @pytest.mark.limit_gpu_memory(1000)
    def test_its_own_failure(self):
        block = torch.empty(1001)
        self.assertEqual(1, 2)

@pytest.fixture
def big():
    block = torch.empty(10**9)
    yield
    assert block.n
    torch.empty(10**9)
""")
    suite.run().assert_outcomes(passed=2, failed=3)
    assert "test_method[1025]" in suite.text and "1 B above the limit of 1 KiB" in suite.text
    assert "1001 B of the test's memory" in suite.text and "1 B above the limit of 1000 B" in suite.text
    assert "AssertionError: 1 != 2" in suite.text


def test_coroutines_are_warmed_up_too(suite):
    suite.write("""
calls, kept = [], []

@pytest.mark.limit_gpu_leaks("0 B", warmups=3)
async def test_coroutine():
    calls.append(1)
    if len(calls) == 1:
        kept.append(torch.empty(8))

def test_calls():
    assert len(calls) == 4
""")
    with (suite.path / "conftest.py").open("a") as file:
        file.write("""
import asyncio, inspect, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    # As plugins do it: another function in place of the test's, which cannot be replaced twice.
    function = pyfuncitem.obj
    if inspect.iscoroutinefunction(function):
        pyfuncitem.obj = lambda **given: asyncio.run(function(**given))
        pyfuncitem.obj()
        return True
    assert "lambda" not in function.__qualname__
""")
    suite.run().assert_outcomes(passed=2)


def test_a_warmup_that_fails_is_the_test_s_failure(suite):
    suite.write("""
@pytest.mark.limit_gpu_leaks("0 B", warmups=1)
def test_it():
    assert 1 == 2
""")
    suite.run().assert_outcomes(failed=1)
    assert "assert 1 == 2" in suite.text


def test_cycles_are_collected_before_leaks_are_counted(suite):
    suite.write("""
@pytest.mark.limit_gpu_leaks("0 B")
def test_cycle():
    node = [torch.empty(100)]
    node.append(node)
""")
    suite.run().assert_outcomes(passed=1)


def test_frees_that_the_gpu_completes_late_do_not_count(suite):
    suite.write("""
@pytest.mark.limit_gpu_memory("10 B")
def test_late():
    torch.alloc(1, 10)
    torch.event("free_requested", 1, 10)
    torch.alloc(2, 10)
    torch.event("free_completed", 1, 10)
    torch.free(2, 10)
""")
    suite.run().assert_outcomes(passed=1)


def test_the_first_use_of_cuda_may_be_in_the_test(suite):
    suite.write("""
@pytest.mark.limit_gpu_memory("10 B")
def test_nothing():
    assert not torch.is_initialized

@pytest.mark.limit_gpu_memory("10 B")
def test_first():
    assert not torch.is_initialized
    torch.empty(11)
    assert torch.is_initialized
""")
    suite.run().assert_outcomes(passed=1, failed=1)
    assert "not checked" not in suite.text


def test_a_history_of_the_program_is_used_and_stays(suite):
    suite.write("""
@pytest.fixture(scope="module")
def history():
    torch.use()
    torch.switch("all")
    return [torch.empty(10**6)]

@pytest.mark.limit_gpu_memory("10 B")
def test_within(history):
    history.clear()
    torch.empty(10)

@pytest.mark.limit_gpu_memory("10 B")
def test_above(history):
    torch.empty(11)

def test_it_is_on(history):
    assert torch.is_on and len(torch.switched) == 1
""")
    suite.run().assert_outcomes(passed=2, failed=1)


def test_a_ring_of_the_program_that_lost_events_of_the_test_is_said(suite):
    suite.write("""
@pytest.fixture(scope="module", autouse=True)
def history():
    torch.use()
    torch.switch("all", max_entries=4)

@pytest.mark.limit_gpu_memory("1 MB")
def test_fits():
    torch.empty(10)

@pytest.mark.limit_gpu_memory("1 MB")
def test_is_too_long():
    torch.empty(10)
    torch.empty(10)
""")
    suite.run().assert_outcomes(passed=2, warnings=1)
    assert "1 limit was not checked (test_it.py::test_is_too_long): the history of GPU 0 lacks allocations of the test: " in suite.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""), ("", "torch.empty(5)"), ("", "torch.event('segment_map', 1, 2); torch.event('segment_map', 3, 4)"),
        ("block = torch.empty(7)", "torch.empty(5)"), ("torch.reset_accumulated()", ""),
    ],
)
def test_a_history_that_the_test_restarts_is_said(suite, before, after):
    suite.write(f"""
@pytest.mark.limit_gpu_memory("10 B")
@pytest.mark.limit_gpu_leaks("0 B")
def test_restarts():
    torch.use()
    {before or "pass"}
    torch.kept = torch.empty(100)
    torch.cuda.memory._record_memory_history("all")
    {after or "pass"}

@pytest.mark.limit_gpu_memory("10 B")
def test_restarts_before_its_allocations():
    torch.cuda.memory._record_memory_history("all")
    torch.empty(10)
    torch.reset_accumulated()

@pytest.mark.limit_gpu_memory("10 B")
def test_above():
    torch.empty(11)
""")
    suite.run().assert_outcomes(passed=2, failed=1, warnings=2)
    assert "2 limits were not checked (test_it.py::test_restarts): the history of GPU 0 lacks allocations" in suite.text
    assert "the test restarted it (torch.cuda.memory._record_memory_history)" in suite.text
    assert "11 B of the test's memory at the peak" in suite.text


def test_a_history_that_the_test_restarts_under_memreel_record_is_said(suite):
    with (suite.path / "conftest.py").open("a") as file:
        # What the hook of `memreel record` keeps.
        file.write("""
import types
hook = sys.modules["_memreel_torch"] = types.ModuleType("_memreel_torch")
hook.state = types.SimpleNamespace(by_program=False, since_us=1)
""")
    suite.write("""
@pytest.mark.limit_gpu_memory("10 B")
def test_restarts():
    sys.modules["_memreel_torch"].state.__dict__.update(by_program=True, since_us=2)
    torch.empty(5)

@pytest.mark.limit_gpu_memory("10 B")
def test_does_not():
    torch.empty(5)
""")
    suite.run().assert_outcomes(passed=2, warnings=1)
    assert "1 limit was not checked (test_it.py::test_restarts): the test restarted PyTorch's history" in suite.text


def test_limits_that_cannot_be_checked_are_said(bare):
    bare.write("""
@pytest.mark.limit_gpu_memory("10 B")
@pytest.mark.limit_gpu_leaks("10 B")
def test_one():
    pass

@pytest.mark.limit_gpu_memory("10 B")
def test_two():
    pass
""")
    bare.run().assert_outcomes(passed=2, warnings=3)
    assert "MemreelWarning: limit_gpu_memory was not checked: nothing is recorded: PyTorch is not imported" in bare.text
    assert "3 limits were not checked (test_it.py::test_one, test_it.py::test_two): nothing is recorded" in bare.text
    bare.run("-W", "error::memreel.MemreelWarning").assert_outcomes(failed=2)


def test_pytorch_that_the_test_imports_is_not_checked_silently(bare):
    bare.write(f"""
@pytest.mark.limit_gpu_memory("10 B")
def test_imports():
    sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
    from fake_torch import FakeTorch
    sys.modules["torch"] = FakeTorch()
    sys.modules["torch"].empty(100)
""")
    bare.run().assert_outcomes(passed=1, warnings=1)
    assert "1 limit was not checked (test_it.py::test_imports): the test itself imported PyTorch" in bare.text


def test_resident_memory_without_a_recording(bare):
    bare.write("""
@pytest.mark.limit_host_memory("40 MiB")
def test_within():
    block = bytearray(30 << 20)
    del block
    block = bytearray(30 << 20)

@pytest.mark.limit_host_memory("40 MiB")
def test_above():
    bytearray(b"x" * (60 << 20))
""")
    result = bare.run()
    if "not checked" in bare.text:
        pytest.skip("this kernel does not report the peak of resident memory")
    result.assert_outcomes(passed=1, failed=1)
    assert "resident memory grew by" in bare.text and "above the limit of 40 MiB" in bare.text
    assert "`memreel record --heap -- pytest`" in bare.text


@pytest.mark.skipif(folder() is None, reason="the libraries of memreel record are not installed here")
def test_the_heap_is_exact_under_memreel_record(bare):
    bare.write("""
@pytest.mark.limit_host_memory("30 MB")
def test_within():
    for _ in range(5):
        bytearray(25_000_000)

@pytest.mark.limit_host_memory("30 MB")
def test_above():
    first, second = bytearray(25_000_000), bytearray(7_000_000)

@pytest.mark.limit_gpu_memory("0 B")
def test_no_gpu():
    pass

kept = []

@pytest.mark.limit_host_leaks("2 MB")
def test_leaks():
    kept.append(bytearray(5_000_000))

@pytest.mark.limit_host_leaks("2 MB", warmups=1)
def test_fills_a_cache():
    if not kept[1:]:
        kept.append(bytearray(5_000_000))
""")
    memreel = [sys.executable, "-m", "memreel", "record", "--heap", "-o", "all.pickle", "--"]
    pytest_ = [sys.executable, "-m", "pytest", *bare.plugin, "-p", "no:cacheprovider", "test_it.py"]
    ended = subprocess.run([*memreel, *pytest_], capture_output=True, text=True, cwd=bare.path)
    assert "2 failed, 3 passed" in ended.stdout, ended.stdout + ended.stderr
    assert re.search(r"MiB above the limit of 28\.61 MiB \(30 MB\)", ended.stdout), ended.stdout
    leaks = r"limit_host_leaks: the heap has 4\.\d+ MiB of the test's memory left at its end, \S+ MiB above the limit of 1\.91 MiB \(2 MB\)"
    assert re.search(leaks, ended.stdout), ended.stdout
    assert "test_leaks (test_it.py:21)" in ended.stdout
    # What memreel itself needs for each test is not the program's.
    whole = memreel_of_package.load(bare.path / "all.pickle")
    own = [group for group in whole.top(device="heap", by="file", n=10**6) if (group.filename or "").endswith("/memreel/snapshot.py")]
    assert sum(group.total_bytes for group in own) < 8 << 20, own
    assert "limit_host_memory: the heap had 30." in ended.stdout and "of the test at the peak" in ended.stdout
    is_said = "limit_gpu_memory was not checked: this machine has no GPU" in ended.stdout
    assert is_said == (not any(Path("/dev").glob("nvidia[0-9]*")))
    assert "limit_host_memory was not checked" not in ended.stdout
    assert "test_above (test_it.py:11)" in ended.stdout


def test_leaks_of_the_host_need_a_recorded_heap(bare):
    bare.write("""
@pytest.mark.limit_host_leaks("0 B")
def test_it():
    pass
""")
    bare.run().assert_outcomes(passed=1, warnings=1)
    assert "limit_host_leaks was not checked: the heap is only recorded under `memreel record --heap -- pytest`" in bare.text


@pytest.mark.parametrize(
    ("mark", "meant"),
    [("limit_host_leak", "limit_host_leaks"), ("limit_gpu_mem", "limit_gpu_memory"), ("limits_gpu_leaks", "limit_gpu_leaks")],
)
def test_a_misspelt_mark_is_refused(bare, mark, meant):
    bare.write(f"""
@pytest.mark.{mark}("1 MB")
def test_it():
    pass
""")
    result = bare.run_loosely()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"test_it.py::test_it: there is no mark {mark}; did you mean {meant}?" in result.stderr.str()


def test_marks_of_others_are_left_alone(bare):
    bare.write("""
@pytest.mark.limit_memory("1 MB")
@pytest.mark.limit_leaks("1 MB")
@pytest.mark.limit_host_memorys("1 MB")
def test_it():
    pass
""")
    (bare.path / "pytest.ini").write_text("[pytest]\nmarkers =\n  limit_host_memorys(size): of another plugin\n")
    bare.run_loosely().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ('limit_gpu_memory("2 parsecs")', 'limit_gpu_memory: "2 parsecs" is not a size'),
        ("limit_gpu_memory()", "takes one size"),
        ('limit_gpu_memory("2 GB", warmups=1)', "takes one size, for example \"2 GB\", but was given 1 values and warmups="),
        ("limit_host_memory(1.5)", "1.5 is not a size"),
        ("limit_host_memory(True)", "True is not a size"),
        ('limit_host_leaks("0 B", warmups=-1)', "warmups is a number of calls, not -1"),
        ('limit_gpu_leaks("0 B", warmups=-1)', "warmups is a number of calls, not -1"),
    ],
)
def test_marks_are_checked_at_collection(suite, mark, why):
    suite.write(f"""
@pytest.mark.{mark}
def test_it():
    pass
""")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"test_it.py::test_it: {mark.partition('(')[0]}: " in result.stderr.str() and why in result.stderr.str()


def test_unittest_cannot_be_warmed_up(suite):
    suite.write("""
import unittest

class Case(unittest.TestCase):
    @pytest.mark.limit_gpu_leaks("0 B", warmups=1)
    def test_it(self):
        pass
""")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "a unittest.TestCase test cannot be called again" in result.stderr.str()


def test_a_run_that_asks_for_nothing_loads_nothing(bare):
    bare.write("""
def test_it():
    loaded = {name for name in sys.modules if name.startswith("memreel")}
    assert loaded <= {"memreel", "memreel._errors", "memreel.pytest_plugin"}, loaded
""")
    bare.run().assert_outcomes(passed=1)
