//! Profiles of pprof, read as snapshots: of JAX's form, and memreel's own export.

use std::io::Write;

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, SettingsReader, Site},
    export, pickle,
    profile::{from_slice, is_profile},
};
use memreel_testing::fixtures::fixtures;

/// A field of a message: a number, or bytes with a length.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

use Field::{Bytes, Number};

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

fn message(fields: &[(u64, Field<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tag, field) in fields {
        match field {
            Number(number) => bytes.extend([varint(tag << 3), varint(*number)].concat()),
            Bytes(of) => bytes.extend([varint(tag << 3 | 2), varint(of.len() as u64), of.to_vec()].concat()),
        }
    }
    bytes
}

fn packed(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| varint(*number)).collect()
}

const TEXTS: [&str; 12] = [
    "",
    "allocations",
    "count",
    "space",
    "bytes",
    "kind",
    "buffer",
    "device",
    "cuda:1",
    "train_step",
    "/app/train.py",
    "executable",
];

/// A profile of JAX's form: samples of a stack (1: `train_step`, 0: none), objects, bytes, and the text of the kind.
fn jax(types: [(u64, u64); 2], samples: &[(u64, u64, u64, u64)]) -> Vec<u8> {
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    for (kind, unit) in types {
        parts.push((1, message(&[(1, Number(kind)), (2, Number(unit))])));
    }
    for (location, objects, bytes, kind) in samples {
        let locations = packed(&[*location][..usize::from(*location > 0)]);
        let values = packed(&[*objects, *bytes]);
        let of_kind = message(&[(1, Number(5)), (2, Number(*kind))]);
        let of_device = message(&[(1, Number(7)), (2, Number(8))]);
        parts.push((
            2,
            message(&[
                (1, Bytes(&locations)),
                (2, Bytes(&values)),
                (3, Bytes(&of_kind)),
                (3, Bytes(&of_device)),
            ]),
        ));
    }
    let line = message(&[(1, Number(1)), (2, Number(41))]);
    parts.push((4, message(&[(1, Number(1)), (4, Bytes(&line))])));
    parts.push((5, message(&[(1, Number(1)), (2, Number(9)), (4, Number(10))])));
    parts.extend(TEXTS.map(|text| (6, text.as_bytes().to_vec())));
    let fields: Vec<_> = parts.iter().map(|(tag, bytes)| (*tag, Bytes(bytes))).collect();
    message(&fields)
}

const LIVE: [(u64, u64); 2] = [(1, 2), (3, 4)];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_profile_of_jax_is_a_snapshot_of_its_buffers() {
    let profile = jax(LIVE, &[(1, 3, 10, 6), (0, 1, 500, 11), (1, 0, 0, 6)]);
    for bytes in [profile.clone(), gzip(&profile)] {
        assert!(is_profile(&bytes) && is_profile(&bytes[..bytes.len().min(60)]));
        let snapshot = from_slice(&bytes).unwrap();
        let history = DeviceHistory::new(&snapshot, DeviceId(1));
        let groups = history.top(history.end(), By::Stack);
        let shown: Vec<_> = groups
            .iter()
            .map(|group| {
                let Site::Stack(stack) = group.site else { panic!("{group:?}") };
                let frame = snapshot.frames(Some(stack)).next().unwrap();
                (group.bytes, group.n_blocks, format!("{} {}:{}", frame.name, frame.filename, frame.line))
            })
            .collect();
        assert_eq!(
            shown,
            [(500, 1, "(executable) :0".to_owned()), (10, 3, "train_step /app/train.py:41".to_owned())]
        );
        assert_eq!(snapshot.n_events(), 0);
        assert!(
            matches!(SettingsReader::of(&snapshot), SettingsReader::Other(_)),
            "no setting of PyTorch is advised"
        );
    }
}

/// What memreel exports is read again: each stack has the bytes and the blocks that are live.
#[test]
fn an_exported_profile_has_the_live_bytes_of_each_stack() {
    for file in ["resnet18_python_stacks.pickle", "transformer_all_stacks.pickle"] {
        let snapshot = pickle::load(fixtures("torch-2.11/snapshots").join(file)).unwrap();
        let mut bytes = Vec::new();
        export::convert(&snapshot, export::Format::Pprof, &mut bytes).unwrap();
        let live = |snapshot: &Snapshot| {
            let history = DeviceHistory::new(snapshot, DeviceId(0));
            let groups = history.top(history.end(), By::Stack);
            // Blocks without a stack are groups by size; in a profile they are one sample.
            let (with, without): (Vec<_>, Vec<_>) =
                groups.iter().partition(|group| matches!(group.site, Site::Stack(_)));
            let mut all: Vec<_> = with.iter().map(|group| (group.bytes, group.n_blocks)).collect();
            all.sort_unstable();
            let rest = without.iter().map(|group| group.bytes).sum::<u64>();
            all.push((rest, without.iter().map(|group| group.n_blocks).sum()));
            all
        };
        let expected = live(&snapshot);
        assert!(expected.len() > 4, "{file}: {expected:?}");
        assert_eq!(live(&from_slice(&bytes).unwrap()), expected, "{file}");
    }
}

#[test]
fn other_profiles_and_damaged_ones_are_refused() {
    let why = |bytes: &[u8]| from_slice(bytes).unwrap_err().to_string();
    let of_time = jax([(9, 2), (5, 10)], &[(1, 3, 10, 6)]);
    assert!(
        why(&of_time).starts_with("not a profile of live memory: its values are train_step (count)"),
        "{}",
        why(&of_time)
    );
    let profile = jax(LIVE, &[(1, 3, 10, 6)]);
    let packed = gzip(&profile);
    assert!(why(&packed[..packed.len() / 2]).contains("gzip"));
    for at in 0..profile.len() {
        let _ = from_slice(&profile[..at]);
        for change in [1, 0x80, 0xff] {
            let mut damaged = profile.clone();
            damaged[at] ^= change;
            let _ = from_slice(&damaged);
        }
    }
    for other in
        [&b""[..], b"\n{\"segments\": []}", b"\x80\x04}.", b"\x1f\x8b", &gzip(b"\x80\x04}."), b"text"]
    {
        assert!(!is_profile(other), "{other:?}");
    }
}

/// A count of objects is no reason to take memory.
#[test]
fn a_profile_of_many_objects_is_bounded() {
    let profile =
        jax(LIVE, &[(1, u64::MAX / 4, u64::MAX / 4, 6), (1, 3, u64::MAX / 4, 6), (1, 1, u64::MAX / 2, 6)]);
    let snapshot = from_slice(&profile).unwrap();
    assert_eq!(snapshot.segments[0].blocks.len(), 1 + 3 + 1);
}
