//! What is said of sites is what was planted: leaks, and what is none of them. `world` has the programs.

mod world;

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        Claim, DeviceHistory,
        oom::{CauseKind, Explanation},
    },
};
use memreel_testing::{random::Random, seeds};

use super::questions::lines;
use world::{ALL, LEAK, Planted, World};

fn planted(seed: u64) -> (Planted, Snapshot) {
    let planted = ALL[usize::try_from(seed).unwrap() % ALL.len()];
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random);
    world.run(planted);
    (planted, world.snapshot(planted))
}

/// Returns what is said of sites that are not just held, by their lines.
fn said(snapshot: &Snapshot) -> Vec<(u64, Claim)> {
    let history = DeviceHistory::new(snapshot, DeviceId(0));
    let sites = history.leaks().into_iter().filter(|site| site.claim != Claim::Held);
    sites.map(|site| (lines(snapshot, &site.site), site.claim)).collect()
}

/// `MEMREEL_CLAIMS` is the number of programs, or a range of seeds such as `1000..2000`.
#[test]
fn a_leak_is_a_repetition() {
    let seeds = seeds::seeds("MEMREEL_CLAIMS", 0..200);
    let n = seeds.end - seeds.start;
    let (mut wrong, mut wrong_causes) = (Vec::new(), Vec::new());
    for seed in seeds {
        let (planted, snapshot) = planted(seed);
        let said = said(&snapshot);
        let is_right = match planted {
            Planted::LastTwoSteps => matches!(said[..], [(LEAK, Claim::Grew | Claim::MayBeALeak(_))]),
            planted if planted.is_leak() => said == [(LEAK, Claim::Leak)],
            _ => said.is_empty(),
        };
        if !is_right {
            wrong.push(format!("seed {seed}, {planted:?}: {said:?}"));
        }
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let report = history.oom().expect("a request failed");
        let causes = Explanation::new(&history, report).causes();
        let has_grown = causes.first().is_some_and(|cause| cause.kind == CauseKind::Grew);
        // What grew in two steps is a minor cause if it is small.
        if has_grown != planted.is_leak() && planted != Planted::LastTwoSteps {
            wrong_causes
                .push(format!("seed {seed}, {planted:?}: {:?}", causes.first().map(|cause| &cause.finding)));
        }
    }
    memreel_testing::say(&format!(
        "{n} programs: {} wrong, {} first causes wrong\n{}\n{}",
        wrong.len(),
        wrong_causes.len(),
        wrong.join("\n"),
        wrong_causes.join("\n"),
    ));
    assert!(wrong.len() as u64 * 200 <= n, "{} of {n} are wrong", wrong.len());
    assert!(wrong_causes.len() as u64 * 100 <= n, "{} first causes of {n} are wrong", wrong_causes.len());
}
