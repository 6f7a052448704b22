//! Broken pickles, and those that the hostile corpus says are refused: each gives a value or an error, quickly, and never a
//! panic.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
};

use memreel_snapshot::{
    Snapshot,
    pickle::{self, Inspection},
    validate::validate,
};
use memreel_testing::hostile::{CASES, Form, Refused, refused, with_value};

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

/// Returns the error of bytes that must not load, and its place.
fn error(bytes: &[u8]) -> (String, u64) {
    let Inspection { snapshot, findings, .. } = pickle::inspect_slice(bytes);
    let error = snapshot.expect_err("this is not a snapshot");
    let last = findings.last().expect("what cannot be loaded gives a finding");
    assert!(last.severity.letter() == 'E' && last.what == error.to_string(), "{last}");
    (error.to_string(), error.offset().expect("a place"))
}

#[test]
fn what_is_no_snapshot_is_refused_at_its_place() {
    for Refused { name, bytes, message } in refused() {
        let (error, at) = error(&bytes);
        // JSON is read by serde_json and by the program.
        let is_json = matches!(bytes.first(), Some(b'{' | b'['));
        let message = if is_json { "not a memory snapshot but a text file, perhaps JSON" } else { message };
        assert!(error.contains(message), "{name}: {error}");
        let places = if name.starts_with("code-") { 34..=34 } else { 0..=bytes.len() as u64 };
        assert!(places.contains(&at), "{name}: {error}");
        assert!(at == 0 || error.ends_with(&format!("(at byte {at})")), "{name}: {error}");
    }
}

/// Opcodes of one byte that make values of many: millions of each are refused before they take their memory. An item
/// takes eight bytes, which is near the limit, and a container far more.
#[test]
fn values_out_of_proportion_to_the_file_are_an_error() {
    const N: usize = 10_000_000;
    let vast = "far more than a snapshot of this length needs";
    for (op, n_times) in [(b']', 1), (b'}', 1), (b')', 1), (b'(', 9), (b'N', 9), (0x94, 9)] {
        let (message, _) = error(&with_value(&[b"N".as_slice(), &vec![op; n_times * N]].concat()));
        assert!(message.contains(vast), "{op:#x}: {message}");
        let few = pickle::from_slice(&with_value(&[b"N".as_slice(), &vec![op; 100_000]].concat()));
        assert!(!few.is_err_and(|error| error.to_string().contains("far more than")), "{op:#x}");
    }
    // An unknown key whose value is a list of empty lists.
    let list = |n| with_value(&[b"](".as_slice(), &vec![b']'; n], b"e"].concat());
    assert!(error(&list(N)).0.contains(vast));
    assert!(pickle::from_slice(&list(100_000)).is_ok());
}

#[test]
fn what_only_looks_hostile_is_read() {
    let case = |name: &str, n| {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        pickle::from_slice(&case.of(Form::Pickle, n)).unwrap()
    };
    let snapshot = case("stacks-each-time", 50_000);
    let entries = &snapshot.device_traces[0];
    assert_eq!((entries.len(), snapshot.frames(entries[0].stack).count()), (50_000, 20));
    assert!(entries.iter().all(|entry| entry.stack == entries[0].stack));
    // Numbers of the memo up to the highest, of which 2^31 is one like any other.
    case("memo-far", 100_000);
    assert!(pickle::from_slice(&with_value(b"Nr\0\0\0\x80j\0\0\0\x80\x86")).is_ok());
    survives(&case("memo-laughs", 10));
    let hundred = [vec![b']'; 99], vec![b'a'; 98]].concat();
    assert!(pickle::from_slice(&with_value(&hundred)).is_ok(), "less deep is fine");
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
fn what_follows_the_end_is_ignored() {
    let bytes = [with_value(b"K\x07"), b"cos\nsystem\n".to_vec()].concat();
    let snapshot = pickle::from_slice(&bytes).unwrap();
    assert_eq!(snapshot.shape.value("x").and_then(|value| value.as_int()), Some(7));
}
