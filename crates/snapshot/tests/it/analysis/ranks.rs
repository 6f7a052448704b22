//! Ranks that are made by hand: thirty that do the same, and some that do not.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        DeviceHistory,
        ranks::{RankFigures, RankVerdict, Why, outliers},
    },
};
use serde_json::{Value, json};

use crate::random::Random;

const MIB: u64 = 1 << 20;
const N_STEPS: u64 = 10;
const N_RANKS: u64 = 30;

/// What is different about a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Usual,
    /// The activations of step 3 are twice as large.
    Large,
    /// Each step leaves 4 MiB.
    Leak,
    /// A request of step 5 fails, and the rank ends.
    Oom,
    /// A segment of 60 MiB that nothing uses.
    Waste,
    /// Half of the activations are of another site.
    Site,
}

/// A rank's events: 100 MiB of weights, and in each step eight activations of about 10 MiB, which are freed.
struct Rank {
    random: Random,
    time_us: i64,
    events: Vec<Value>,
    marks: Vec<Value>,
}

impl Rank {
    fn event(&mut self, action: &str, address: u64, bytes: u64, site: &str) {
        self.time_us += 50;
        self.events.push(json!({
            "action": action, "addr": address, "size": bytes, "stream": 0, "time_us": self.time_us,
            "frames": [{"name": site, "filename": "train.py", "line": 7}],
        }));
    }

    fn mark(&mut self, stage: &str) {
        self.time_us += 10;
        self.marks.push(json!({"stage": stage, "name": "step", "device": 0, "time_us": self.time_us}));
        self.time_us += 10;
    }

    fn step(&mut self, number: u64, kind: Kind) {
        let (base, mut at) = (1 << 30, 0);
        let mut held = Vec::new();
        for layer in 0..8 {
            let noise = self.random.below(MIB / 8);
            let bytes = if kind == Kind::Large && number == 3 { 20 * MIB } else { 10 * MIB } + noise;
            let site = if kind == Kind::Site && layer % 2 == 0 { "attention" } else { "forward" };
            if kind == Kind::Oom && number == 5 && layer == 6 {
                return self.event("oom", 0, bytes, site);
            }
            self.event("alloc", base + at, bytes, site);
            held.push((base + at, bytes));
            at += bytes;
        }
        for (address, bytes) in held.into_iter().rev() {
            self.event("free_requested", address, bytes, "backward");
            self.event("free_completed", address, bytes, "backward");
        }
        if kind == Kind::Leak {
            self.event("alloc", (2 << 30) + number * 4 * MIB, 4 * MIB, "log");
        }
    }
}

fn rank(seed: u64, kind: Kind, has_scopes: bool) -> Snapshot {
    let mut rank =
        Rank { random: Random::new(seed), time_us: 1_700_000_000_000_000, events: vec![], marks: vec![] };
    rank.event("segment_alloc", 1 << 30, 300 * MIB, "init");
    if kind == Kind::Waste {
        rank.event("segment_alloc", 3 << 30, 60 * MIB, "init");
    }
    rank.event("alloc", (1 << 30) + 200 * MIB, 100 * MIB, "init");
    for number in 0..N_STEPS {
        rank.mark("START");
        rank.step(number, kind);
        rank.mark("END");
        if kind == Kind::Oom && number == 5 {
            break;
        }
    }
    let marks = if has_scopes { rank.marks } else { vec![] };
    serde_json::from_value(
        json!({"segments": [], "device_traces": [rank.events], "external_annotations": marks}),
    )
    .unwrap()
}

fn verdicts(kinds: &[Kind], has_scopes: bool) -> Vec<RankVerdict> {
    let figures: Vec<RankFigures> = (0..)
        .zip(kinds)
        .map(|(seed, kind)| {
            RankFigures::new(&DeviceHistory::new(&rank(seed, *kind, has_scopes), DeviceId(0)))
        })
        .collect();
    outliers(&figures)
}

fn kinds_of(verdict: &RankVerdict) -> Vec<&'static str> {
    verdict.whys.iter().map(Why::kind).collect()
}

#[test]
fn the_planted_outliers_are_found_and_no_others() {
    for has_scopes in [true, false] {
        let mut kinds = vec![Kind::Usual; N_RANKS as usize];
        let planted =
            [(2, Kind::Large), (7, Kind::Leak), (11, Kind::Oom), (19, Kind::Waste), (28, Kind::Site)];
        planted.iter().for_each(|(at, kind)| kinds[*at] = *kind);
        let found = verdicts(&kinds, has_scopes);
        let outliers: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_outlier()).collect();
        assert_eq!(outliers, planted.map(|(at, _)| at), "scopes: {has_scopes}");
        for (at, expected) in [(2, "peak"), (7, "end"), (11, "out_of_memory"), (19, "waste"), (28, "site")] {
            assert!(kinds_of(&found[at]).contains(&expected), "{at}: {:?}", found[at].whys);
        }
        assert!(found[11].is_out_of_memory() && found[2].apart_bytes() > 75 * MIB);
        let first = found[2].first_difference.as_ref().unwrap();
        let begin = first.begin().unwrap();
        if has_scopes {
            assert_eq!(begin, "step#3");
        } else {
            // A step takes 1.3 ms, and the steps begin with the second event.
            assert!(["0.003 s", "0.004 s", "0.005 s"].contains(&&*begin), "{begin}");
        }
        let place = if has_scopes { "of" } else { "after" };
        assert!(first.to_string().starts_with(&format!("first difference, in the peak {place} {begin}: ")));
        assert_eq!(
            found[2].whys.iter().filter(|why| why.begin().is_some()).collect::<Vec<_>>(),
            [first],
            "among the reasons, once"
        );
        assert_eq!(found[0].first_difference, None);
        assert!(
            found[28].whys.iter().any(|why| why.to_string().contains("attention")),
            "{:?}",
            found[28].whys
        );
    }
}

#[test]
fn of_two_ranks_only_a_failure_tells() {
    assert!(verdicts(&[Kind::Usual, Kind::Large], true).iter().all(|verdict| !verdict.is_outlier()));
    let found = verdicts(&[Kind::Usual, Kind::Oom], true);
    assert!(!found[0].is_outlier());
    assert_eq!(kinds_of(&found[1])[0], "out_of_memory");
    let both = verdicts(&[Kind::Oom, Kind::Oom], true);
    assert!(both.iter().all(|verdict| !verdict.is_outlier()), "a failure of most is usual");
    assert!(
        verdicts(&[Kind::Oom], true).iter().all(|verdict| !verdict.is_outlier()) && outliers(&[]).is_empty()
    );
}

#[test]
fn figures_of_a_rank_are_those_of_its_history() {
    let snapshot = rank(3, Kind::Oom, true);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let figures = RankFigures::new(&history);
    assert_eq!((figures.peak, figures.n_events), (history.peak(), history.entries().len()));
    assert_eq!((figures.n_steps, figures.steps.len()), (6, 6));
    let names: Vec<&str> = figures.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(names, ["step#0", "step#1", "step#2", "step#3", "step#4", "step#5"]);
    // Each step's peak, from the totals of its events.
    let totals: Vec<u64> = history.totals().skip(1).map(|totals| totals.active_bytes).collect();
    for (step, range) in figures.steps.iter().zip(history.scopes().spans()) {
        let expected = totals[range.entries.clone()].iter().max();
        assert_eq!(Some(&step.peak_bytes), expected, "{}", step.name);
    }
    let oom = figures.oom.unwrap();
    assert_eq!((oom.entry, oom.scope.as_str(), oom.n_ooms), (history.entries().len() - 1, "step", 1));
    assert_eq!(oom.site, "forward (train.py:7)");
    // The curve has the most of each stretch of time.
    let first_us = history.entries()[0].time_us;
    let curve = figures.curve;
    assert!(curve.peaks_bytes.len() <= 128 && curve.width_us.is_power_of_two());
    for (entry, bytes) in history.entries().iter().zip(&totals) {
        let at = (entry.time_us - first_us) as u64 / curve.width_us;
        assert!(curve.peaks_bytes[at as usize] >= *bytes);
    }
    assert_eq!(curve.peaks_bytes.iter().max(), totals.iter().max());
}
