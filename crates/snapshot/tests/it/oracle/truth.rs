//! The true answers to questions about one device of a file: sums over what the world remembers, and nothing inferred.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    past::{Block, Device, NEVER, Range},
    recorded::{Context, File, calls, is_through_the_allocator},
};

/// One device of a file. Moments here are those of the file: numbers of events that its ring kept.
pub(crate) struct Truth<'f> {
    pub(crate) file: &'f File<'f>,
    pub(crate) device: &'f Device,
    pub(crate) n_lost: usize,
    shows_allocations: bool,
}

/// Bytes and number of blocks.
pub(crate) type Sum = (u64, usize);

/// Allocated, active, rounded and reserved bytes, and the number of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) allocated: u64,
    pub(crate) active: u64,
    pub(crate) rounded: u64,
    pub(crate) reserved: u64,
    pub(crate) n_blocks: usize,
}

impl<'f> Truth<'f> {
    pub(crate) fn new(file: &'f File<'f>, device: &'f Device) -> Truth<'f> {
        let n_lost = file.n_lost(device);
        // Frees whose allocation is known show whether frees have the stacks of allocations; one stack proves nothing.
        let known = device.blocks.iter().filter(|block| block.from > n_lost && block.freed != NEVER);
        let stacks: BTreeSet<(usize, bool)> =
            known.map(|block| (block.call, is_through_the_allocator(block.address))).collect();
        let shows_allocations = file.options.context == Context::Alloc && stacks.len() > 1;
        Truth { file, device, n_lost, shows_allocations }
    }

    /// The number of events in the ring.
    pub(crate) fn n_kept(&self) -> usize {
        self.device.now() - self.n_lost
    }

    /// The moment of the file of a moment of the world.
    pub(crate) fn moment(&self, moment: usize) -> usize {
        if moment == NEVER { NEVER } else { moment.saturating_sub(self.n_lost) }
    }

    /// The blocks in use at some moment of the file.
    pub(crate) fn lives(&self) -> impl Iterator<Item = &'f Block> {
        let n_lost = self.n_lost;
        self.device.blocks.iter().filter(move |block| block.until > n_lost)
    }

    pub(crate) fn active(&self, moment: usize) -> impl Iterator<Item = &'f Block> {
        self.device.active(self.n_lost + moment)
    }

    pub(crate) fn held(&self, moment: usize) -> impl Iterator<Item = &'f Block> {
        let moment = self.n_lost + moment;
        self.device.blocks.iter().filter(move |block| block.is_held(moment))
    }

    pub(crate) fn is_from_before(&self, block: &Block) -> bool {
        block.from <= self.n_lost
    }

    pub(crate) fn ranges(&self, moment: usize) -> Vec<Range> {
        self.device.ranges(self.n_lost + moment)
    }

    /// The size of a block as far as a file can have it: the rest of a range that a freed block had is not written.
    pub(crate) fn size(&self, block: &Block) -> u64 {
        if block.is_active(self.device.now()) { block.size } else { block.requested.next_multiple_of(512) }
    }

    pub(crate) fn gaps(&self, range: &Range, moment: usize) -> Vec<(u64, u64)> {
        self.device.gaps(range, self.n_lost + moment, |block| self.size(block))
    }

    /// The call that allocated a block, if the file has it.
    pub(crate) fn call(&self, block: &Block) -> Option<usize> {
        let is_at_the_end = block.is_active(self.device.now());
        let is_written = match self.file.options.context {
            Context::None => false,
            Context::State => is_at_the_end,
            Context::Alloc => is_at_the_end || !self.is_from_before(block) || self.shows_allocations,
            Context::All => is_at_the_end || !self.is_from_before(block),
        };
        is_written.then_some(block.call)
    }

    /// The site of a block: its calls, or its size.
    pub(crate) fn site(&self, block: &Block) -> String {
        self.call(block).map_or_else(|| format!("size {}", block.requested), site_of)
    }

    /// The sums of blocks by site.
    pub(crate) fn by_site(&self, blocks: impl Iterator<Item = &'f Block>) -> BTreeMap<String, Sum> {
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for block in blocks {
            let (bytes, n) = sums.entry(self.site(block)).or_default();
            (*bytes, *n) = (*bytes + block.requested, *n + 1);
        }
        sums
    }

    pub(crate) fn figures(&self, moment: usize) -> Figures {
        let sum = |blocks: &mut dyn Iterator<Item = &'f Block>| -> u64 {
            blocks.map(|block| block.requested).sum()
        };
        Figures {
            allocated: sum(&mut self.held(moment)),
            active: sum(&mut self.active(moment)),
            rounded: self.active(moment).map(|block| self.size(block)).sum(),
            reserved: self.ranges(moment).iter().map(|range| range.bytes).sum(),
            n_blocks: self.active(moment).count(),
        }
    }

    /// Whether the last event before a moment takes memory for the request that comes next.
    pub(crate) fn is_within_a_request(&self, moment: usize) -> bool {
        let grows = |at: usize| ["segment_alloc", "segment_map"].contains(&self.device.events[at].action);
        let at = self.n_lost + moment;
        moment > 0 && grows(at - 1) && self.device.events.get(at).is_some_and(|next| next.action == "alloc")
    }

    /// The first moment at which a figure is highest.
    pub(crate) fn highest(&self, all: &[Figures], figure: impl Fn(&Figures) -> u64) -> usize {
        let settled = || (0..all.len()).filter(|moment| !self.is_within_a_request(*moment));
        let most = settled().map(|moment| figure(&all[moment])).max().unwrap_or(0);
        settled().find(|moment| figure(&all[*moment]) == most).unwrap_or(0)
    }

    /// The scope of a block; `None` if it was allocated before the history.
    pub(crate) fn scope(&self, block: &Block) -> Option<&'f str> {
        let options = self.file.options;
        let kept = &self.device.events[self.n_lost..];
        let is_named = options.has_metadata && kept.iter().any(|event| !event.scope.is_empty());
        let event = &self.device.events[block.from - 1];
        (!self.is_from_before(block)).then_some(match () {
            () if is_named => event.scope.as_str(),
            () if options.has_marks => event.device_scope.as_str(),
            () => "",
        })
    }

    /// For each scope of a name on this device, in the order in which they begin, the moment of its end.
    pub(crate) fn ends_of(&self, name: &str) -> Vec<Option<usize>> {
        let mut ends: Vec<Option<usize>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let of_name = self
            .file
            .world
            .marks
            .iter()
            .filter(|(_, of, device, _)| of == name && *device == self.device.number);
        for (stage, _, _, time_us) in of_name {
            if *stage == "START" {
                open.push(ends.len());
                ends.push(None);
            } else if let Some(begun) = open.pop() {
                let kept = &self.device.events[self.n_lost..];
                ends[begun] = Some(kept.iter().filter(|event| event.time_us <= *time_us).count());
            }
        }
        ends
    }
}

/// The text of a call's frames.
pub(crate) fn site_of(call: usize) -> String {
    calls(call).map(|(name, file, line)| format!("{name} {file}:{line}")).join(" < ")
}
