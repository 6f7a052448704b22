"""What a user of Python expects: short reprs, times and numbers of Python's own, answers that are lists, plots and pages."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import memreel

FIXTURES = Path(__file__).parents[2] / "fixtures" / "torch-2.11"
FILE = FIXTURES / "snapshots" / "resnet18_python_stacks.pickle"
RANKS = FIXTURES / "ranks"


def test_a_snapshot_is_one_line_and_its_page_is_str():
    snapshot = memreel.load(FILE)
    assert repr(snapshot) == f"<memreel.Snapshot {str(FILE)!r}: 1,694 events, devices: 0>"
    assert str(snapshot) == snapshot.ask(["summary", snapshot.name])[1].rstrip("\n")


def test_rich_prints_pages_without_markup(tmp_path):
    console = pytest.importorskip("rich.console").Console(width=200, record=True, file=open(tmp_path / "out", "w"))  # noqa: SIM115
    made = memreel.load(FILE)
    made.name = "[red]x.pickle"
    console.print(made)
    console.print(made.top(n=2))
    text = console.export_text()
    assert "[red]x.pickle" in text and str(made.top(n=2)).splitlines()[0] in text


def test_nothing_heavy_is_imported_before_it_is_used():
    script = f"import memreel, sys; s = memreel.load({str(FILE)!r}); s.top(); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "memreel.records" in out
    for name in ("rich", "polars", "pandas", "matplotlib"):
        assert f"'{name}'" not in out


@pytest.mark.parametrize("given", [RANKS, str(RANKS / "rank*.pickle"), [RANKS / "rank0.pickle", RANKS / "rank1.pickle"]])
def test_ranks_are_the_program_s(given):
    ranks = memreel.ranks(given)
    words = [str(path) for path in (given if isinstance(given, list) else [given])]
    run = [sys.executable, "-m", "memreel", "ranks"]
    said = subprocess.run([*run, *words], capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})
    assert said.returncode == 1 and str(ranks) == said.stdout.rstrip("\n")
    said = subprocess.run([*run, "--json", *words], capture_output=True, text=True)
    assert [rank.to_dict() for rank in ranks] == [json.loads(line) for line in said.stdout.splitlines()]
    (outlier,) = ranks.outliers
    assert outlier.rank == 1 and outlier.oom is not None and outlier.whys[0].kind == "out_of_memory"


def test_ranks_of_snapshots_are_those_of_their_files():
    files = [RANKS / "rank0.pickle", RANKS / "rank1.pickle"]
    of_files, of_snapshots = memreel.ranks(files), memreel.ranks([memreel.load(files[0]), files[1]])
    assert [rank.to_dict() for rank in of_snapshots] == [rank.to_dict() for rank in of_files]
    # Two snapshots of one name are two ranks.
    twice = memreel.load(files[0])
    assert len(memreel.ranks([twice, twice])) == 2


def test_steps_of_ranks():
    steps = memreel.ranks(RANKS, by="step")
    assert [step.step for step in steps][:2] == ["step#0", "step#1"]
    assert steps[0].ranks[0].peak_bytes <= steps[0].ranks[-1].peak_bytes
    assert str(steps).startswith("step")


def test_a_rank_that_cannot_be_read_is_told_and_all_of_them_are_an_error(tmp_path):
    (tmp_path / "rank0.pickle").write_bytes((RANKS / "rank0.pickle").read_bytes())
    (tmp_path / "rank1.pickle").write_bytes(b"broken")
    ranks = memreel.ranks(tmp_path)
    assert len(ranks) == 1 and [one.rank for one in ranks.unread] == [1]
    with pytest.raises(memreel.UnreadableError, match="no files match this pattern"):
        memreel.ranks(tmp_path / "x*.pickle")
    with pytest.raises(memreel.UnreadableError, match=r"rank1\.pickle"):
        memreel.ranks(tmp_path / "rank1.pickle")
    with pytest.raises(memreel.UsageError):
        memreel.ranks([])


def test_a_page_of_ranks(tmp_path):
    memreel.ranks(RANKS, html=tmp_path / "ranks.html")
    assert (tmp_path / "ranks.html").read_text().startswith("<!")


def test_answers_iterate_and_sort():
    snapshot = memreel.load(FILE)
    churn = snapshot.churn()
    assert list(churn) == churn.sites and churn[0] == churn.sites[0] and churn[:2] == churn.sites[:2]
    assert len(churn) == len(churn.sites)
    blocks = [group.blocks for group in snapshot.top().sorted_by("blocks")]
    assert blocks == sorted(blocks, reverse=True) and blocks != [group.blocks for group in snapshot.top()]
    assert [group.blocks for group in snapshot.top().sorted_by("blocks", reverse=False)] == sorted(blocks)
    with pytest.raises(memreel.UsageError, match=r"TopGroup has no field 'size'; it has .*blocks"):
        snapshot.top().sorted_by("size")
    assert snapshot.fragmentation() and memreel.load(FILE).leaks_older_than(10**9)


def test_each_answer_s_list_is_a_field_of_it():
    from typing import get_type_hints

    from memreel.listing import Listing

    kinds = [kind for kind in vars(memreel.records).values() if isinstance(kind, type) and issubclass(kind, Listing)]
    kinds.remove(Listing)
    kinds = [kind for kind in kinds if kind.__name__ != "Judged"]
    assert len(kinds) > 15
    for kind in kinds:
        hint = get_type_hints(kind)[kind._rows]
        assert hint == list[kind._nested[kind._rows]()], kind


def test_gates_raise():
    snapshot = memreel.load(FILE)
    assert snapshot.gate(max_peak="100GiB").raise_if_failed().is_passed
    with pytest.raises(memreel.GateError, match=r"FAILED  peak is .* over the limit of 1.00 MiB") as failed:
        memreel.gate(FILE, max_peak=1 << 20).raise_if_failed()
    assert isinstance(failed.value, AssertionError) and isinstance(failed.value, memreel.Error)


def test_limits_are_numbers_and_dictionaries():
    ranks = memreel.load(RANKS / "rank0.pickle")
    peak = ranks.peak.active_bytes
    most = {check.what: check.most for check in ranks.gate(max_peak={None: peak, "step#1": 1e9})}
    assert most["peak"] == peak and 1e9 in most.values()
    assert ranks.gate(max_peak=peak).is_passed and not ranks.gate(max_peak=peak - 1).is_passed
    assert [check.most for check in ranks.gate(max_peak={"step#1": "1GiB"})] == [1 << 30]
    assert [check.most for check in ranks.gate(max_peak=["1GiB", "step#1=2GiB"])] == [1 << 30, 2 << 30]
    owners = ranks.gate(max_owner={"pytorch": 5, "nccl": "1GiB"})
    assert [check.most for check in owners] == [5, 1 << 30]
    assert ranks.gate(max_fragmentation=50.5).checks[0].most == 50.5
    assert ranks.gate(baseline=ranks, tolerance=2).is_passed
    for wrong in (1.5, True, float("nan"), float("inf")):
        with pytest.raises(memreel.UsageError, match="is a number of bytes or a text such as '10GiB'"):
            ranks.gate(max_live=wrong)


def times(snapshot: memreel.Snapshot) -> list[int]:
    return [row["time_us"] for row in snapshot.events]


def test_times_are_those_of_python():
    snapshot = memreel.load(FILE)
    first, last = times(snapshot)[0], times(snapshot)[-1]
    middle = (first + last) // 2
    after = timedelta(microseconds=middle - first)
    utc = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=middle)
    expected = snapshot.new(middle).to_dict()
    assert 0 < expected["since_event"] < snapshot.n_events
    east = utc.astimezone(timezone(timedelta(hours=9)))
    for since in (after, utc, east, utc.astimezone().replace(tzinfo=None), str(middle), f"{middle - first}us"):
        assert snapshot.new(since).to_dict() == expected, since
    with pytest.raises(memreel.UsageError, match="before the first event"):
        snapshot.new(-after)


def test_windows_are_pairs():
    snapshot = memreel.load(FILE)
    all_of_them = times(snapshot)
    first, last = all_of_them[0], all_of_them[-1]
    assert times(snapshot.slim(events=(100, 200))) == times(snapshot.slim(events="100..200"))
    after, before = timedelta(microseconds=(last - first) // 3), timedelta(microseconds=(last - first) // 2)
    expected = times(snapshot.slim(time=f"{after // timedelta(microseconds=1)}us..{before // timedelta(microseconds=1)}us"))
    assert 0 < len(expected) < len(all_of_them)
    start = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=first)
    assert times(snapshot.slim(time=(after, before))) == expected
    assert times(snapshot.slim(time=(start + after, start + before))) == expected
    assert times(snapshot.slim(time=(None, None))) == all_of_them
    for wrong in (5, (1, 2, 3)):
        with pytest.raises(memreel.UsageError, match="is not a window; use a pair"):
            snapshot.slim(events=wrong)


def test_shortcuts_take_paths():
    file = RANKS / "rank1.pickle"
    snapshot = memreel.load(file)
    oom = memreel.oom(file)
    assert oom is not None and str(oom) == str(snapshot.oom())
    assert memreel.oom(FILE) is None
    assert str(memreel.leaks(file, n=2)) == str(snapshot.leaks(n=2))
    assert str(memreel.top(str(file), by="file")) == str(snapshot.top(by="file"))
    assert str(memreel.owners(snapshot)) == str(snapshot.owners())


def test_a_log_is_explained():
    log = Path(__file__).resolve().parents[2] / "fixtures/logs/train.log"
    oom = memreel.oom(log)
    assert isinstance(oom, memreel.records.LoggedOom) and oom.verdict == "fragmented"
    assert (oom.message.line, oom.causes[0].kind) == (9, "fragmented")
    assert "out of memory (cause: fragmented)" in str(oom)
    assert memreel.oom(str(log), device=3).verdict == "occupied"
    with pytest.raises(memreel.UsageError):
        memreel.oom(log, device=5)


def test_a_plot_has_curves_steps_and_the_failed_request():
    pytest.importorskip("matplotlib").use("Agg")
    snapshot = memreel.load(RANKS / "rank1.pickle")
    (rank,) = memreel.ranks(snapshot)
    assert rank.oom is not None
    for by in ("event", "time"):
        axes = snapshot.plot(by=by, width=50)
        names = [line.get_label() for line in axes.lines]
        assert names[:3] == ["reserved", "active", "allocated"]
        reserved = axes.lines[0]
        assert max(reserved.get_ydata()) * (1 << 20) == rank.reserved_bytes
        begins = {text.get_text(): text.get_position()[0] for text in axes.texts}
        assert list(begins) == [step.name for step in rank.steps]
        step = rank.steps[1]
        assert begins[step.name] == (step.event if by == "event" else (step.begin_us - rank.first_us) / 1e6)
        failed = next(line for line in axes.lines if str(line.get_label()).startswith("out of memory: 33.00 MiB"))
        assert failed.get_xdata()[0] == (rank.oom.event if by == "event" else (rank.oom.time_us - rank.first_us) / 1e6)
        assert reserved.get_xdata()[-1] <= max(failed.get_xdata()[0], rank.n_events if by == "event" else 1e9)
    with pytest.raises(memreel.UsageError, match="not one of event, time"):
        snapshot.plot(by="size")


def test_a_plot_without_times_says_so(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    with open(FILE, "rb") as file:
        plain = pickle.load(file)
    for entry in plain["device_traces"][0]:
        entry["time_us"] = 0
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(plain))
    snapshot = memreel.load(tmp_path / "x.pickle")
    snapshot.plot(width=10)
    with pytest.raises(memreel.UsageError, match="has no times"):
        snapshot.plot(by="time")


def test_pages_and_drawings(tmp_path):
    snapshot = memreel.load(RANKS / "rank1.pickle")
    snapshot.to_html(tmp_path / "page.html")
    program = [sys.executable, "-m", "memreel", "view", "--html", str(tmp_path / "program.html")]
    subprocess.run([*program, str(RANKS / "rank1.pickle")], check=True)
    page, expected = ((tmp_path / name).read_text() for name in ("page.html", "program.html"))
    # They differ in the folder of the snapshot alone.
    assert len(page) > 100_000 and abs(len(page) - len(expected)) < 1000
    snapshot.flamegraph(tmp_path / "peak.svg")
    assert "fsdp_ranks.py" in (tmp_path / "peak.svg").read_text()
    report = snapshot.report()
    assert report == snapshot.ask(["report", snapshot.name])[1] and report.startswith("## Out of memory")
    snapshot.report(tmp_path / "report.html", anonymise=True)
    assert "fsdp_ranks.py" not in (tmp_path / "report.html").read_text()
    for write in (snapshot.to_html, snapshot.flamegraph, snapshot.report):
        with pytest.raises(memreel.UnreadableError, match="missing"):
            write(tmp_path / "missing" / "x.svg")


def test_polars_takes_answers():
    polars = pytest.importorskip("polars")
    snapshot = memreel.load(FILE)
    assert snapshot.events.to_polars().height == snapshot.n_events
    assert snapshot.top().to_polars()["bytes"].to_list() == [group.bytes for group in snapshot.top()]
    frame = memreel.ranks(RANKS).to_polars()
    assert frame["peak_bytes"].max() == memreel.load(RANKS / "rank1.pickle").peak.active_bytes
    assert "oom" not in frame.columns and "why" in frame.columns
    assert isinstance(frame, polars.DataFrame) and frame["n_ooms"].to_list() == [1, 0]


def test_every_exception_is_exported():
    from memreel import _errors

    kinds = [name for name, kind in vars(_errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert set(kinds) | {"NothingYet"} <= set(memreel.__all__)
