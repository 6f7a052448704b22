//! Prints the ranks side by side, step by step.

#![forbid(unsafe_code)]

use std::{collections::HashMap, io};

use super::{
    compared::{All, Compared},
    text::below,
};
use crate::text::{Bytes, Page, Table, clean, print_text};

/// A step of all ranks.
pub(super) struct Step<'a> {
    pub(super) name: &'a str,
    /// The peaks of the ranks that have it, the lowest first.
    pub(super) peaks: Vec<(u64, &'a Compared)>,
}

impl Step<'_> {
    pub(super) fn median_bytes(&self) -> u64 {
        let n = self.peaks.len();
        let at = |at: usize| self.peaks.get(at).map_or(0, |(bytes, _)| *bytes);
        u64::midpoint(at(n.saturating_sub(1) / 2), at(n / 2))
    }
}

/// Returns the steps in the order in which they first occur, by the rank that has the most.
pub(super) fn steps(all: &All) -> Vec<Step<'_>> {
    let mut places = HashMap::<&str, usize>::new();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut ranks: Vec<&Compared> = all.ranks.iter().collect();
    ranks.sort_by_key(|one| std::cmp::Reverse(one.figures.steps.len()));
    for one in ranks {
        for step in &one.figures.steps {
            let place = *places.entry(&step.name).or_insert_with(|| {
                steps.push(Step { name: &step.name, peaks: Vec::new() });
                steps.len() - 1
            });
            steps[place].peaks.push((step.peak_bytes, one));
        }
    }
    steps.iter_mut().for_each(|step| step.peaks.sort_by_key(|(bytes, one)| (*bytes, one.rank)));
    steps
}

/// Prints a table of steps, and the files that cannot be read.
pub(super) fn print(all: &All, out: &mut Page) -> io::Result<()> {
    let steps = steps(all);
    if steps.is_empty() {
        print_text(
            "no ranks have scopes; name the steps with memreel.scope or torch's record_function",
            out,
        )?;
        return below(all, out);
    }
    let mut table = Table::new(&["step", "ranks", "median peak", "lowest", "rank", "highest", "rank"]);
    for step in &steps {
        let [Some((lowest, low)), Some((highest, high))] = [step.peaks.first(), step.peaks.last()] else {
            continue;
        };
        table.row(vec![
            clean(step.name).into_owned(),
            step.peaks.len().to_string(),
            Bytes(step.median_bytes()).to_string(),
            Bytes(*lowest).to_string(),
            clean(&low.name).into_owned(),
            Bytes(*highest).to_string(),
            clean(&high.name).into_owned(),
        ]);
    }
    table.print(out)?;
    below(all, out)
}
