//! The stacks of a row of owners: those that requested the most of it at the peak, and now.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, sync::Arc};

use memreel_snapshot::{
    Snapshot,
    analysis::{MappedStack, MarkedFrame, OwnerRow, OwnerStack, ShownFrames, Site},
    model::StackIndex,
};

use super::{page::Page, sites::Sites};

/// A stack with the frames that are shown of its snapshot.
pub(crate) struct ShownStack<'a> {
    stack: StackIndex,
    pub(crate) bytes: u64,
    shown: ShownFrames<'a>,
}

impl<'a> ShownStack<'a> {
    /// Returns a row for the stack: figures, and some of its calls.
    pub(crate) fn row(&self, figures: &str, n_calls: usize, page: &Page) -> String {
        Sites::of(self.shown.clone(), n_calls).row(figures, &Site::Stack(self.stack), page)
    }

    /// Returns all frames, innermost first.
    pub(crate) fn frames(&self) -> Vec<MarkedFrame<'a>> {
        self.shown.marked(self.stack).collect()
    }

    fn text(&self, n_calls: usize) -> String {
        Sites::of(self.shown.clone(), n_calls).plain(&Site::Stack(self.stack))
    }
}

/// The stacks of one row.
#[derive(Default)]
pub(crate) struct RowStacks<'a> {
    /// At the peak, or now if there was nothing at the peak.
    pub(crate) peak: Option<ShownStack<'a>>,
    pub(crate) now: Option<ShownStack<'a>>,
}

impl<'a> RowStacks<'a> {
    /// Returns both, if they print differently.
    pub(crate) fn both(&self, n_calls: usize) -> Option<[&ShownStack<'a>; 2]> {
        let both @ [now, peak] = [self.now.as_ref()?, self.peak.as_ref()?];
        (now.text(n_calls) != peak.text(n_calls)).then_some(both)
    }
}

/// Returns the stacks of each row: those of its blocks, or of what mapped it. `shown` are the frames of the snapshots.
pub(crate) fn stacks_of<'a>(rows: &'a [OwnerRow], shown: &[ShownFrames<'a>]) -> Vec<RowStacks<'a>> {
    // The rows of one process have one snapshot for what it mapped.
    let mut of_mapped: BTreeMap<*const Snapshot, ShownFrames<'a>> = BTreeMap::new();
    let mut stack = |largest: Option<OwnerStack>, mapped: Option<&'a MappedStack>| {
        if let Some(mapped) = mapped {
            let of_it = of_mapped.entry(Arc::as_ptr(&mapped.stacks));
            let shown = of_it.or_insert_with(|| ShownFrames::new(&mapped.stacks)).clone();
            return Some(ShownStack { stack: mapped.stack, bytes: mapped.bytes, shown });
        }
        let largest = largest?;
        let shown = shown[largest.part].clone();
        Some(ShownStack { stack: largest.stack, bytes: largest.bytes, shown })
    };
    rows.iter()
        .map(|row| RowStacks {
            peak: stack(row.largest, row.mapped.as_ref()),
            now: stack(row.largest_now, row.mapped_now.as_ref()),
        })
        .collect()
}
