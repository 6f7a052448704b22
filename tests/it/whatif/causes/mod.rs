//! The first cause of a failed request is the one that was planted: random programs that run out of memory.
//!
//! `world` has the programs. Nothing that it knows is in the snapshot but the events and their lines.

mod world;

use memreel::{
    DeviceId, Reel, Snapshot,
    analysis::{
        DeviceHistory, GrowthKind, Site,
        oom::{Cause, CauseKind, Verdict},
    },
    recorder::Recording,
    whatif::explain,
};
use memreel_testing::{random::Random, seeds};

use world::{MIB, PLANTED_LINE, Planted, Program, Run};

const ALL: [Planted; 7] = [
    Planted::Limit,
    Planted::Burst,
    Planted::Leak,
    Planted::LargerStep,
    Planted::Fragmentation,
    Planted::OtherProcess,
    Planted::PlainSize,
];

/// A device that has so many percent of some bytes.
fn percent(bytes: u64, percent: u64) -> u64 {
    (bytes / 100 * percent).next_multiple_of(2 * MIB)
}

/// Runs a program until it fails for a cause.
fn fail(planted: Planted, random: &mut Random) -> Snapshot {
    let program = Program::new(random);
    let (peak, n_steps) = (program.peak_bytes(), program.n_steps);
    let (device_bytes, limit_bytes) = match planted {
        Planted::Limit => (4 * peak, Some(percent(peak, 40 + random.below(55)))),
        Planted::PlainSize => (percent(peak, 40 + random.below(55)), None),
        Planted::LargerStep => (percent(peak, 105 + random.below(30)), None),
        Planted::Burst | Planted::Leak | Planted::Fragmentation => {
            (percent(peak, 130 + random.below(200)), None)
        }
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
            run.normal(first).and_then(|()| {
                loop {
                    run.step(1.0, |run| run.keep(PLANTED_LINE, leaked))?;
                }
            })
        }
        Planted::LargerStep => run.normal(n_steps).and_then(|()| run.step(6.0, |_| Ok(()))),
        Planted::Fragmentation => run.normal(n_steps).and_then(|()| run.fragment()),
        Planted::OtherProcess => run.normal(n_steps).and_then(|()| {
            run.reel.empty_cache().unwrap();
            let device = run.device.clone();
            let other = Reel::builder().device(device).history(Recording::all()).build().unwrap();
            let mut held = Vec::new();
            while let Ok(block) = other.alloc(2 * MIB) {
                held.push(block);
            }
            (0..held.len() / 10).for_each(|_| drop(held.pop()));
            other.empty_cache().unwrap();
            let failed = run.step(1.0, |_| Ok(()));
            drop(held);
            failed
        }),
    };
    assert!(failed.is_err(), "{planted:?}: the program ended");
    run.snapshot()
}

fn is_right(planted: Planted, cause: &Cause) -> bool {
    match planted {
        Planted::Limit => cause.kind == CauseKind::Limited,
        Planted::Burst | Planted::Leak | Planted::LargerStep => cause.kind == CauseKind::Grew,
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
    let seeds = seeds::seeds("MEMREEL_CAUSES", 0..70);
    let (n, mut wrong) = (seeds.end - seeds.start, Vec::new());
    for seed in seeds {
        let mut random = Random::new(seed);
        let planted = ALL[usize::try_from(seed).unwrap() % ALL.len()];
        let snapshot = fail(planted, &mut random);
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let explanation = explain(&history, history.oom().expect("a request failed"));
        let causes = explanation.causes();
        let mut is_right = is_right(planted, &causes[0]);
        if let (Planted::Burst | Planted::Leak, Some(growths)) = (planted, explanation.growths()) {
            let Site::Stack(stack) = growths.sites[0].site else { panic!("a stack") };
            is_right &= snapshot.frames(Some(stack)).next().unwrap().line == PLANTED_LINE
                && growths.kind() != Some(GrowthKind::LargerStep);
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
