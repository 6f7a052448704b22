//! The bytes that the writer writes, seen by readers that share no code with it.

use std::collections::{BTreeSet, HashMap};

use memreel_snapshot::{
    Snapshot,
    model::{TopLevel, Value},
    pickle, validate,
};

use crate::fixtures::{all_pickles, fixtures, name, pickles};

/// One opcode with its argument, and the bytes that follow if the argument is their number.
struct Op<'a> {
    code: u8,
    argument: usize,
    text: &'a [u8],
}

/// Returns the opcodes of a pickle, using nothing but the length of each.
fn opcodes(bytes: &[u8]) -> Vec<Op<'_>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes[at];
        let (n_argument, is_length) = match code {
            0x80 | b'K' | b'h' | b'q' => (1, false),
            b'M' => (2, false),
            b'J' | b'r' | b'j' => (4, false),
            b'G' => (8, false),
            0x8a | 0x8c | b'C' => (1, true),
            b'X' | b'B' | 0x8b => (4, true),
            _ => (0, false),
        };
        let digits = &bytes[at + 1..at + 1 + n_argument.min(8)];
        let argument = digits.iter().rev().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        let from = at + 1 + n_argument;
        at = from + if is_length { argument } else { 0 };
        all.push(Op { code, argument, text: &bytes[from..at] });
    }
    all
}

/// Snapshots that break no rule of the bytes.
fn sound() -> Vec<(String, Snapshot)> {
    let odd = ["odd-values", "beyond-javascript"];
    all_pickles()
        .iter()
        .map(|path| (name(path), pickle::load(path).unwrap()))
        .filter(|(name, _)| !odd.contains(&name.as_str()))
        .collect()
}

#[test]
fn only_opcodes_that_the_viewer_knows_are_written() {
    let viewer: BTreeSet<u8> =
        b"\x80\x95.(]ael}sud)t\x85\x86\x87N\x88\x89JKM\x8aG\x8cXqr\x94hj".iter().copied().collect();
    for (name, snapshot) in sound() {
        let written: BTreeSet<u8> = opcodes(&pickle::to_vec(&snapshot)).iter().map(|op| op.code).collect();
        let unknown: Vec<_> = written.difference(&viewer).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:x?}");
        assert!(
            !(written.contains(&0x94) && written.contains(&b'q')),
            "{name}: MEMOIZE and BINPUT are mixed"
        );
    }
}

#[test]
fn written_files_have_no_finding_of_their_bytes() {
    for (name, snapshot) in sound() {
        let findings = pickle::inspect_slice(&pickle::to_vec(&snapshot)).findings;
        assert!(findings.is_empty(), "{name}: {findings:?}");
    }
}

/// Follows marks: how many items each APPENDS takes, and which opcode made what is put in the memo.
#[test]
fn batches_are_small_and_dictionaries_of_records_are_never_shared() {
    let mut snapshot = pickle::load(fixtures("torch-2.11/snapshots").join("oom_fragment.pickle")).unwrap();
    let trace = snapshot.device_traces[0].clone();
    while snapshot.device_traces[0].len() <= 2500 {
        snapshot.device_traces[0].extend_from_slice(&trace);
    }
    let bytes = pickle::to_vec(&snapshot);
    let (mut stack, mut marks, mut memo) = (Vec::new(), Vec::new(), HashMap::new());
    let (mut largest, mut n_records, mut n_shared) = (0, 0, 0);
    for op in opcodes(&bytes) {
        match op.code {
            b'(' => marks.push(stack.len()),
            b'e' | b'u' => {
                let mark: usize = marks.pop().unwrap();
                if op.code == b'e' {
                    largest = largest.max(stack.len() - mark);
                } else if RECORD_KEYS.iter().any(|key| stack[mark..].contains(key)) {
                    stack[mark - 1] = RECORD;
                    n_records += 1;
                }
                stack.truncate(mark);
            }
            b'q' | b'r' => {
                let top = *stack.last().unwrap();
                n_shared += usize::from(top == RECORD);
                memo.insert(op.argument, top);
            }
            b'h' | b'j' => stack.push(memo[&op.argument]),
            0x86 => {
                stack.truncate(stack.len() - 2);
                stack.push(b"");
            }
            b't' => {
                stack.truncate(marks.pop().unwrap());
                stack.push(b"");
            }
            0x80 | b'.' => {}
            _ => stack.push(op.text),
        }
    }
    assert_eq!(stack.len(), 1, "one value is left");
    assert!((2..=1000).contains(&largest), "the largest batch has {largest}");
    let n_blocks: usize = snapshot.segments.iter().map(|segment| segment.blocks.len()).sum();
    assert_eq!(n_records, snapshot.n_events() + snapshot.segments.len() + n_blocks);
    assert_eq!(n_shared, 0);
    let findings = pickle::inspect_slice(&bytes).findings;
    assert!(findings.is_empty(), "no object is reachable twice: {findings:?}");
}

/// A key that only entries have, one that only segments have, and one of blocks.
const RECORD_KEYS: [&[u8]; 3] = [b"action", b"total_size", b"state"];
const RECORD: &[u8] = b"a record";

#[test]
fn integers_of_the_files_range_take_at_most_eight_bytes() {
    for (name, snapshot) in sound() {
        let longest = opcodes(&pickle::to_vec(&snapshot))
            .iter()
            .filter(|op| op.code == 0x8a)
            .map(|op| op.argument)
            .max();
        assert!(longest <= Some(8), "{name}: {longest:?}");
    }
}

#[test]
fn the_same_snapshot_is_the_same_bytes() {
    for (name, snapshot) in sound() {
        let bytes = pickle::to_vec(&snapshot);
        let again = pickle::from_slice(&bytes).unwrap();
        assert_eq!(bytes, pickle::to_vec(&snapshot), "{name}");
        assert_eq!(pickle::to_vec(&again), pickle::to_vec(&pickle::from_slice(&bytes).unwrap()), "{name}");
    }
}

/// serde-pickle refuses shared containers, so it gets a file in which nothing is shared but texts.
#[test]
fn serde_pickle_reads_an_unshared_file_equal() {
    let mut n_read = 0;
    for path in pickles(&fixtures("synthetic")) {
        let snapshot = pickle::load(&path).unwrap();
        let Some(unshared) = without_stacks(&snapshot) else { continue };
        let theirs: Value =
            serde_pickle::from_slice(&pickle::to_vec(&unshared), serde_pickle::DeOptions::new()).unwrap();
        let ours = serde_json::to_value(&unshared).unwrap();
        assert_eq!(sorted(&serde_json::to_value(theirs).unwrap()), sorted(&ours), "{}", path.display());
        n_read += 1;
    }
    assert!(n_read >= 10, "only {n_read} files were read");
}

/// The snapshot with every stack empty, and so without shared containers.
fn without_stacks(snapshot: &Snapshot) -> Option<Snapshot> {
    if snapshot.top_level == TopLevel::SegmentList {
        return None;
    }
    let mut bare = snapshot.clone();
    let empty = memreel_snapshot::model::StackTable::EMPTY;
    let entries = bare.device_traces.iter_mut().flatten().chain(&mut bare.host_traces);
    entries.for_each(|entry| entry.stack = entry.stack.map(|_| empty));
    for segment in bare.segments.iter_mut().chain(&mut bare.host_segments) {
        segment.stack = segment.stack.map(|_| empty);
        segment.blocks.iter_mut().for_each(|block| block.stack = block.stack.map(|_| empty));
    }
    // Tuples and lists that many entries hold are shared through the memo.
    let has_containers = |entry: &memreel_snapshot::model::TraceEntry| {
        let slots = &bare.shapes.get(entry.shape).slots;
        slots.iter().any(|(key, _)| ["pool_id", "forward_frames", "tags"].contains(&&**key))
    };
    let n = bare.device_traces.iter().flatten().filter(|entry| has_containers(entry)).count();
    (n == 0).then_some(bare)
}

/// serde-pickle sorts keys; so does this.
fn sorted(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            pairs.into_iter().collect()
        }
        serde_json::Value::Array(all) => all.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn json_comes_back_equal() {
    for (name, snapshot) in sound() {
        let json = serde_json::to_value(&snapshot).unwrap();
        let again: Snapshot = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), json, "{name}");
    }
}

#[test]
fn findings_name_the_rule_that_the_bytes_break() {
    let rules = |path: &str| -> BTreeSet<u8> {
        let findings = validate::check_file(fixtures("synthetic").join(path)).unwrap();
        findings.iter().map(|finding| finding.rule.number()).filter(|rule| (3..=6).contains(rule)).collect()
    };
    assert_eq!(rules("torch-2.11.pickle"), BTreeSet::new());
    assert_eq!(rules("torch-2.11-protocol-5.pickle"), BTreeSet::from([3]));
    assert_eq!(rules("beyond-javascript.pickle"), BTreeSet::from([4]));
    let findings = |opcodes: &[u8]| -> Vec<String> {
        let bytes = [b"\x80\x04}(\x8c\x08segments](".as_slice(), opcodes, b"eu."].concat();
        let inspection = pickle::inspect_slice(&bytes);
        let of_the_model = validate::validate(&inspection.snapshot.expect("it can be read"));
        let all = inspection.findings.iter().chain(&of_the_model);
        all.filter(|finding| (3..=6).contains(&finding.rule.number())).map(ToString::to_string).collect()
    };
    let one = |opcodes: &[u8]| {
        let all = findings(opcodes);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    };
    assert!(one(b"}q\x00h\x00").starts_with("E5 segments[1]: this object also"));
    assert!(
        one(b"}\x8c\x01x\x8a\x07\x01\0\0\0\0\0\x20s").contains("`x` contains 9007199254740993"),
        "2^53 + 1"
    );
    assert!(one(b"}\x8c\x01x\x8a\x09\x01\0\0\0\0\0\0\0\0s").starts_with("E4 byte 20: an integer of 9 bytes"));
    assert!(one(b"}\x8c\x01x\x8a\x09\x01\0\0\0\0\0\0\0\x01s").contains("an int wider than 64 bits"));
    assert!(findings(b"}\x8c\x01x\x8a\x07\0\0\0\0\0\0\x20s").is_empty(), "2^53");
    assert!(one(b"}\x8c\x09__proto__Ns").starts_with("E6 "));
    assert!(one(b"}\x8c\x01x}K\x01Nss").contains("a key in `x` is an int, but keys must be str"));
    assert!(one(b"}\x8c\x01x\x8c\x05\xef\xbb\xbfabs").contains("byte order mark"));
    assert!(one(b"}\x8c\x01x\x8c\x02a\xffs").contains("not UTF-8"));
    assert!(one(b"}\x8c\x01xC\x02abs").contains("SHORT_BINBYTES"));
    assert!(one(b"}\x94\x8c\x01xq\x07Ns").contains("MEMOIZE and BINPUT"));
    assert!(one(b"}\x8c\x07addressJ\xff\xff\xff\xffs").starts_with("E4 segments[0]: `address` is -1"));
    assert!(one(b"}\x8c\x06stream\x88s").starts_with("E4 segments[0]: `stream` is a bool"));
    assert!(
        one(b"}\x8c\x06blocks]}\x8c\x04sizeG\0\0\0\0\0\0\0\0sas").contains("blocks[0]: `size` is a float")
    );
    assert!(one(&vec![b'}'; 1001]).starts_with("W3 "));
    assert!(one(&vec![b'}'; 60_001]).starts_with("E3 "));
}

#[test]
fn findings_are_bounded_and_the_rest_is_counted() {
    let many = b"\x8a\x09\x01\0\0\0\0\0\0\0\0".repeat(5000);
    let bytes = [b"\x80\x04}(\x8c\x08segments]\x8c\x01x](".as_slice(), &many, b"eu."].concat();
    let findings = pickle::inspect_slice(&bytes).findings;
    assert_eq!(findings.len(), 22, "the batch, twenty integers and their sum");
    assert_eq!(findings[21].to_string(), "E4 file: 4980 more findings like those above");
}
