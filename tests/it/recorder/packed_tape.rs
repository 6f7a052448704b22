//! Packed tapes: what is read from one is what is read from the tape that it was made of.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use memreel::{
    PackedTape, Recovered, Reel, RunNames, Snapshot, TapeKeeper, TapeProcess, device::Simulated, pickle,
    recorder::Recording,
};

use super::tape_damage::{self, damage_packed, recorded, recover};
use crate::random::Random;

/// Ends a recording, and packs its tape.
fn packed(path: &Path, reel: Reel, failure: Option<&str>) -> (Recovered, PackedTape) {
    reel.record_history(&Recording::off());
    drop(reel);
    let (recovered, packed) = Recovered::read_and_pack(path, &RunNames::default(), false, failure).unwrap();
    (recovered, packed.unwrap())
}

fn bytes_of(recovered: &Recovered) -> Vec<u8> {
    pickle::to_vec(&recovered.snapshot())
}

#[test]
fn a_packed_tape_is_read_as_the_tape() {
    let folder = tempfile::tempdir().unwrap();
    let [path, small] = ["run.tape", "small.tape"].map(|name| folder.path().join(name));
    // Some are in the ring, and others are folded into the list of live blocks.
    for n in [1, 300, 5000] {
        let (recovered, packed) = packed(&path, recorded(&path, n), None);
        packed.save(&small, false).unwrap();
        let again = Recovered::read(&small).unwrap();
        assert_eq!(again.problems(), [""; 0]);
        assert!(again.is_closed() && !again.is_running() && again.could_grow());
        assert_eq!((again.n_events(), again.process()), (recovered.n_events(), std::process::id()));
        assert!(bytes_of(&again) == bytes_of(&recovered), "{n} events");
        let [len, all] = [&small, &path].map(|path| fs::metadata(path).unwrap().len());
        assert!(len < all / 20, "{len} bytes instead of {all}");
    }
    assert!(Recovered::is_tape(&small) && Recovered::is_beginning(&fs::read(&small).unwrap()));
    let [of, of_packed] = [&path, &small].map(|path| TapeProcess::of(path).unwrap());
    assert!(of.is_same(&of_packed) && of_packed.has_ended());
}

#[test]
fn how_the_program_failed_is_in_the_packed_tape() {
    let folder = tempfile::tempdir().unwrap();
    let [path, small] = ["run.tape", "small.tape"].map(|name| folder.path().join(name));
    let (_, packed) = packed(&path, recorded(&path, 20), Some("it ended with status 3"));
    packed.save(&small, true).unwrap();
    let failure = |snapshot: Snapshot| snapshot.program_failure().map(str::to_owned);
    assert_eq!(
        failure(Recovered::read(&small).unwrap().snapshot()).as_deref(),
        Some("it ended with status 3")
    );
    assert_eq!(failure(Recovered::read(&path).unwrap().snapshot()), None);
}

#[test]
fn of_a_process_that_records_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = recorded(&path, 100);
    let (recovered, packed) = Recovered::read_and_pack(&path, &RunNames::default(), false, None).unwrap();
    assert!(packed.is_none() && recovered.is_running() && recovered.n_events() > 100);
    drop(reel);
}

#[test]
fn nothing_is_written_into_a_packed_tape() {
    let folder = tempfile::tempdir().unwrap();
    let [path, small] = ["run.tape", "small.tape"].map(|name| folder.path().join(name));
    packed(&path, recorded(&path, 20), None).1.save(&small, false).unwrap();
    let before = fs::read(&small).unwrap();
    for refused in [TapeKeeper::seal(&small).unwrap_err(), TapeKeeper::attach(&small).unwrap_err()] {
        assert!(refused.to_string().contains("its process has ended"), "{refused}");
    }
    assert!(fs::read(&small).unwrap() == before);
}

#[test]
fn a_damaged_one_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let whole = tape_damage::packed(&path);
    let mut random = Random::new(3);
    for number in 0..400 {
        let mut bytes = whole.clone();
        let at = damage_packed(&mut bytes, &mut random);
        match recover(&bytes, &path, number % 100 == 0) {
            Ok(recovered) => assert_ne!(recovered.problems(), [""; 0], "byte {at} of {}", whole.len()),
            Err(error) => assert!(error.is_malformed(), "{error}"),
        }
    }
    // Its mark and its version.
    for at in 0..20 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let error = recover(&bytes, &path, false).map(|_| at).unwrap_err();
        assert!(error.is_malformed(), "byte {at}: {error}");
    }
}

/// `fixtures/tapes/packed-1.tape` was written by the first version of the format.
#[test]
fn a_stored_one_is_still_read() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tapes/packed-1.tape");
    let recovered = Recovered::read(&stored).unwrap();
    let snapshot = recovered.snapshot();
    let sizes: Vec<u64> = snapshot.device_traces[0].iter().map(|entry| entry.size).collect();
    assert_eq!(recovered.n_events(), 6, "{sizes:?}");
    assert_eq!(sizes, [2 << 20, 1000, 3000, 1000, 1000, 2000]);
    assert_eq!(snapshot.program_failure(), Some("it failed"));
}

/// Writes the stored tape: `cargo test --test it -- --ignored packed_tape::stored`.
#[test]
#[ignore = "writes a file of the repository"]
fn stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let history = Recording::all().stacks(memreel::recorder::StackKind::None).tape(&path);
    let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
    let blocks = [1000, 3000].map(|bytes| reel.alloc(bytes).unwrap());
    let [first, second] = blocks;
    drop(first);
    let third = reel.alloc(2000).unwrap();
    let (_, packed) = packed(&path, reel, Some("it failed"));
    packed.save(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tapes/packed-1.tape"), false).unwrap();
    drop((second, third));
}
