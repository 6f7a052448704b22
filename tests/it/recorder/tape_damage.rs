//! Tapes that are damaged as random numbers say, for the tests of tapes and for a fuzzer.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use memreel::{
    DeviceId, Recovered, Reel, Result, RunNames, Snapshot, device::Simulated, integrate::UsageReport, pickle,
    recorder::Recording, validate::validate,
};

use crate::random::Random;

pub(crate) const SLOT_BYTES: usize = 128 + (32 << 10);
pub(crate) const HEADER_BYTES: usize = 4096;

/// Records some hundred events into a file, whose process still runs, and a report of the device with each tenth.
pub(crate) fn recorded(path: &Path, n: u64) -> Reel {
    let history = Recording::all().max_entries(1500).tape(path);
    let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
    reel.recorder().describe_device(DeviceId(0), "simulated", "no. 1");
    let mut live = Vec::new();
    for number in 0..n {
        let _scope = reel.scope(if number % 2 == 0 { "even" } else { "odd" });
        live.push(reel.alloc(512 * (number + 1)).unwrap());
        if number % 10 == 0 {
            let report = UsageReport { used_bytes: number << 30, ..UsageReport::default() };
            reel.recorder().report_usage(DeviceId(0), report);
        }
        if live.len() > 20 {
            live.remove((number % 20) as usize);
        }
    }
    reel.recorder().record_history(&Recording::all().max_entries(1500).tape(path));
    std::mem::forget(live);
    reel
}

/// The bytes of a tape of which the process is gone, without the slots that nothing is in.
pub(crate) fn tape(path: &Path) -> Vec<u8> {
    drop(recorded(path, 900));
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(HEADER_BYTES + 8 * SLOT_BYTES);
    bytes
}

/// The bytes of a packed tape.
pub(crate) fn packed(path: &Path) -> Vec<u8> {
    drop(recorded(path, 900));
    let (_, packed) = Recovered::read_and_pack(path, &RunNames::default(), true, None).unwrap();
    packed.unwrap().save(path, false).unwrap();
    fs::read(path).unwrap()
}

/// Changes a bit of a packed tape, or cuts it. Returns where.
pub(crate) fn damage_packed(bytes: &mut Vec<u8>, random: &mut Random) -> usize {
    let at = random.index(bytes.len());
    match random.chance(2) {
        true => bytes.truncate(at),
        false => bytes[at] ^= 1 << random.below(8),
    }
    at
}

/// Changes a tape where bytes are, mostly: in headers and at the beginnings of bodies. Sometimes a slot takes the place of
/// another, or the file is cut.
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let n_slots = bytes.len().saturating_sub(HEADER_BYTES) / SLOT_BYTES;
    for _ in 0..=random.below(8) {
        let slot = |random: &mut Random| HEADER_BYTES + random.index(n_slots) * SLOT_BYTES;
        let at = slot(random);
        match random.below(12) {
            0 => bytes[random.index(HEADER_BYTES)] = random.below(256) as u8,
            1..3 => bytes[at + random.index(64)] = random.below(256) as u8,
            3 => {
                let (word, value) = (at + 8 * random.index(8), random.below(u64::MAX) >> random.below(64));
                bytes[word..word + 8].copy_from_slice(&value.to_le_bytes());
            }
            4 => {
                let other = slot(random);
                bytes.copy_within(other..other + SLOT_BYTES, at);
            }
            5 if random.chance(4) => return bytes.truncate(random.index(bytes.len())),
            _ => bytes[at + 128 + random.index(4000)] = random.below(256) as u8,
        }
    }
}

/// Writes and reads a damaged tape. If `asks`, its snapshot is made too, and must be read as it was written.
///
/// # Errors
/// If it is refused.
pub(crate) fn recover(bytes: &[u8], path: &Path, asks: bool) -> Result<Recovered> {
    fs::write(path, bytes).unwrap();
    let recovered = Recovered::read(path)?;
    if asks {
        let snapshot = recovered.snapshot();
        let again = pickle::from_slice(&pickle::to_vec(&snapshot)).unwrap();
        let events = |snapshot: &Snapshot| -> Vec<_> {
            let all = snapshot.device_traces.iter().flatten();
            // A size of 63 bits and more is not one for readers.
            let size = |bytes: u64| i64::try_from(bytes).unwrap_or(0);
            all.map(|entry| (entry.action, entry.address, size(entry.size), entry.time_us)).collect()
        };
        let (written, read) = (events(&snapshot), events(&again));
        assert_eq!(read.len(), written.len());
        for (read, written) in read.iter().zip(&written) {
            assert_eq!(read, written);
        }
        assert_eq!(again.usage(), snapshot.usage());
        let _ = validate(&again);
    }
    Ok(recovered)
}
