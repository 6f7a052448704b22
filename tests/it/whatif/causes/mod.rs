//! The first cause of a failed request is the one that was planted: random programs that run out of memory.
//!
//! `world` has the programs. Nothing that it knows is in the snapshot but the events and their lines.

mod world;

use memreel::{
    DeviceId, Reel, Snapshot,
    analysis::{
        DeviceHistory, Growth, GrowthKind, Site,
        oom::{Cause, CauseKind, Verdict},
    },
    recorder::Recording,
    whatif::explain,
};
use memreel_testing::{random::Random, seeds};

use world::{Failed, MIB, PLANTED_LINE, Planted, Program, Run, SECOND_LINE};

const ALL: [Planted; 10] = [
    Planted::Limit,
    Planted::Burst,
    Planted::Leak,
    Planted::LargerStep,
    Planted::Fragmentation,
    Planted::OtherProcess,
    Planted::PlainSize,
    Planted::LimitAndLeak,
    Planted::TwoLeaks,
    Planted::LeakAndOtherProcess,
];

/// A device that has so many percent of some bytes.
fn percent(bytes: u64, percent: u64) -> u64 {
    (bytes / 100 * percent).next_multiple_of(2 * MIB)
}

/// Runs a program until it fails for a cause. Returns the size of the device too.
fn fail(planted: Planted, random: &mut Random) -> (Snapshot, u64) {
    let program = Program::new(random);
    let (peak, n_steps) = (program.peak_bytes(), program.n_steps);
    let (device_bytes, limit_bytes) = match planted {
        Planted::Limit => (4 * peak, Some(percent(peak, 40 + random.below(55)))),
        Planted::PlainSize => (percent(peak, 40 + random.below(55)), None),
        Planted::LargerStep => (percent(peak, 105 + random.below(30)), None),
        Planted::Burst | Planted::Leak | Planted::Fragmentation | Planted::TwoLeaks => {
            (percent(peak, 130 + random.below(200)), None)
        }
        Planted::LimitAndLeak => (8 * peak, Some(percent(peak, 130 + random.below(200)))),
        Planted::LeakAndOtherProcess => (percent(peak, 260 + random.below(200)), None),
        Planted::OtherProcess => (percent(peak, 102 + random.below(60)), None),
    };
    let mut run = Run::new(&program, device_bytes, limit_bytes);
    let leaked = MIB + random.below(peak / 20);
    let failed = match planted {
        Planted::Limit | Planted::PlainSize => run.normal(n_steps),
        Planted::Burst => run.normal(n_steps).and_then(|()| {
            run.step(1.0, |run| {
                loop {
                    run.keep(PLANTED_LINE, leaked)?;
                }
            })
        }),
        Planted::Leak => {
            let first = random.index(n_steps);
            run.normal(first).and_then(|()| run.leak(&[PLANTED_LINE], leaked))
        }
        Planted::LimitAndLeak => run.normal(n_steps).and_then(|()| run.leak(&[PLANTED_LINE], leaked)),
        Planted::TwoLeaks => {
            run.normal(n_steps).and_then(|()| run.leak(&[PLANTED_LINE, SECOND_LINE], leaked))
        }
        Planted::LargerStep => run.normal(n_steps).and_then(|()| run.step(6.0, |_| Ok(()))),
        Planted::Fragmentation => run.normal(n_steps).and_then(|()| run.fragment()),
        Planted::OtherProcess => {
            run.normal(n_steps).and_then(|()| beside_another(&mut run, 90, |run| run.step(1.0, |_| Ok(()))))
        }
        Planted::LeakAndOtherProcess => run
            .normal(n_steps)
            .and_then(|()| beside_another(&mut run, 50, |run| run.leak(&[PLANTED_LINE], leaked))),
    };
    assert!(failed.is_err(), "{planted:?}: the program ended");
    (run.snapshot(), device_bytes)
}

/// Runs a part of a program while another process holds `percent` of the free memory.
fn beside_another(
    run: &mut Run<'_>,
    percent: usize,
    part: impl FnOnce(&mut Run<'_>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    run.reel.empty_cache().unwrap();
    let device = run.device.clone();
    let other = Reel::builder().device(device).history(Recording::all()).build().unwrap();
    let mut held = Vec::new();
    while let Ok(block) = other.alloc(2 * MIB) {
        held.push(block);
    }
    held.truncate(held.len() * percent / 100);
    other.empty_cache().unwrap();
    part(run)
}

/// Whether the causes begin with what was planted.
fn is_right(planted: Planted, causes: &[Cause]) -> bool {
    let cause = &causes[0];
    let begins_with = |kinds: [CauseKind; 2]| causes.iter().take(2).map(|cause| cause.kind).eq(kinds);
    match planted {
        Planted::LimitAndLeak => {
            cause.kind == CauseKind::Grew && causes.iter().any(|cause| cause.kind == CauseKind::Limited)
        }
        Planted::LeakAndOtherProcess => {
            begins_with([CauseKind::Grew, CauseKind::Occupied])
                || begins_with([CauseKind::Occupied, CauseKind::Grew])
        }
        Planted::Limit => cause.kind == CauseKind::Limited,
        Planted::Burst | Planted::Leak | Planted::TwoLeaks | Planted::LargerStep => {
            cause.kind == CauseKind::Grew
        }
        Planted::Fragmentation => {
            matches!(
                cause.kind,
                CauseKind::Unusable(Verdict::Fragmented | Verdict::Elsewhere | Verdict::RoundedUp)
            )
        }
        Planted::OtherProcess => cause.kind == CauseKind::Occupied,
        Planted::PlainSize => cause.kind == CauseKind::Full,
    }
}

/// `MEMREEL_CAUSES` is the number of programs, or a range of seeds such as `1000..2000`.
#[test]
fn the_first_cause_is_the_planted_one() {
    let seeds = seeds::seeds("MEMREEL_CAUSES", 0..100);
    let (n, mut wrong) = (seeds.end - seeds.start, Vec::new());
    for seed in seeds {
        let mut random = Random::new(seed);
        let planted = ALL[usize::try_from(seed).unwrap() % ALL.len()];
        let (snapshot, device_bytes) = fail(planted, &mut random);
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let report = history.oom().expect("a request failed");
        // A file alone does not tell what another process has of a device of which this one never had as much.
        let is_told = planted == Planted::LeakAndOtherProcess;
        let report = if is_told { report.of_device(device_bytes) } else { report };
        let explanation = explain(&history, report);
        let causes = explanation.causes();
        let mut is_right = is_right(planted, &causes);
        let lines: &[u64] = match planted {
            Planted::TwoLeaks => &[PLANTED_LINE, SECOND_LINE],
            Planted::Burst | Planted::Leak | Planted::LimitAndLeak | Planted::LeakAndOtherProcess => {
                &[PLANTED_LINE]
            }
            _ => &[],
        };
        if let (false, Some(growths)) = (lines.is_empty(), explanation.growths()) {
            let line = |site: &Growth| {
                let Site::Stack(stack) = site.site else { panic!("a stack") };
                snapshot.frames(Some(stack)).next().unwrap().line
            };
            let mut found: Vec<u64> = growths.sites.iter().take(lines.len()).map(line).collect();
            found.sort_unstable();
            is_right &= found == lines && growths.kind() != Some(GrowthKind::LargerStep);
        }
        if !is_right {
            wrong.push(format!("seed {seed}, {planted:?}: {causes:#?} {:?}", explanation.growths()));
        }
    }
    memreel_testing::say(&format!(
        "causes of {n} failed programs: {} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    ));
    assert!(wrong.len() as u64 * 100 <= n, "{} of {n} are wrong", wrong.len());
}
