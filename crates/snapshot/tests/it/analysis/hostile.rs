//! Every question about every file of the hostile corpus, and comparisons of its pairs: a quadratic answer takes minutes or
//! gigabytes at these sizes, a linear one a fraction of a second.

use std::{
    io,
    time::{Duration, Instant},
};

use memreel::rewrite;
use memreel_snapshot::{
    Address, DeviceId, Snapshot,
    analysis::{
        self, By, Call, DeviceHistory, FunctionName, Grouping, Histories, MAX_CALLS, Naming, Site,
        TraceNames, compare, devices,
    },
    export::{Format, convert},
    model::{Frame, Text, TraceEntry},
    pickle,
};
use memreel_testing::hostile::{CASES, Case, Form, PAIRS, Pair, check_all, written};
use serde_json::json;

use crate::{absurd, random::Random, recorded::recorded};

/// The length of the files, in bytes.
const N_BYTES: usize = 200_000;

/// The most bytes that are written of an answer, whose length need not be in proportion.
const MOST_BYTES: usize = 8 << 20;

/// The sites of the files that are compared.
const N_SITES: usize = 60_000;

/// Runs an answer, which may take a while on a busy machine but not minutes.
fn soon<T>(what: &str, answer: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let answer = answer();
    assert!(begin.elapsed() < Duration::from_secs(40), "{what} took {:?}", begin.elapsed());
    answer
}

/// Returns the snapshot of a case with a count.
fn case(name: &str, form: Form, n: usize) -> Snapshot {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    read(&case.of(form, n), form).unwrap()
}

fn read(bytes: &[u8], form: Form) -> Option<Snapshot> {
    match form {
        Form::Pickle => pickle::from_slice(bytes).ok(),
        Form::Json => serde_json::from_slice(bytes).ok(),
    }
}

#[test]
fn every_question_about_a_hostile_file_is_answered_in_time() {
    let forms = |case: &'static Case| case.forms().iter().map(move |form| (case, *form));
    let files: Vec<_> = CASES.iter().flat_map(forms).collect();
    check_all(&files, |(case, form)| {
        let bytes = case.of_bytes(*form, N_BYTES);
        let faults = soon(&case.file_name(*form), || fault(read(&bytes, *form)?, bytes.len()));
        faults.into_iter().map(|fault| format!("{}: {fault}", case.file_name(*form))).collect()
    });
}

/// Asks everything; returns whether an export holds more at once than some times the file.
fn fault(snapshot: Snapshot, n_bytes: usize) -> Option<String> {
    ask_each_device(&snapshot);
    absurd::questions::answers(&snapshot, &recorded(1, 20), &mut Random::new(1));
    let longest = absurd::questions::FORMATS.map(|format| {
        let mut sink = Sink { n_left: MOST_BYTES, longest: 0 };
        let _ = convert(&snapshot, format, &mut sink);
        sink.longest
    });
    let _ = rewrite::fix(snapshot);
    let is_long = longest.iter().any(|longest| *longest > 8 * n_bytes + (64 << 10));
    is_long.then(|| format!("pieces of {longest:?} bytes of {n_bytes}"))
}

/// A sink that fails beyond some bytes, and notes the longest piece.
struct Sink {
    n_left: usize,
    longest: usize,
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.longest = self.longest.max(bytes.len());
        self.n_left = self.n_left.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Asks about every device; each costs its own records.
fn ask_each_device(snapshot: &Snapshot) {
    let histories = Histories::new(snapshot);
    let names = TraceNames::new(snapshot, Naming::Recycled);
    for device in devices(snapshot) {
        let history = histories.of(device);
        let groups = history.top(history.end(), By::Stack);
        let _ = (groups.len(), history.leaks(), names.lines(device).count(), history.scopes().paths());
        let _ = history.tree(history.end(), 0);
    }
    let _ = rewrite::parts(snapshot).take(3000).count();
}

/// Sites of one function that are alone in two snapshots are not compared each with each: neither those that nothing pairs, nor
/// those with as many bytes in front of a line that stayed, nor those of a file in which other lines moved.
#[test]
fn sides_of_a_pair_are_compared_in_time() {
    let n_alone = [("lines", 2 * N_SITES), ("lines-stayed", 2 * (N_SITES - 1)), ("lines-moved", N_SITES)];
    check_all(PAIRS, |Pair { name, share, value }| {
        let bytes = |side| written(Form::Pickle, &value((N_SITES / share) as u64, side));
        let [before, after] = [0, 1].map(|side| pickle::from_slice(&bytes(side)).unwrap());
        let [one, other] = [&before, &after].map(|snapshot| DeviceHistory::new(snapshot, DeviceId(0)));
        let n_changes = soon(name, || one.diff(one.end(), &other, other.end())).len();
        let _ = soon(name, || compare(&before, &after));
        let is_wrong = n_alone.iter().any(|(pair, n_alone)| pair == name && n_changes != *n_alone);
        is_wrong.then(|| format!("{name}: {n_changes} changes")).into_iter().collect()
    });
}

#[test]
fn larger_files_are_answered_in_time() {
    let larger = [
        ("scopes-in-long-names", 8000),
        ("devices", 3000),
        ("stack-deep", 200_000),
        ("segments-nested", 20_000),
    ];
    check_all(&larger, |(name, n)| {
        let snapshot = case(name, Form::Pickle, *n);
        soon(name, || fault(snapshot, 20 * n)).into_iter().collect()
    });
}

#[test]
fn each_device_costs_its_own_records() {
    let snapshot = case("devices", Form::Pickle, 3000);
    let history = Histories::new(&snapshot).of(DeviceId(2999));
    assert_eq!((history.leaks().len(), history.tree(history.end(), 0).len()), (1, 10));
    assert_eq!(soon("the parts", || rewrite::parts(&snapshot).count()), 3000);
    let part = rewrite::part(&snapshot, DeviceId(7)).unwrap();
    assert_eq!((part.segments.len(), part.device_traces.len(), part.stacks.len()), (1, 3000, 2));
    let stack = part.device_traces[7][0].stack;
    assert_eq!(part.frames(stack).next().unwrap().name, "function_number_7_0".into());
    assert!(rewrite::part(&snapshot, DeviceId(3000)).is_none());
}

#[test]
fn a_long_name_of_many_blocks_is_read_once() {
    const N: u64 = 100_000;
    let name = Text::from("n".repeat(1 << 20));
    let alloc = json!({"action": "alloc", "addr": 0, "size": 512});
    let annotate = json!({"action": "annotate", "addr": 0, "size": 512, "user_metadata": *name});
    let file = json!({"segments": [], "device_traces": [[alloc, annotate]]});
    let mut snapshot: Snapshot = serde_json::from_value(file).unwrap();
    let entries = snapshot.device_traces[0].clone();
    let at =
        |at: u64| entries.iter().map(move |entry| TraceEntry { address: Address(4096 + 512 * at), ..*entry });
    snapshot.device_traces = vec![(0..N).flat_map(at).collect()];
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let end = history.end();
    let by_name = soon("top --by name", || history.top(end, By::Name));
    let Site::Name(names) = &by_name[0].site else { panic!("{:?}", by_name.len()) };
    assert_eq!((by_name.len(), by_name[0].n_blocks, names.names()), (1, N as usize, &[name.clone()][..]));
    let by_stack = soon("top", || history.top(end, By::Stack));
    assert_eq!((by_stack.len(), &by_stack[0].names[..]), (1, &[name][..]));
}

#[test]
fn exports_hold_a_long_text_once() {
    const LONG: usize = 80_000;
    let [snapshot, blocks] =
        ["name-shared", "name-shared-by-blocks"].map(|name| case(name, Form::Json, 4000));
    for format in [Format::Csv, Format::CsvStacks, Format::Folded, Format::Perfetto, Format::Json] {
        let mut sink = Sink { n_left: MOST_BYTES, longest: 0 };
        let snapshot = if format == Format::Folded { &blocks } else { &snapshot };
        let error = soon("convert", || convert(snapshot, format, &mut sink)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{format:?}");
        assert!(sink.longest < 4 * LONG, "{format:?}: a piece of {} bytes", sink.longest);
    }
    let mut profile = Vec::new();
    soon("pprof", || convert(&snapshot, Format::Pprof, &mut profile)).unwrap();
    assert!((LONG..8 * LONG).contains(&profile.len()), "{}", profile.len());
    let folded = soon("folded", || {
        analysis::folded(&blocks, None, Grouping::Memory, |stack, _| {
            let text = stack.to_string();
            if text.len() < LONG { Ok(()) } else { Err(text.len()) }
        })
    });
    assert!(folded.is_err_and(|n_bytes| n_bytes < 2 * LONG));
}

#[test]
fn long_answers_are_cut() {
    // A deep stack of which every event has the whole is a chain of branches.
    let snapshot = case("stack-deep-used", Form::Pickle, 3000);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let lines = history.tree(history.end(), 0);
    let (last, rest) = lines.split_last().unwrap();
    assert_eq!((lines.len(), lines[0].bytes, lines[0].depth), (MAX_CALLS, 3000 * 512, 0));
    assert_eq!((last.n_left_out, last.n_blocks), (12_003 - MAX_CALLS, 3000));
    assert!(rest.iter().all(|line| line.n_left_out == 0) && lines[1..].iter().all(|line| line.continues));
    // Pages are drawn of segments that have as many together.
    let stats = analysis::stats(&case("pages", Form::Pickle, 50), None);
    let n_pages: usize =
        stats.segments.iter().map(|segment| segment.pages.as_ref().map_or(0, String::len)).sum();
    assert_eq!((stats.n_segments, stats.segments.len(), stats.n_not_drawn), (50, 50, 49));
    assert_eq!((n_pages, stats.reserved_bytes), (1 << 20, 50 * (20 << 40)));
}

/// Of a name, each character is looked at a few times.
#[test]
fn a_name_costs_its_length() {
    const N_BYTES: usize = 4_000_000;
    for part in [
        "(anonymous",
        "(anonymous)",
        "f<",
        "<T as ",
        "f(int)::{lambda(int)#1}::",
        "{lambda(",
        "{{closure}}::",
        "decltype(",
        "decltype ",
        "operator",
        "operator<",
        "operator(",
        "a::",
        "(",
        "f()::",
        " ",
        " const",
        "Net.forward.<locals>.",
        "<lambda>",
    ] {
        let name = format!("f{}", part.repeat(N_BYTES / part.len()));
        soon(part, || {
            let shortened = FunctionName::of(&name).shortened(|name| name.len() < 80);
            assert!(shortened.len() <= name.len());
            assert!(FunctionName::endings(&name).count() < name.len());
        });
        let frame = Frame { name: name.into(), ..Frame::default() };
        assert!(soon(part, || Call(&frame).to_string()).chars().count() < 100);
    }
}
