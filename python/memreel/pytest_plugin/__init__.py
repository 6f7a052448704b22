"""The plugin of pytest: limits of memory as marks, a report a test, and a baseline.

    @pytest.mark.limit_gpu_memory("2 GB")
    @pytest.mark.limit_gpu_leaks("0 B", warmups=2)
    @pytest.mark.limit_host_memory("500 MB")
    @pytest.mark.limit_host_leaks("64 KiB", warmups=2)

pytest imports this module in every run. What does the work is imported when a test has a mark or an option asks for it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from memreel.pytest_plugin.run import Run

MARKS = {
    "limit_gpu_memory": 'limit_gpu_memory(size): fail if the test allocates more of a GPU\'s memory at once, e.g. "2 GB"',
    "limit_gpu_leaks": 'limit_gpu_leaks(size, warmups=0): fail if the test leaves more of a GPU\'s memory allocated, e.g. "0 B"; '
    "the test is called `warmups` times before it is measured",
    "limit_host_memory": 'limit_host_memory(size): fail if the test allocates more of the host\'s memory at once, e.g. "500 MB"',
    "limit_host_leaks": 'limit_host_leaks(size, warmups=0): fail if the test leaves more of the heap allocated, e.g. "64 KiB"; '
    "needs `memreel record --heap -- pytest`; `warmups` as above",
}
RUN = pytest.StashKey["Run"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("memreel", "limits and reports of GPU and host memory")
    group.addoption("--memreel", action="store_true", help="report the memory of each test and keep its snapshot")
    group.addoption(
        "--memreel-dir", metavar="DIR", default=".memreel", help="the folder for the snapshots of --memreel [default: .memreel]"
    )
    group.addoption("--memreel-baseline", metavar="FILE", help="fail tests whose peaks are above those in this file (JSON)")
    group.addoption(
        "--memreel-tolerance", metavar="PERCENT", help="allow peaks to be above the baseline by this share, e.g. 2%% [default: 0%%]"
    )
    group.addoption(
        "--memreel-update", action="store_true", help="write the peaks of passing tests into the baseline instead of comparing"
    )
    parser.addini("memreel_stacks", "stacks that PyTorch's history records for limits: python, all or none", default="python")


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKS.values():
        config.addinivalue_line("markers", line)
    asked = ("memreel", "memreel_baseline", "memreel_tolerance", "memreel_update")
    if any(config.getoption(option) for option in asked):
        run_of(config)
    config.pluginmanager.register(Results(config), "memreel-results")


def run_of(config: pytest.Config) -> Run:
    """Returns what this run of pytest measures, which is made when it is first needed."""
    run: Run | None = config.stash.get(RUN, None)
    if run is None:
        from memreel.pytest_plugin.run import Run

        run = config.stash[RUN] = Run(config)
    return run


def refuse_misspelt(config: pytest.Config, item: pytest.Item) -> None:
    """Raises pytest.UsageError for a mark that nothing knows and that is nearly one of these: it would limit nothing."""
    unknown = {mark.name for mark in item.iter_markers() if mark.name.startswith("limit")} - MARKS.keys()
    if not unknown:
        return
    from difflib import get_close_matches

    # Those of other plugins are registered.
    known = {line.split(":")[0].split("(")[0].strip() for line in config.getini("markers")}
    for name in sorted(unknown - known):
        # `limit_memory` and `limit_leaks` of pytest-memray are less similar.
        meant = get_close_matches(name, MARKS, n=1, cutoff=0.87)
        if meant:
            raise pytest.UsageError(f"{item.nodeid}: there is no mark {name}; did you mean {meant[0]}?")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        refuse_misspelt(config, item)
        if any(item.get_closest_marker(name) for name in MARKS):
            run_of(config).expect(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    # Again: fixtures may have added marks.
    pytest_collection_modifyitems(item.config, [item])
    run: Run | None = item.config.stash.get(RUN, None)
    plan = run.plan(item) if run is not None else None
    if run is None or plan is None:
        return (yield)
    run.warm_up(item, plan)
    with run.measuring(item, plan):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    run: Run | None = item.config.stash.get(RUN, None)
    if run is not None and call.when == "call":
        run.note(item, report)
    return report


class Results:
    """What the tests of this run reported, those of the workers of xdist included."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        measured: dict[str, Any] | None = getattr(report, "memreel", None)
        if measured is not None:
            # Of a test that is run again, the last run counts.
            self.tests[report.nodeid] = {**measured, "passed": report.passed}
        elif report.failed and report.nodeid in self.tests:
            # Its teardown.
            self.tests[report.nodeid]["passed"] = False

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = hasattr(self.config, "workerinput")
        if not self.config.getoption("memreel_update") or is_worker or not self.tests:
            return
        try:
            run_of(self.config).baseline.update(self.tests)
        except OSError as error:
            # The report is still printed, and this with it.
            run_of(self.config).why_not_updated = str(error)
            session.exitstatus = session.exitstatus or pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.tests:
            return
        from memreel.pytest_plugin.report import lines

        for title, body in lines(self.tests, run_of(self.config)):
            terminalreporter.write_sep("=", title)
            for line in body:
                terminalreporter.write_line(line)
