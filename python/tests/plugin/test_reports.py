"""--memreel, the baseline, and workers of xdist."""

from __future__ import annotations

import importlib.util
import json

import pytest

import memreel

xdist = pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
ONE, FIVE = (f"test_gpu_memory.py::test_of_the_baseline[{n}]" for n in (1, 5))
MIB = 1 << 20


def baseline(suite):
    return json.loads((suite.path / "ci.json").read_text())["tests"]


def test_a_report_a_test_and_its_snapshot(sample):
    result = sample.run("--memreel")
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*memory of the tests*",
            "*peak * left *device * resident * events  test",
            "*48.00 MiB         0 B   GPU 0 *test_gpu_memory.py::test_passes",
            "*24.00 MiB         0 B   GPU 0 *test_gpu_memory.py::test_needs_too_much",
            "*8.00 MiB    8.00 MiB   GPU 0 *test_gpu_memory.py::test_leaks",
            "snapshots are in *.memreel",
        ]
    )
    snapshots = sorted((sample.path / ".memreel").glob("*.pickle"))
    assert len(snapshots) == 7
    (leak,) = [path for path in snapshots if "test_leaks-" in path.name]
    assert memreel.load(leak).new(device=0).left_bytes == 8 * MIB
    assert f"The snapshot is {leak}" in sample.text.replace("\n", "")


def test_the_folder_can_be_named_and_tests_without_memory_are_not_listed(suite):
    suite.write("""
def test_nothing():
    pass

def test_fails_and_is_reported():
    torch.empty(5 << 20)
    assert 0
""")
    suite.run("--memreel", "--memreel-dir=out/memory").assert_outcomes(passed=1, failed=1)
    assert "5.00 MiB" in suite.text and "test_nothing" not in suite.text
    assert len(list((suite.path / "out" / "memory").iterdir())) == 1


def test_without_a_gpu_the_report_says_so(bare):
    bare.write("def test_nothing(): pass\n")
    bare.run("--memreel").assert_outcomes(passed=1)
    assert "no test allocated memory that was recorded" in bare.text
    assert "GPU memory was not measured: nothing is recorded: PyTorch is not imported" in bare.text


def test_a_baseline_is_written_and_compared(sample):
    sample.run("--memreel-baseline=ci.json", "--memreel-update").assert_outcomes(passed=4, failed=3)
    assert "peaks of 4 tests written to" in sample.text
    # Tests that failed have no peak to compare with.
    assert baseline(sample)[FIVE] == {"gpu_peak_bytes": 5 * MIB} and len(baseline(sample)) == 4
    sample.run("--memreel-baseline=ci.json", "-k", "baseline").assert_outcomes(passed=2)
    path = sample.path / "test_gpu_memory.py"
    path.write_text(path.read_text().replace("hidden = block(mib)", 'hidden = torch.empty((mib << 20) * 103 // 100)'))
    sample.run("--memreel-baseline=ci.json", "--memreel-tolerance=3.5%", "-k", "baseline").assert_outcomes(passed=2)
    sample.run("--memreel-baseline=ci.json", "--memreel-tolerance=2%", "-k", "baseline").assert_outcomes(failed=2)
    assert "GPU 0: the peak is 5.15 MiB, 153.60 KiB above the baseline of 5.00 MiB with a tolerance of 2 %" in sample.text
    assert "test_of_the_baseline (test_gpu_memory.py:" in sample.text


def test_an_update_keeps_the_tests_that_did_not_run(sample):
    old = {"memreel_baseline": 1, "tests": {"gone.py::test": {"gpu_peak_bytes": 7, "heap_peak_bytes": 8}, ONE: {"gpu_peak_bytes": 1}}}
    (sample.path / "ci.json").write_text(json.dumps(old))
    sample.run("--memreel-baseline=ci.json", "-k", "baseline").assert_outcomes(passed=1, failed=1)
    assert f"1 test is not in the baseline ({FIVE}); use --memreel-update to add them" in sample.text
    sample.run("--memreel-baseline=ci.json", "--memreel-update", "-k", "baseline").assert_outcomes(passed=2)
    found = baseline(sample)
    assert found == {**old["tests"], ONE: {"gpu_peak_bytes": MIB}, FIVE: {"gpu_peak_bytes": 5 * MIB}}
    assert list(found) == sorted(found)


def test_a_baseline_that_cannot_be_compared_is_said(bare):
    bare.write("def test_it(): pass\n")
    (bare.path / "ci.json").write_text('{"memreel_baseline": 1, "tests": {"test_it.py::test_it": {"gpu_peak_bytes": 5}}}')
    bare.run("--memreel-baseline=ci.json").assert_outcomes(passed=1, warnings=1)
    assert "1 limit was not checked (test_it.py::test_it): nothing is recorded" in bare.text
    # What could not be measured keeps its old figure.
    bare.run("--memreel-baseline=ci.json", "--memreel-update").assert_outcomes(passed=1)
    assert baseline(bare) == {"test_it.py::test_it": {"gpu_peak_bytes": 5}}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--memreel-baseline=none.json"], "none.json does not exist; use --memreel-update to write it"),
        (["--memreel-baseline=bad.json"], "bad.json cannot be read as a baseline"),
        (["--memreel-baseline=other.json"], "other.json is not a memreel baseline"),
        (["--memreel-baseline=negative.json"], "negative.json is not a memreel baseline"),
        (["--memreel-update"], "--memreel-update needs --memreel-baseline=FILE"),
        (["--memreel-tolerance=2%"], "--memreel-tolerance needs --memreel-baseline=FILE"),
        (["--memreel-baseline=good.json", "--memreel-tolerance=0.02"], '--memreel-tolerance: "0.02" needs a unit'),
        (["--memreel-baseline=/proc/ci.json", "--memreel-update"], "the baseline /proc/ci.json cannot be written"),
        (["--memreel-baseline=folder", "--memreel-update"], "folder cannot be read as a baseline"),
        (["--memreel", "--memreel-dir=bad.json"], "--memreel-dir: snapshots cannot be written to "),
        (["--memreel", "--memreel-dir=bad.json/more"], "bad.json is not a folder"),
        (["--memreel", "--memreel-dir=/proc/snapshots"], "--memreel-dir: snapshots cannot be written to /proc/snapshots"),
        (["--memreel", "-o", "memreel_stacks=some"], "memreel_stacks is python, all or none, not 'some'"),
    ],
)
def test_options_are_checked_before_the_tests(bare, options, why):
    (bare.path / "bad.json").write_text("{")
    (bare.path / "other.json").write_text("{}")
    (bare.path / "negative.json").write_text('{"memreel_baseline": 1, "tests": {"a": {"gpu_peak_bytes": -5}}}')
    (bare.path / "folder").mkdir()
    (bare.path / "good.json").write_text('{"memreel_baseline": 1, "tests": {}}')
    bare.write("def test_it(): pass\n")
    result = bare.run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and why in result.stderr.str()
    assert "Traceback" not in result.stderr.str() and "INTERNALERROR" not in bare.text


def test_a_baseline_that_cannot_be_written_at_the_end_is_said_after_the_report(suite):
    suite.write("""
import pathlib

def test_it():
    torch.empty(5 << 20)
    pathlib.Path("out/ci.json").mkdir(parents=True)
""")
    result = suite.run("--memreel", "--memreel-baseline=out/ci.json", "--memreel-update")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*memory of the tests*", "*5.00 MiB*test_it", "cannot write the baseline *ci.json: *"])
    assert "written to" not in suite.text and [path.name for path in (suite.path / "out").iterdir()] == ["ci.json"]


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan"])
def test_tests_that_do_not_run_write_nothing(sample, option):
    result = sample.run("--memreel", "--memreel-baseline=out/ci.json", "--memreel-update", option)
    assert result.ret == pytest.ExitCode.OK
    assert not (sample.path / "out").exists() and not (sample.path / ".memreel").exists()


def test_a_test_whose_teardown_fails_has_not_passed(suite):
    suite.write("""
@pytest.fixture
def broken():
    yield
    assert not "torn down"

def test_broken(broken):
    torch.empty(5)

def test_whole():
    torch.empty(6)
""")
    suite.run("--memreel-baseline=ci.json", "--memreel-update").assert_outcomes(passed=2, errors=1)
    assert baseline(suite) == {"test_it.py::test_whole": {"gpu_peak_bytes": 6}}
    assert "peaks of 1 test written" in suite.text


@xdist
def test_four_workers_report_and_write_one_baseline(sample):
    sample.run("-n4", "--memreel", "--memreel-baseline=ci.json", "--memreel-update").assert_outcomes(passed=4, failed=3)
    assert len(baseline(sample)) == 4
    assert "24.00 MiB         0 B   GPU 0" in sample.text and "peaks of 4 tests written" in sample.text
    assert len(list((sample.path / ".memreel").glob("*.pickle"))) == 7
    path = sample.path / "test_gpu_memory.py"
    path.write_text(path.read_text().replace("hidden = block(mib)", "hidden = block(mib + 1)"))
    sample.run("-n4", "--memreel-baseline=ci.json").assert_outcomes(passed=2, failed=5)
    assert "1.00 MiB above the baseline of 5.00 MiB" in sample.text


@xdist
def test_workers_say_what_was_not_checked(bare):
    bare.write("""
@pytest.mark.limit_gpu_memory("10 B")
@pytest.mark.parametrize("n", range(8))
def test_one(n):
    pass
""")
    bare.run("-n4").assert_outcomes(passed=8, warnings=8)
    assert "8 limits were not checked" in bare.text and "and 5 more): nothing is recorded" in bare.text
