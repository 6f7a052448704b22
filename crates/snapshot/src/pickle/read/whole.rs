//! Reads a whole snapshot: first on the fast path, and if that does not succeed, again without it.

#![forbid(unsafe_code)]

use super::{
    failure::{Attempt, Failure},
    findings::Findings,
    foreign,
    node::Offset,
    reader::{Means, Path, Reader},
};
use crate::{
    model::Snapshot,
    words::{Error, Finding, Result, Rule, Severity},
};

/// Returns the snapshot, or why the bytes are not one, and the invariants that the bytes break. Pages of the
/// mapped file of `means`, whose bytes these are, go back to the kernel once they are read.
pub(in crate::pickle) fn read(bytes: &[u8], means: Means<'_>) -> (Result<Snapshot>, Vec<Finding>) {
    reported(read_on_either_path(bytes, means), bytes.len() as u64)
}

/// Returns the result for a file that is rejected unread.
pub(in crate::pickle) fn refused(error: Error, n_bytes: u64) -> (Result<Snapshot>, Vec<Finding>) {
    reported((Err(error), Findings::default()), n_bytes)
}

fn reported(
    (snapshot, mut findings): (Result<Snapshot>, Findings),
    n_bytes: u64,
) -> (Result<Snapshot>, Vec<Finding>) {
    findings.file_size(n_bytes);
    let mut findings = findings.into_list();
    if let Err(error) = &snapshot {
        let place = format!("byte {}", error.offset().unwrap_or_default());
        findings.push(Finding::new(Rule::PickleOpcodes, Severity::Error, place, error.to_string()));
    }
    (snapshot, findings)
}

fn read_on_either_path(bytes: &[u8], means: Means<'_>) -> (Result<Snapshot>, Findings) {
    let (snapshot, findings) = match refusal(bytes.len() as u64) {
        Some(error) => (Err(error.into()), Findings::default()),
        None => match attempt(bytes, means, Path::Fast) {
            (Err(Failure::Fallback), _) => attempt(bytes, means, Path::Slow),
            done => done,
        },
    };
    if snapshot.is_err()
        && let Some(error) = foreign_error(bytes)
    {
        // The parser's findings on a file of another format are meaningless.
        return (Err(error), Findings::default());
    }
    let snapshot = snapshot.map_err(|failure| match failure {
        Failure::Malformed(error) => error,
        Failure::Fallback => Error::malformed(0, "a part of a trace is in a place where no snapshot has one"),
    });
    (snapshot, findings)
}

/// Returns why bytes are not a snapshot, if reading them ended with this error.
pub(super) fn error(bytes: &[u8], error: Error) -> Error {
    foreign_error(bytes).unwrap_or(error)
}

fn foreign_error(bytes: &[u8]) -> Option<Error> {
    let kind = foreign::kind(bytes)?;
    let what = match ["a ", "an ", "the "].iter().any(|article| kind.starts_with(article)) {
        true => format!("not a memory snapshot but {kind}"),
        false => format!("not a memory snapshot: the file is {kind}"),
    };
    Some(Error::foreign(what))
}

/// Returns why a file of this length is rejected before its first byte is read.
pub(in crate::pickle) fn refusal(n_bytes: u64) -> Option<Error> {
    let what = "files of 1 TiB or more are not read; record fewer events (max_entries)";
    (n_bytes >= Offset::END).then(|| Error::malformed(Offset::END, what))
}

fn attempt(bytes: &[u8], means: Means<'_>, path: Path) -> (Attempt<Snapshot>, Findings) {
    let mut reader = Reader::new(bytes, path).with(means);
    let snapshot = reader.read();
    (snapshot, reader.into_findings())
}

#[cfg(test)]
mod tests {
    use super::{super::samples, *};
    use fastrand::Rng;

    /// Returns the results of both paths for the bytes, as text; `None` if the fast path falls back.
    fn both(bytes: &[u8]) -> Option<[String; 2]> {
        let paths = [Path::Fast, Path::Slow].map(|path| attempt(bytes, Means::default(), path));
        if let (Err(Failure::Fallback), _) = paths[0] {
            return None;
        }
        Some(paths.map(|(snapshot, findings)| {
            let snapshot = snapshot.map(|snapshot| serde_json::to_string(&snapshot).unwrap());
            format!("{snapshot:?} {:?}", findings.into_list())
        }))
    }

    #[test]
    fn the_fast_path_reads_what_the_slow_path_reads() {
        let (mut random, mut n_equal) = (Rng::with_seed(1), 0);
        for (name, original) in samples::files() {
            let [fast, slow] = both(&original).expect("ordinary files take the fast path");
            assert!(fast == slow, "{name}: the paths differ");
            for _ in 0..150 {
                let (mut bytes, at) = (original.clone(), random.usize(..original.len()));
                bytes[at] = if random.bool() {
                    original[random.usize(..original.len())]
                } else {
                    bytes[at] ^ (1 << random.u32(..8))
                };
                if let Some([fast, slow]) = both(&bytes) {
                    assert_eq!(fast, slow, "{name}: byte {at} became {:#x}", bytes[at]);
                    n_equal += 1;
                }
            }
        }
        assert!(n_equal > 5000, "only {n_equal} mutations were compared");
    }

    /// What was built from an entry's containers is freed early, unless something else may still use them.
    #[test]
    fn an_entry_that_is_used_again_has_its_values_again() {
        let entry = |value: &[u8]| [b"}(\x8c\x06action\x8c\x05alloc\x8c\x01x", value, b"u"].concat();
        let bytes = [
            b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
            // Once; then with a number, on the entry, on its value and on a value in that.
            entry(b"](](K\x01ee"),
            entry(b"](](K\x02ee"),
            b"q\x00".to_vec(),
            entry(b"](](K\x03eeq\x01"),
            entry(b"](](K\x04eq\x02e"),
            entry(b"h\x01"),
            entry(b"h\x02"),
            b"h\x00".to_vec(),
            entry(b"}(J\0\0\0\x7fK\x01\x8a\x05\0\0\0\0\x01K\x02\x8a\x05\0\0\0\0\x01K\x03u"),
            b"ee\x8c\x08segments]u.".to_vec(),
        ]
        .concat();
        let [fast, slow] = both(&bytes).unwrap();
        assert_eq!(fast, slow);
        let snapshot = serde_json::to_value(read(&bytes, Means::default()).0.unwrap()).unwrap();
        let trace = &snapshot["device_traces"][0];
        let values: Vec<_> = (0..7).map(|at| trace[at]["x"].to_string()).collect();
        assert_eq!(values, ["[[1]]", "[[2]]", "[[3]]", "[[4]]", "[[3]]", "[4]", "[[2]]"]);
        assert_eq!(trace[7]["x"].to_string(), r#"{"2130706432":1,"4294967296":3}"#);
    }

    /// A frame that is written out has its value wherever the file uses it again, and so has its list.
    #[test]
    fn a_frame_that_is_used_again_has_its_values_again() {
        let entry = |rest: &[u8]| [b"}(\x8c\x06action\x8c\x05alloc", rest, b"u"].concat();
        let frame = |name: &[u8], end: &[u8]| {
            [b"}(\x8c\x04name", name, b"\x8c\x08filenameN\x8c\x04lineK\x07u", end].concat()
        };
        let early = |name: &[u8]| {
            [b"}q\x02(\x8c\x04name", name, b"\x8c\x08filename\x8c\x01f\x8c\x04lineK\x07u"].concat()
        };
        let bytes = [
            b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
            entry(
                &[
                    b"\x8c\x06frames](".to_vec(),
                    frame(b"\x8c\x01a", b""),
                    frame(b"\x8c\x01b", b"q\x00"),
                    b"eq\x01".to_vec(),
                ]
                .concat(),
            ),
            entry(&[b"\x8c\x06frames](".to_vec(), early(b"\x8c\x01c"), b"h\x00e".to_vec()].concat()),
            entry(b"\x8c\x06framesh\x01"),
            entry(b"\x8c\x01xh\x01\x8c\x01yh\x02"),
            entry(b"\x8c\x06frames](h\x02h\x02e\x8c\x01x](h\x02K\x01e"),
            b"e(h\x00ee\x8c\x08segments](h\x00h\x02e\x8c\x05otherh\x01u.".to_vec(),
        ]
        .concat();
        let slow = attempt(&bytes, Means::default(), Path::Slow).0.unwrap();
        let read = read(&bytes, Means::default()).0.unwrap();
        let [slow, read] = [slow, read].map(|snapshot| serde_json::to_value(&snapshot).unwrap());
        assert_eq!(slow, read);
        let trace = &read["device_traces"][0];
        let names = |stack: &serde_json::Value| {
            stack.as_array().unwrap().iter().map(|frame| frame["name"].as_str().unwrap()).collect::<String>()
        };
        assert_eq!([0, 1, 2, 4].map(|at| names(&trace[at]["frames"])), ["ab", "cb", "ab", "cc"]);
        assert_eq!(
            (names(&trace[3]["x"]), names(&read["other"]), names(&read["segments"])),
            ("ab".into(), "ab".into(), "bc".into())
        );
        assert_eq!(trace[5]["name"], "b", "in the place of an entry");
    }

    /// No pickler assigns a number twice, but a file may.
    #[test]
    fn a_number_assigned_again_means_the_new_value() {
        let entry = |frames: &[u8]| [b"}(h\x00h\x01h\x02](".as_slice(), frames, b"eu"].concat();
        let bytes = [
            b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
            b"}(\x8c\x06actionq\x00\x8c\x05allocq\x01\x8c\x06framesq\x02]u".to_vec(),
            entry(b"}(\x8c\x04name\x8c\x01auq\x0a"),
            entry(b"h\x0a"),
            entry(b"h\x0a"),
            entry(b"}(\x8c\x04name\x8c\x01buq\x0a"),
            entry(b"h\x0a"),
            // The key of the action becomes another one.
            b"}(h\x00h\x01\x8c\x01xq\x02Nu".to_vec(),
            b"}(h\x00h\x01h\x02Nu".to_vec(),
            b"eeu.".to_vec(),
        ]
        .concat();
        let [fast, slow] = both(&bytes).unwrap();
        assert_eq!(fast, slow);
        let trace =
            &serde_json::to_value(read(&bytes, Means::default()).0.unwrap()).unwrap()["device_traces"][0];
        let names: Vec<_> = (1..6).map(|at| trace[at]["frames"][0]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "a", "a", "b", "b"]);
        assert_eq!(trace[7].to_string(), r#"{"action":"alloc","x":null}"#);
    }
}
