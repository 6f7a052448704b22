//! What devices report: in snapshots, in tapes, bounded, and forgotten with the events.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use memreel::{
    DeviceId, Recovered, Snapshot,
    integrate::UsageReport,
    ledger::Ledger,
    pickle,
    recorder::{Recorder, Recording},
    snapshot::{DeviceUsage, Dialect, collect},
    validate::{Severity, validate},
};

use super::tape_damage::{HEADER_BYTES, SLOT_BYTES};
use crate::random::Random;

fn report(used_bytes: u64) -> UsageReport {
    UsageReport {
        used_bytes,
        total_bytes: 1 << 40,
        other_processes_bytes: (!used_bytes.is_multiple_of(3)).then_some(used_bytes / 3),
        no_process_bytes: used_bytes / 7,
        pool_slack_bytes: used_bytes / 4,
        page_rounding_bytes: used_bytes / 5,
        reserved_address_bytes: used_bytes * 9,
    }
}

fn recorder(history: &Recording) -> (Recorder, Ledger) {
    let recorder = Recorder::new();
    recorder.record_history(history);
    let ledger = recorder.ledger(DeviceId(0));
    (recorder, ledger)
}

fn snapshot(recorder: &Recorder, ledger: &Ledger) -> Snapshot {
    collect(recorder, [ledger], Dialect::default())
}

fn reports(usage: &DeviceUsage) -> Vec<UsageReport> {
    usage.reports.iter().map(|timed| timed.report).collect()
}

#[test]
fn reports_are_in_the_snapshot_its_file_and_the_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let (recorder, ledger) = recorder(&Recording::all().tape(&path));
    recorder.describe_device(DeviceId(1), "NVIDIA H200", "GPU-1");
    for used in 0..100 {
        recorder.report_usage(DeviceId((used % 2) as i64), report(used));
    }
    ledger.alloc(memreel::Address(4096), 512, memreel::StreamId::DEFAULT).unwrap();
    let now = snapshot(&recorder, &ledger);
    let usage = now.usage();
    assert_eq!(usage.len(), 2);
    assert_eq!((&*usage[0].name, &*usage[1].name, &*usage[1].uuid), ("", "NVIDIA H200", "GPU-1"));
    for (device, usage) in (0..).zip(&usage) {
        assert_eq!(reports(usage), (0..50).map(|n| report(2 * n + device)).collect::<Vec<_>>());
        let last = usage.reports.last().unwrap().time_us as i64;
        assert!(usage.reports.is_sorted_by_key(|timed| timed.time_us));
        assert!(
            (0..1_000_000).contains(&(now.device_traces[0][0].time_us - last)),
            "on the clock of the events"
        );
    }
    assert_eq!(pickle::from_slice(&pickle::to_vec(&now)).unwrap().usage(), usage);
    let findings = validate(&now);
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
    let recovered = Recovered::read(&path).unwrap();
    assert_eq!(recovered.problems(), [""; 0]);
    let past = recovered.snapshot().usage();
    assert_eq!(past.iter().map(reports).collect::<Vec<_>>(), usage.iter().map(reports).collect::<Vec<_>>());
    assert_eq!((&*past[1].name, &*past[1].uuid), ("NVIDIA H200", "GPU-1"));
}

#[test]
fn without_reports_the_settings_have_no_key() {
    let (recorder, ledger) = recorder(&Recording::all());
    let before = snapshot(&recorder, &ledger);
    assert!(before.allocator_settings().unwrap().get("memreel_usage").is_none());
    assert_eq!(before.usage(), []);
}

#[test]
fn reports_are_recorded_while_recording_is_on_and_erased_with_the_events() {
    let (recorder, ledger) = recorder(&Recording::off());
    recorder.describe_device(DeviceId(0), "a", "b");
    recorder.report_usage(DeviceId(0), report(1));
    recorder.record_history(&Recording::all());
    recorder.report_usage(DeviceId(0), report(2));
    assert_eq!(reports(&snapshot(&recorder, &ledger).usage()[0]), [report(2)]);
    recorder.record_history(&Recording::all().clear_history(true));
    let erased = snapshot(&recorder, &ledger).usage();
    assert_eq!((erased[0].reports.len(), &*erased[0].name), (0, "a"));
}

/// The slots of notes in use.
fn n_slots_of_notes(path: &Path) -> usize {
    const NOTES: u64 = 3;
    let bytes = fs::read(path).unwrap();
    let kind = |slot: &[u8]| u64::from_ne_bytes(slot[..8].try_into().unwrap());
    bytes[HEADER_BYTES..].chunks_exact(SLOT_BYTES).filter(|slot| kind(slot) == NOTES).count()
}

/// Hundred thousand reports of two devices: the file keeps no more than some series of each, and so do snapshots.
#[test]
fn many_reports_fill_neither_memory_nor_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let (recorder, ledger) = recorder(&Recording::all().tape(&path));
    let mut random = Random::new(7);
    let all: Vec<u64> = (0..100_000).map(|_| random.below(1 << 40)).collect();
    for (at, used) in all.iter().enumerate() {
        recorder.report_usage(DeviceId((at % 2) as i64), report(*used));
    }
    assert!(n_slots_of_notes(&path) < 40, "{} slots", n_slots_of_notes(&path));
    let recovered = Recovered::read(&path).unwrap();
    assert_eq!(recovered.problems(), [""; 0]);
    for usage in [snapshot(&recorder, &ledger).usage(), recovered.snapshot().usage()] {
        for (device, usage) in usage.iter().enumerate() {
            let of_device = || all.iter().skip(device).step_by(2);
            let kept: Vec<u64> = reports(usage).iter().map(|report| report.used_bytes).collect();
            assert!((2000..4097).contains(&kept.len()), "{} reports", kept.len());
            assert_eq!(kept.iter().max(), of_device().max());
            assert_eq!(kept.last(), of_device().next_back());
        }
    }
}

/// A tape that is chosen later has the reports from before.
#[test]
fn a_later_tape_has_earlier_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let (recorder, _ledger) = recorder(&Recording::all());
    recorder.describe_device(DeviceId(0), "a", "b");
    (0..1000).for_each(|used| recorder.report_usage(DeviceId(0), report(used)));
    recorder.record_history(&Recording::all().tape(&path));
    recorder.report_usage(DeviceId(0), report(1000));
    drop(recorder);
    let usage = Recovered::read(&path).unwrap().snapshot().usage();
    assert_eq!(reports(&usage[0]), (0..=1000).map(report).collect::<Vec<_>>());
    assert_eq!((&*usage[0].name, &*usage[0].uuid), ("a", "b"));
}
