//! Decides which stacks are one site: those whose identifying frames have the same names, files and lines.
//!
//! A file has more stacks than a reader can distinguish. Their frames may differ in further keys, in the order of their
//! keys, or only in frames that are hidden or do not identify the code that allocated ([`ShownFrames::identifying`]).
//! Every question sums the blocks of such stacks, so that one line of code, called in one way, is one site in each
//! answer. The site names the stack with the most bytes, or in `churn` with the most cycles.

use std::collections::hash_map::Entry;

use super::site::Site;
use crate::{
    analysis::{DeviceHistory, ShownFrames, state::SharedRecords},
    model::{FrameIndex, StackIndex},
    words::SeededMap,
};

/// The stacks of one snapshot that are one site.
#[derive(Debug)]
pub(crate) struct SameCalls<'h, 'a> {
    shared: &'h SharedRecords<'a>,
    shown: ShownFrames<'a>,
    /// By stack, the first stack that was looked up and is the same site.
    stacks: SeededMap<StackIndex, StackIndex>,
    of_calls: SeededMap<Box<[FrameIndex]>, StackIndex>,
}

impl<'h, 'a> SameCalls<'h, 'a> {
    pub(crate) fn new(history: &'h DeviceHistory<'a>) -> SameCalls<'h, 'a> {
        let shared = history.shared();
        SameCalls {
            shared,
            shown: shared.shown(),
            stacks: SeededMap::default(),
            of_calls: SeededMap::default(),
        }
    }

    /// Returns the frames that identify the code that allocated, innermost first. Frames with the same name,
    /// file and line have the same number.
    pub(super) fn calls(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let same = self.shared.same_frames();
        self.shown.identifying(stack).map(|frame| same[frame.index()])
    }

    /// Returns all frames of a stack, innermost first, by the same numbers.
    pub(crate) fn all(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let same = self.shared.same_frames();
        self.shared.records.snapshot().stacks.members(stack).iter().map(|frame| same[frame.index()])
    }

    /// Returns the first stack that was looked up and is the same site.
    pub(super) fn first(&mut self, stack: StackIndex) -> StackIndex {
        if let Some(first) = self.stacks.get(&stack) {
            return *first;
        }
        let calls: Box<[FrameIndex]> = self.calls(stack).collect();
        let first = *self.of_calls.entry(calls).or_insert(stack);
        self.stacks.insert(stack, first);
        first
    }

    /// Returns a site by the name that all stacks of it have.
    pub(crate) fn site(&mut self, site: &Site) -> Site {
        match site {
            Site::Stack(stack) => Site::Stack(self.first(*stack)),
            site => site.clone(),
        }
    }

    /// Sums results about the same site; the first of them names the stack.
    pub(crate) fn add_up<T>(
        &mut self,
        results: Vec<T>,
        site: impl Fn(&T) -> &Site,
        add: impl Fn(&mut T, T),
    ) -> Vec<T> {
        let mut places: SeededMap<Site, usize> = SeededMap::default();
        let mut sums: Vec<T> = Vec::with_capacity(results.len());
        for result in results {
            match places.entry(self.site(site(&result))) {
                Entry::Occupied(place) => add(&mut sums[*place.get()], result),
                Entry::Vacant(place) => {
                    place.insert(sums.len());
                    sums.push(result);
                }
            }
        }
        sums
    }
}
