//! Bytes become a snapshot: first over the fast road, and where that meets what it does not expect, again without it.

#![forbid(unsafe_code)]

use super::{
    findings::Findings,
    machine::{Halt, Machine, Step},
};
use crate::{
    error::{Error, Result},
    snapshot::{
        Snapshot,
        validate::{Finding, Severity},
    },
};

/// Containers and texts are numbered with 32 bits.
const MAX_FILE_BYTES: u64 = u32::MAX as u64;

/// A snapshot, if the bytes hold one, and what is wrong with the bytes.
pub(super) fn read(bytes: &[u8]) -> (Result<Snapshot>, Vec<Finding>) {
    let (snapshot, mut findings) = read_on_a_road(bytes);
    findings.file_size(bytes.len());
    let mut findings = findings.into_list();
    if let Err(error) = &snapshot {
        let place = format!("byte {}", error.offset().unwrap_or_default());
        findings.push(Finding::new(3, Severity::Error, place, error.to_string()));
    }
    (snapshot, findings)
}

fn read_on_a_road(bytes: &[u8]) -> (Result<Snapshot>, Findings) {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let what = "files of 4 GiB and more are not read; record fewer events (max_entries)";
        return (Err(Error::malformed(MAX_FILE_BYTES, what)), Findings::default());
    }
    let (snapshot, findings) = match attempt(bytes, true) {
        (Err(Halt::Unusual), _) => attempt(bytes, false),
        done => done,
    };
    let snapshot = snapshot.map_err(|halt| match halt {
        Halt::Malformed(error) => error,
        Halt::Unusual => Error::malformed(0, "a part of a trace stands where no snapshot has one"),
    });
    (snapshot, findings)
}

fn attempt(bytes: &[u8], is_fast: bool) -> (Step<Snapshot>, Findings) {
    let mut machine = Machine::new(bytes, is_fast);
    let snapshot = machine.run().and_then(|top| machine.assemble(top));
    (snapshot, machine.findings)
}
