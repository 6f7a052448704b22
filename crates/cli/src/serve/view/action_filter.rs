//! A filter by action: the blocks that were allocated or freed in an interval, or never freed.

#![forbid(unsafe_code)]

use memreel_snapshot::history::{Life, Moment};

use super::{figures, refusal::Refusal};

/// What must have happened to a block, and when.
pub(super) struct ActionFilter {
    what: What,
    from: Moment,
    until: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Alloc,
    FreeRequested,
    FreeCompleted,
    Kept,
}

const NAMES: [(&str, What); 4] = [
    ("alloc", What::Alloc),
    ("free_requested", What::FreeRequested),
    ("free_completed", What::FreeCompleted),
    ("kept", What::Kept),
];

impl ActionFilter {
    /// Reads `alloc`, or `alloc:120-340` for an interval of moments. `kept` is an allocation without a free.
    pub(super) fn parse(text: &str) -> Result<ActionFilter, Refusal> {
        let (name, interval) = text.split_once(':').unwrap_or((text, ""));
        let what = NAMES.iter().find(|(of, _)| *of == name).map(|(_, what)| *what);
        let ends = match interval {
            "" => Some([Moment::START, Moment::NEVER]),
            interval => interval.split_once('-').and_then(|(from, until)| Some([end(from)?, end(until)?])),
        };
        let (Some(what), Some([from, until])) = (what, ends) else {
            let names = NAMES.map(|(name, _)| name).join(", ");
            return Err(Refusal::usage(format!(
                "{text:?} is not an action; use one of {names}, with an interval of moments as in alloc:120-340"
            )));
        };
        Ok(ActionFilter { what, from, until })
    }

    /// Whether it happened to a block.
    pub(super) fn holds(&self, life: &Life) -> bool {
        let moment = match self.what {
            What::Kept if life.requested != Moment::NEVER || life.until != Moment::NEVER => return false,
            What::Alloc | What::Kept => life.from,
            What::FreeRequested => life.requested,
            What::FreeCompleted => life.until,
        };
        // Events happen after the start; what is never has no event.
        moment > self.from && moment <= self.until && moment != Moment::NEVER
    }
}

fn end(text: &str) -> Option<Moment> {
    text.parse::<u32>().ok().map(|n| figures::moment(n as usize))
}

#[cfg(test)]
mod tests {
    use memreel_snapshot::{Action, Address, model::TraceEntry};

    use crate::serve::view::{
        list,
        samples::{request, snapshot, with_device},
    };

    #[test]
    fn an_action_chooses_the_blocks_of_its_events() {
        for seed in 0..12 {
            let snapshot = snapshot(seed, 300);
            with_device(&snapshot, |device| {
                let entries = device.history.entries();
                let n_listed = |action: &str| {
                    let found = list::answer(&request(&format!("list?action={action}")), device).unwrap();
                    found["n"].as_u64().unwrap() as usize
                };
                let n_of = |entries: &[TraceEntry], action: Action| {
                    entries.iter().filter(|entry| entry.action == Some(action)).count()
                };
                for action in [Action::Alloc, Action::FreeRequested, Action::FreeCompleted] {
                    let name = action.name();
                    assert_eq!(n_listed(name), n_of(entries, action), "seed {seed}: {name}");
                    for (from, until) in [(0, 40), (40, 41), (100, 250), (290, 5000)] {
                        let within = &entries[from.min(entries.len())..until.min(entries.len())];
                        assert_eq!(
                            n_listed(&format!("{name}:{from}-{until}")),
                            n_of(within, action),
                            "seed {seed}"
                        );
                    }
                }
                let freed: Vec<Address> = entries.iter().rev().map(|entry| entry.address).collect();
                let is_kept = |at: usize| {
                    entries[at].action == Some(Action::Alloc)
                        && !freed[..entries.len() - at - 1].contains(&entries[at].address)
                };
                assert_eq!(
                    n_listed("kept"),
                    (0..entries.len()).filter(|at| is_kept(*at)).count(),
                    "seed {seed}"
                );
                for wrong in ["alloc:", "oom", "alloc:5", "alloc:a-b", "kept:1-2-3"] {
                    let is_refused = list::answer(&request(&format!("list?action={wrong}")), device).is_err();
                    assert_eq!(is_refused, wrong != "alloc:", "{wrong}");
                }
            });
        }
    }
}
