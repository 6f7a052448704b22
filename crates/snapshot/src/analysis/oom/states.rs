//! Estimates the optimizer states that are still to come when a request fails in its first step.

use super::explanation::Explanation;
use crate::{
    analysis::{Bytes, Made, Site, sites::SameCalls},
    model::StackIndex,
    words::SeededMap,
};

/// What is still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StatesToCome {
    /// The bytes of the states that do not exist yet, including that of the failed request.
    pub(super) bytes: u64,
    /// Whether the optimizer may create more kinds of states than it has started to.
    is_least: bool,
    /// The number of parameters that have all their states, and of all parameters.
    n_done: usize,
    n_all: usize,
}

/// A state has the same size as the gradient, or one of these multiples, because their types may differ in size.
const TIMES: [(u64, u64); 5] = [(1, 1), (2, 1), (1, 2), (4, 1), (1, 4)];

impl Explanation<'_, '_> {
    /// Returns the states that are still to come, if the request failed while the optimizer created them. Each call
    /// that creates states creates one for each gradient.
    pub(super) fn states_to_come(&self) -> Option<StatesToCome> {
        let of_request = self.report.stack.filter(|stack| self.makes_states(*stack))?;
        let moment = self.report.totals.moment;
        let mut calls = SameCalls::new(self.history);
        let request = calls.site(&Site::Stack(of_request));
        let mut gradients: Vec<u64> = Vec::new();
        let mut states: SeededMap<Site, Vec<u64>> = SeededMap::default();
        states.insert(request, Vec::new());
        for life in self.history.lives_at(moment).filter(|life| life.is_allocated_at(moment)) {
            match life.stack {
                Some(stack) if self.makes_states(stack) => {
                    let site = calls.site(&Site::Stack(stack));
                    states.entry(site).or_default().push(life.requested_bytes);
                }
                stack if self.made_by(stack) == Some(Made::Gradients) => gradients.push(life.requested_bytes),
                _ => {}
            }
        }
        gradients.sort_unstable();
        let all_bytes = gradients.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        // Counters of steps are states too, of a few bytes.
        states.retain(|site, sizes| {
            calls.site(&Site::Stack(of_request)) == *site
                || sizes.iter().sum::<u64>() > (all_bytes / 100).max(4 * sizes.len() as u64)
        });
        let (mut bytes, mut n_done) = (0_u64, gradients.len());
        for sizes in states.values_mut() {
            sizes.sort_unstable();
            let (times, part) = TIMES.into_iter().find(|times| is_part(sizes, &gradients, *times))?;
            let made = sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            let expected = all_bytes.saturating_mul(times) / part;
            bytes = bytes.saturating_add(expected.saturating_sub(made));
            n_done = n_done.min(sizes.len());
        }
        let is_least = n_done == 0;
        (bytes > 0 && !gradients.is_empty()).then_some(StatesToCome {
            bytes,
            is_least,
            n_done,
            n_all: gradients.len(),
        })
    }

    /// Returns whether a stack belongs to the part of an optimizer that creates its states.
    fn makes_states(&self, stack: StackIndex) -> bool {
        const NAMES: [&str; 3] = ["_init_group", "init_state", "_init_state"];
        self.shown.marked(stack).any(|marked| NAMES.contains(&&*marked.frame.name))
    }
}

/// Returns whether each size is that of a gradient, times a number; both are sorted.
fn is_part(sizes: &[u64], gradients: &[u64], (times, part): (u64, u64)) -> bool {
    let mut left = gradients.iter();
    sizes.iter().all(|size| left.any(|gradient| gradient.saturating_mul(times) / part == *size))
}

impl StatesToCome {
    /// Returns it as the end of a sentence.
    pub(super) fn words(self) -> String {
        let least = if self.is_least { "at least " } else { "" };
        format!(
            "; {least}{} of optimizer states is still to come ({} of {} parameters have theirs)",
            Bytes(self.bytes),
            self.n_done,
            self.n_all
        )
    }
}
