//! Hostile and broken pickles: each gives a value or an error, quickly, and never a panic.
//!
//! A little over 400 lines: every case is one short test of the same kind.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
};

use memreel_snapshot::{
    Snapshot,
    pickle::{self, Inspection},
    validate::validate,
};

use crate::{
    fixtures::{all_pickles, name},
    random::Random,
};

/// The number of inputs by outcome.
#[derive(Default)]
struct Counts {
    n_values: usize,
    n_errors: usize,
}

impl Counts {
    /// Reads the bytes; what can be read must survive being checked, written and read again.
    fn read(&mut self, bytes: &[u8], what: impl Fn() -> String) {
        let done = catch_unwind(AssertUnwindSafe(|| match pickle::from_slice(bytes) {
            Ok(snapshot) => {
                survives(&snapshot);
                true
            }
            Err(error) => {
                assert!(error.is_malformed() && error.offset().is_some(), "{error}");
                assert!(error.offset() <= Some(bytes.len() as u64), "{error}");
                false
            }
        }));
        match done {
            Ok(true) => self.n_values += 1,
            Ok(false) => self.n_errors += 1,
            Err(_) => panic!("a panic on {}", what()),
        }
    }
}

fn survives(snapshot: &Snapshot) {
    let _ = validate(snapshot);
    let bytes = pickle::to_vec(snapshot);
    let again = pickle::from_slice(&bytes).expect("what was written can be read");
    assert_eq!((again.n_events(), again.segments.len()), (snapshot.n_events(), snapshot.segments.len()));
}

#[test]
fn every_prefix_of_a_file_is_a_value_or_an_error() {
    let mut counts = Counts::default();
    let mut random = Random::new(1);
    for path in all_pickles() {
        let bytes = fs::read(&path).unwrap();
        let lengths: Vec<_> = if bytes.len() < 16 * 1024 {
            (0..bytes.len()).collect()
        } else {
            (0..2000).map(|_| random.index(bytes.len())).collect()
        };
        for length in lengths {
            counts.read(&bytes[..length], || format!("the first {length} bytes of {}", name(&path)));
        }
    }
    let n = counts.n_values + counts.n_errors;
    memreel_testing::say(&format!("{n} prefixes: {} values, {} errors", counts.n_values, counts.n_errors));
    assert_eq!(counts.n_values, 0, "a file without its end is not a snapshot");
    assert!(counts.n_errors > 40_000, "only {} prefixes", counts.n_errors);
}

#[test]
fn mutated_bytes_are_a_value_or_an_error() {
    const N_MUTATIONS: usize = 100_000;
    let files: Vec<_> = all_pickles()
        .into_iter()
        .map(|path| (name(&path), fs::read(&path).unwrap()))
        .filter(|(_, bytes)| bytes.len() < 64 * 1024)
        .collect();
    let mut counts = Counts::default();
    let mut random = Random::new(2);
    for n in 0..N_MUTATIONS {
        let (name, original) = &files[n % files.len()];
        let mut bytes = original.clone();
        for _ in 0..=random.below(3) {
            let at = random.index(bytes.len());
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = *random.pick(original),
                2 => drop(bytes.remove(at)),
                _ => bytes[at] = random.next() as u8,
            }
        }
        counts.read(&bytes, || format!("mutation {n} (of {name})"));
    }
    memreel_testing::say(&format!(
        "{N_MUTATIONS} mutations: {} values, {} errors",
        counts.n_values, counts.n_errors
    ));
    assert_eq!(counts.n_values + counts.n_errors, N_MUTATIONS);
    assert!(counts.n_values > 1000 && counts.n_errors > 1000, "one of the two outcomes is not tried");
}

/// The error of bytes that must not load.
fn error(bytes: &[u8]) -> String {
    let Inspection { snapshot, findings, .. } = pickle::inspect_slice(bytes);
    let error = snapshot.expect_err("this is not a snapshot");
    let last = findings.last().expect("what cannot be loaded gives a finding");
    assert!(last.severity.letter() == 'E' && last.what == error.to_string(), "{last}");
    error.to_string()
}

/// A snapshot's dictionary with one more key, whose value these opcodes make.
fn with_value(opcodes: &[u8]) -> Vec<u8> {
    let before = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]\x8c\x01x";
    [before, opcodes, b"u."].concat()
}

#[test]
fn code_is_named_and_not_run() {
    let message = error(b"\x80\x04cos\nsystem\n(\x8c\x02lstR.");
    assert!(message.contains("GLOBAL would run code") && message.contains("at byte 2"), "{message}");
    let refused: &[(u8, &str)] = &[
        (b'c', "GLOBAL"),
        (0x93, "STACK_GLOBAL"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
        (0x82, "EXT1"),
        (0x97, "NEXT_BUFFER"),
    ];
    for (op, name) in refused {
        let message = error(&with_value(&[*op]));
        assert!(
            message.contains(&format!("{name} would run code")) && message.contains("at byte 34"),
            "{message}"
        );
    }
}

#[test]
fn lengths_beyond_the_file_take_no_memory() {
    let huge: &[&[u8]] = &[
        b"X\xff\xff\xff\xffabc",
        b"B\xff\xff\xff\x7f",
        b"\x8b\xff\xff\xff\x7f",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8a\xff",
        b"C\xff",
    ];
    for opcodes in huge {
        let message = error(&[b"\x80\x04".as_slice(), opcodes].concat());
        assert!(message.contains("the file ends"), "{message}");
    }
}

#[test]
fn memo_numbers_beyond_reason_take_no_memory() {
    let fine = with_value(b"Nr\x00\x00\x00\x80j\x00\x00\x00\x80\x86");
    assert!(pickle::from_slice(&fine).is_ok(), "2^31 is a number like any other");
    let mut many = b"N".to_vec();
    (0..100_000u32)
        .for_each(|n| many.extend([b"r".as_slice(), &(u32::MAX - n * 40_000).to_le_bytes()].concat()));
    assert!(pickle::from_slice(&with_value(&many)).is_ok());
    assert!(error(b"\x80\x04h\x07.").contains("nothing was memoized as number 7"));
}

#[test]
fn nested_lists_are_an_error() {
    const N: usize = 100_000;
    let message = error(&with_value(&[vec![b']'; N], vec![b'a'; N - 1]].concat()));
    assert!(message.contains("nest more than 100 deep"), "{message}");
    let open = error(&with_value(&vec![b'('; N]));
    assert!(open.contains("at byte"), "{open}");
    let mut tuples = vec![b')'];
    tuples.resize(N, 0x85);
    assert!(error(&with_value(&tuples)).contains("nest more than 100 deep"));
    let hundred = [vec![b']'; 99], vec![b'a'; 98]].concat();
    assert!(pickle::from_slice(&with_value(&hundred)).is_ok(), "less deep is fine");
}

/// Opcodes of one byte that make values of many: millions of each are refused before they take their memory. An item
/// takes eight bytes, which is near the limit, and a container far more.
#[test]
fn values_out_of_proportion_to_the_file_are_an_error() {
    const N: usize = 10_000_000;
    for (op, n_times) in [(b']', 1), (b'}', 1), (b')', 1), (b'(', 9), (b'N', 9), (0x94, 9)] {
        let message = error(&with_value(&[b"N".as_slice(), &vec![op; n_times * N]].concat()));
        assert!(message.contains("far more than a snapshot of this length needs"), "{op:#x}: {message}");
        let few = pickle::from_slice(&with_value(&[b"N".as_slice(), &vec![op; 100_000]].concat()));
        assert!(!few.is_err_and(|error| error.to_string().contains("far more than")), "{op:#x}");
    }
    // An unknown key whose value is a list of empty lists.
    let list = |n| with_value(&[b"](".as_slice(), &vec![b']'; n], b"e"].concat());
    assert!(error(&list(N)).contains("far more than a snapshot of this length needs"));
    assert!(pickle::from_slice(&list(100_000)).is_ok());
}

/// What CPython writes of a snapshot that another program read and built anew: no frame is shared, and every container
/// has a number in the memo. The smallest such file takes the most memory for its length.
#[test]
fn frames_that_are_dictionaries_each_time_are_read() {
    const N: u32 = 50_000;
    let word = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes(), b"\x94"].concat();
    let words =
        ["action", "alloc", "addr", "size", "stream", "time_us", "frames", "name", "filename", "line", "f"];
    let mut file = [b"\x80\x04}\x94(".as_slice(), &word("words"), b"]\x94("].concat();
    words.iter().for_each(|text| file.extend(word(text)));
    file.extend(
        [b"e".as_slice(), &word("segments"), b"]\x94", &word("device_traces"), b"]\x94(]\x94("].concat(),
    );
    // The words have the numbers from 3 on.
    let frames: Vec<u8> =
        (0..20).flat_map(|line| [b"}\x94(h\x0ah\x0dh\x0bh\x0dh\x0cK", &[line][..], b"u"].concat()).collect();
    for n in 0..N {
        file.extend(b"}\x94(h\x03h\x04h\x05J");
        file.extend((4096 + 512 * n).to_le_bytes());
        file.extend(b"h\x06M\x00\x02h\x07K\x00h\x08J");
        file.extend(n.to_le_bytes());
        file.extend([b"h\x09]\x94(".as_slice(), &frames, b"eu"].concat());
    }
    file.extend(b"eeu.");
    let snapshot = pickle::from_slice(&file).unwrap();
    let entries = &snapshot.device_traces[0];
    assert_eq!((entries.len(), snapshot.frames(entries[0].stack).count()), (N as usize, 20));
    assert!(entries.iter().all(|entry| entry.stack == entries[0].stack));
}

#[test]
fn containers_that_hold_themselves_are_errors() {
    assert!(error(&with_value(b"]q\x00h\x00a")).contains("contains itself"));
    // A list in a dict in that list, and a tuple in between.
    assert!(error(&with_value(b"]q\x00}\x8c\x01kh\x00sa")).contains("grows after being put into another"));
    assert!(error(&with_value(b"]q\x00h\x00\x85a")).contains("grows after being put into another"));
    // A trace that holds itself, and an entry whose frames are its own trace.
    let trace = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]q\x00h\x00au.";
    assert!(error(trace).contains("contains itself"));
    let entry =
        b"\x80\x04}(\x8c\x0ddevice_traces]q\x00]q\x01}(\x8c\x06action\x8c\x05alloc\x8c\x06framesh\x01uaau.";
    assert!(error(entry).contains("grows after being put into another"));
}

#[test]
fn a_billion_laughs_are_an_error_or_small() {
    let laughs = |n: u8| {
        let mut opcodes = b"]q\x00".to_vec();
        (0..n)
            .for_each(|level| opcodes.extend([b']', b'(', b'h', level, b'h', level, b'e', b'q', level + 1]));
        let mut fill = vec![b']', b'(', b'N', b'e'];
        fill.append(&mut opcodes);
        // The list of levels would end as a stack of values; one tuple takes them all.
        [b"(".as_slice(), &fill, b"t"].concat()
    };
    let message = error(&with_value(&laughs(90)));
    assert!(message.contains("outgrow it many times over"), "{message}");
    let small = pickle::from_slice(&with_value(&laughs(10))).unwrap();
    survives(&small);
}

#[test]
fn a_record_used_a_million_times_does_not_multiply() {
    let mut segments = b"\x80\x04}(\x8c\x08segments](}(\x8c\x06blocks](".to_vec();
    (0..100_000).for_each(|_| segments.extend(b"}"));
    segments.extend(b"euq\x00");
    (0..100_000).for_each(|_| segments.extend(b"h\x00"));
    segments.extend(b"eu.");
    assert!(error(&segments).contains("outgrow it many times over"));
    let mut traces = b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec();
    (0..100_000).for_each(|_| traces.extend(b"}(\x8c\x06action\x8c\x05allocu"));
    traces.extend(b"eq\x00");
    (0..100_000).for_each(|_| traces.extend(b"h\x00"));
    traces.extend(b"eu.");
    assert!(error(&traces).contains("outgrow it many times over"));
}

/// A list from the memo that gets a dictionary while it is a value of an entry: the dictionary is not the entry's alone.
#[test]
fn a_list_that_grows_within_an_entry_keeps_what_it_got() {
    let inner = b"}(\x8c\x04addrK\x07\x8c\x06action\x8c\x05alloc\x8c\x01z]u".as_slice();
    let file = [
        b"\x80\x04}(\x8c\x01w]q\x00\x8c\x08segments]\x8c\x0ddevice_traces](](".as_slice(),
        b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x05\x8c\x01y]\x8c\x01xh\x00",
        inner,
        b"aueh\x00e\x8c\x01vh\x00u.",
    ]
    .concat();
    let snapshot = serde_json::to_value(pickle::from_slice(&file).unwrap()).unwrap();
    let got = serde_json::json!([{"addr": 7, "action": "alloc", "z": []}]);
    assert_eq!((&snapshot["w"], &snapshot["v"], &snapshot["device_traces"][1]), (&got, &got, &got));
    assert_eq!(snapshot["device_traces"][0][0]["x"], got);
}

#[test]
fn a_record_with_countless_keys_is_an_error() {
    let mut opcodes = b"\x80\x04}(\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x05alloc".to_vec();
    (0..100_000u32).for_each(|n| {
        opcodes.extend(b"\x8c\x06");
        opcodes.extend(format!("{n:06}").as_bytes());
        opcodes.push(b'N');
    });
    opcodes.extend(b"ueeu.");
    assert!(error(&opcodes).contains("more than 256 keys"));
}

#[test]
fn what_follows_the_end_is_ignored() {
    let bytes = [with_value(b"K\x07"), b"cos\nsystem\n".to_vec()].concat();
    let snapshot = pickle::from_slice(&bytes).unwrap();
    assert_eq!(snapshot.shape.value("x").and_then(|value| value.as_int()), Some(7));
}

#[test]
fn each_opcode_cut_off_is_an_error_at_its_place() {
    let opcodes: &[&[u8]] = &[
        b"\x80",
        b"\x95\0\0",
        b"K",
        b"M\0",
        b"J\0\0",
        b"\x8a",
        b"\x8a\x02\0",
        b"\x8b\0",
        b"\x8c",
        b"\x8c\x02a",
        b"X\0",
        b"\x8d\0",
        b"G\0\0",
        b"h",
        b"j\0",
        b"Nq",
        b"Nr\0",
        b"B\0",
        b"C\x01",
        b"\x8e\0",
        b"I12",
    ];
    for opcode in opcodes {
        let bytes = [b"\x80\x04".as_slice(), opcode].concat();
        let error = pickle::from_slice(&bytes).unwrap_err();
        assert!(
            error.offset() >= Some(2) && error.offset() <= Some(bytes.len() as u64),
            "{opcode:?}: {error}"
        );
    }
}

#[test]
fn opcodes_without_what_they_need_are_errors() {
    let opcodes: &[&[u8]] = &[
        b"a",
        b"]a",
        b"s",
        b"}s",
        b"}Ns",
        b"u",
        b"e",
        b"t",
        b"l",
        b"d",
        b"\x85",
        b"N\x86",
        b"NN\x87",
        b"q\0",
        b"\x94",
        b"(q\0",
        b"N(a",
        b"](Ne(Nu",
        b"}(Nu",
        b"N(Ne",
        b"})Ns]s",
        b"}](}NuNs",
    ];
    for opcode in opcodes {
        let bytes = [b"\x80\x04".as_slice(), opcode, b"."].concat();
        assert!(pickle::from_slice(&bytes).is_err(), "{}", opcode.escape_ascii());
    }
}

/// Each dictionary holds, under a key of its own, a list of the one before:
/// lists of frames, to a reader that takes them for stacks.
#[test]
fn stacks_in_frames_do_not_nest_without_end() {
    let mut bytes = b"\x80\x04](}\x94".to_vec();
    for n in 0..100_000_u32 {
        bytes.extend(b"}\x94\x8c\x08");
        bytes.extend(format!("key{n:05}").as_bytes());
        bytes.extend(b"\x94](j");
        // The dictionary before: the first has number 0, each later one comes with its key.
        let before = if n == 0 { 0 } else { 2 * n - 1 };
        bytes.extend(before.to_le_bytes());
        bytes.extend(b"es");
    }
    bytes.extend(b"e.");
    let read = pickle::from_slice(&bytes);
    assert!(read.is_err(), "a hundred thousand levels are refused");
}
