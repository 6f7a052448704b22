//! Bytes become a snapshot: first over the fast road, and where that meets what it does not expect, again without it.

#![forbid(unsafe_code)]

use super::{
    findings::Findings,
    foreign, integers,
    parser::{Halt, Machine, Step},
};
use crate::{
    error::{Error, Result},
    finding::{Finding, Severity},
    snapshot::Snapshot,
};

/// Containers and texts are numbered with 32 bits.
const MAX_FILE_BYTES: u64 = u32::MAX as u64;

/// A snapshot, if the bytes hold one, and what is wrong with the bytes.
pub(in crate::pickle) fn read(bytes: &[u8]) -> (Result<Snapshot>, Vec<Finding>) {
    let (snapshot, mut findings) = read_on_a_road(bytes);
    findings.file_size(bytes.len());
    if let Ok(snapshot) = &snapshot {
        integers::check(snapshot, &mut findings);
    }
    let mut findings = findings.into_list();
    if let Err(error) = &snapshot {
        let place = format!("byte {}", error.offset().unwrap_or_default());
        findings.push(Finding::new(3, Severity::Error, place, error.to_string()));
    }
    (snapshot, findings)
}

fn read_on_a_road(bytes: &[u8]) -> (Result<Snapshot>, Findings) {
    let (snapshot, findings) = match refusal(bytes) {
        Some(error) => (Err(error.into()), Findings::default()),
        None => match attempt(bytes, true) {
            (Err(Halt::Unusual), _) => attempt(bytes, false),
            done => done,
        },
    };
    if snapshot.is_err()
        && let Some(kind) = foreign::kind(bytes)
    {
        // What the machine found on its way through something else tells nothing.
        return (Err(Error::foreign(format!("no memory snapshot: the file is {kind}"))), Findings::default());
    }
    let snapshot = snapshot.map_err(|halt| match halt {
        Halt::Malformed(error) => error,
        Halt::Unusual => Error::malformed(0, "a part of a trace stands where no snapshot has one"),
    });
    (snapshot, findings)
}

/// Why a file is not even begun with.
pub(super) fn refusal(bytes: &[u8]) -> Option<Error> {
    let what = "files of 4 GiB and more are not read; record fewer events (max_entries)";
    (bytes.len() as u64 > MAX_FILE_BYTES).then(|| Error::malformed(MAX_FILE_BYTES, what))
}

fn attempt(bytes: &[u8], is_fast: bool) -> (Step<Snapshot>, Findings) {
    let mut machine = Machine::new(bytes, is_fast);
    let snapshot = machine.run().and_then(|top| machine.assemble(top));
    (snapshot, machine.findings)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// What both roads make of the bytes, as texts; the fast one may pass.
    fn both(bytes: &[u8]) -> Option<[String; 2]> {
        let roads = [true, false].map(|is_fast| attempt(bytes, is_fast));
        if let (Err(Halt::Unusual), _) = roads[0] {
            return None;
        }
        Some(roads.map(|(snapshot, findings)| {
            let snapshot = snapshot.map(|snapshot| serde_json::to_string(&snapshot).unwrap());
            format!("{snapshot:?} {:?}", findings.into_list())
        }))
    }

    #[test]
    fn the_fast_road_makes_what_the_general_one_makes() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let (mut seed, mut n_equal) = (0x9e37_79b9_7f4a_7c15_u64, 0);
        let mut below = |limit: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % limit as u64).unwrap()
        };
        for folder in ["synthetic", "torch-2.11/snapshots"] {
            for entry in fs::read_dir(fixtures.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let original = fs::read(&path).unwrap();
                let [fast, general] = both(&original).expect("ordinary files go over the fast road");
                assert!(fast == general, "{}: the roads differ", path.display());
                for n in 0..if original.len() < 8192 { 300 } else { 0 } {
                    let mut bytes = original.clone();
                    let at = below(bytes.len());
                    bytes[at] =
                        if n % 2 == 0 { original[below(original.len())] } else { bytes[at] ^ 1 << below(8) };
                    if let Some([fast, general]) = both(&bytes) {
                        assert_eq!(fast, general, "{}: byte {at} became {:#x}", path.display(), bytes[at]);
                        n_equal += 1;
                    }
                }
            }
        }
        assert!(n_equal > 5000, "only {n_equal} mutations were compared");
    }
    /// No pickler gives a number twice, but a file may.
    #[test]
    fn a_number_put_again_stands_for_the_new_value() {
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
        let [fast, general] = both(&bytes).unwrap();
        assert_eq!(fast, general);
        let trace = &serde_json::to_value(read(&bytes).0.unwrap()).unwrap()["device_traces"][0];
        let names: Vec<_> = (1..6).map(|at| trace[at]["frames"][0]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "a", "a", "b", "b"]);
        assert_eq!(trace[7].to_string(), r#"{"action":"alloc","x":null}"#);
    }
}
