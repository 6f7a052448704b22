//! A snapshot for the table of owners. Of a heap's events it has those of the blocks that were in use at a moment that the table
//! is about; most blocks come and go between two of these.

use memreel_snapshot::{
    analysis::{RunOwners, has_other_allocator},
    model::Snapshot,
    words::{Action, DeviceId, Inventory, InventorySegment, RunSums, SeededMap, SettingsReport, StackId},
};

use crate::{
    collect::{Dialect, Recovered, collect_quietly},
    past::{PastInventory, PastTape},
    recorder::{Cut, Events, Facts, Log, LogTables, Source},
    stack::{SourceFrame, StackParts, Symbolizer},
};

/// The number of no life.
const NONE: u32 = u32::MAX;

/// Returns the snapshot of a tape as far as the table of owners needs it: of a heap, without the blocks that came and went between
/// two moments that the table is about. `owners` are those to which it is added. `None` if the whole snapshot is needed: of
/// several devices, of sampled blocks, or if a peak may be lost.
#[must_use]
pub fn owners_snapshot(recovered: &Recovered, owners: &RunOwners) -> Option<Snapshot> {
    let owned = OwnedBlocks::of(recovered.tape(), owners).filter(|_| recovered.is_of_heap())?;
    Some(collect_quietly(&owned, owned.inventories(), Dialect::default()).into_snapshot())
}

/// A heap's tape with the events that the table needs.
struct OwnedBlocks<'t> {
    tape: &'t PastTape,
    device: DeviceId,
    events: Cut,
    inventory: OwnedInventory<'t>,
}

/// What is live, with the sums of stacks that had something at a peak before the events.
struct OwnedInventory<'t> {
    whole: &'t PastInventory,
    allocated: Option<RunSums>,
}

impl<'t> OwnedBlocks<'t> {
    /// Chooses the events; `None` if the table needs all of them, or more than blocks.
    fn of(tape: &'t PastTape, owners: &RunOwners) -> Option<OwnedBlocks<'t>> {
        let device = tape.usage().iter().find(|of| of.is_heap())?.device;
        let whole = tape.inventories.iter().find(|inventory| inventory.device() == device)?;
        let facts = tape.facts();
        // Blocks that stand for others, or that a snapshot completes, are not told apart here.
        let is_plain = !facts.has_gaps
            && !facts.options.leaves_gaps()
            && whole.sample_bytes().is_none_or(|bytes| bytes == 0)
            && !whole.has_segments()
            && !facts.resident.iter().any(has_other_allocator)
            && facts.usage.iter().all(|of| of.device != device || of.reports.is_empty());
        let log = Log::of(tape.events(device).cut());
        let allocated = whole.allocated().filter(|_| log.n_lost() > 0);
        if !is_plain || log.n_lost() > 0 && allocated.is_none() {
            return None;
        }
        let looks_us: Vec<u64> = facts.resident.iter().map(|report| report.time_us).collect();
        let mut walk = Walk::default();
        walk.events(&log, &facts.tables, &looks_us);
        whole.inspect(&mut |segments| walk.compare_with_the_end(segments));
        walk.choose(owners, looks_us.is_empty(), allocated.as_ref());
        let events = log.some(|number| walk.is_wanted(number));
        let allocated = allocated.map(|RunSums { mut stacks, peak_us }| {
            stacks.retain(|sum| sum.n_at_peak > 0);
            RunSums { stacks, peak_us }
        });
        Some(OwnedBlocks { tape, device, events, inventory: OwnedInventory { whole, allocated } })
    }

    /// Returns what is live on each device.
    fn inventories(&self) -> impl Iterator<Item = &dyn Inventory> {
        self.tape.inventories.iter().map(|inventory| match inventory.device() == self.device {
            true => &self.inventory as &dyn Inventory,
            false => inventory,
        })
    }
}

impl Source for OwnedBlocks<'_> {
    fn events(&self, device: DeviceId) -> Box<dyn Events> {
        if device == self.device { Box::new(self.events.clone()) } else { self.tape.events(device) }
    }

    fn facts(&self) -> Facts {
        self.tape.facts()
    }

    fn stack_parts(&self, stack: StackId) -> StackParts {
        self.tape.stack_parts(stack)
    }

    fn name_word(&self, word: usize) -> (Vec<SourceFrame>, bool) {
        self.tape.name_word(word)
    }

    fn with_names(&self, name: &mut dyn FnMut(&mut Symbolizer)) {
        self.tape.with_names(name);
    }
}

impl Inventory for OwnedInventory<'_> {
    fn device(&self) -> DeviceId {
        self.whole.device()
    }

    fn has_segments(&self) -> bool {
        self.whole.has_segments()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        self.whole.inspect(look);
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.whole.sample_bytes()
    }

    fn allocated(&self) -> Option<RunSums> {
        self.allocated.clone()
    }

    fn settings(&self) -> SettingsReport {
        self.whole.settings()
    }
}

/// A block of the history, with the moments from and until which it was in use.
struct OwnedLife {
    from: u32,
    until: u32,
    /// The life at the same address that its beginning ended.
    displaced: u32,
    is_wanted: bool,
}

/// A walk over a heap's events.
#[derive(Default)]
struct Walk {
    lives: Vec<OwnedLife>,
    /// By address, the last life.
    last: SeededMap<u64, u32>,
    /// The address of the latest event of a block, and its last life: a heap's free is requested and completed in turn.
    latest: Option<(u64, u32)>,
    /// Of each event, the life that it is about; of others than those of blocks, and of contradictions, none.
    life_of: Vec<u32>,
    times_us: Vec<i64>,
    /// The bytes that come and go at each moment, and those that were there before the events, as far as these free them.
    changes: Vec<(u32, i128)>,
    freed_before: i128,
    /// The bytes that are there at the end.
    bytes: i128,
    /// The number of events until each look.
    moments: Vec<u32>,
}

impl Walk {
    fn events(&mut self, log: &Log, tables: &LogTables, looks_us: &[u64]) {
        let (mut looks, mut latest_us) = (looks_us.iter().peekable(), i64::MIN);
        for (number, entry) in (0..).zip(log.entries(tables)) {
            latest_us = latest_us.max(i64::try_from(entry.time_us).unwrap_or(i64::MAX));
            while looks.next_if(|look_us| i64::try_from(**look_us).unwrap_or(i64::MAX) < latest_us).is_some()
            {
                self.moments.push(number);
            }
            let (address, bytes) = (entry.event.address.0, i128::from(entry.event.size_bytes));
            let (life, change) = match entry.event.action {
                Action::Alloc => self.begin(address, number, bytes),
                Action::FreeRequested => (self.freed(address, bytes), 0),
                Action::FreeCompleted => self.end(address, number, bytes),
                _ => (NONE, 0),
            };
            if matches!(entry.event.action, Action::Alloc | Action::FreeCompleted) {
                self.changes.push((number + 1, change));
            }
            self.life_of.push(life);
            self.times_us.push(latest_us);
        }
    }

    fn begin(&mut self, address: u64, number: u32, bytes: i128) -> (u32, i128) {
        let life = self.number();
        let before =
            self.last.insert(address, life).filter(|before| self.lives[*before as usize].until == NONE);
        before.into_iter().for_each(|before| self.lives[before as usize].until = number + 1);
        let displaced = before.unwrap_or(NONE);
        self.lives.push(OwnedLife { from: number + 1, until: NONE, displaced, is_wanted: displaced != NONE });
        self.latest = Some((address, life));
        // What a displaced block had is not known here: both are kept.
        before.into_iter().for_each(|before| self.lives[before as usize].is_wanted = true);
        (life, bytes)
    }

    /// Returns the life that a free is about: without one, of a block from before the events.
    fn freed(&mut self, address: u64, bytes: i128) -> u32 {
        let latest = self.latest.filter(|(at, _)| *at == address).map(|(_, life)| life);
        match latest.or_else(|| self.last.get(&address).copied()) {
            Some(life) if self.lives[life as usize].until == NONE => {
                self.latest = Some((address, life));
                life
            }
            // A contradiction remains one.
            Some(life) => {
                self.lives[life as usize].is_wanted = true;
                NONE
            }
            None => {
                let life = self.number();
                self.last.insert(address, life);
                self.latest = Some((address, life));
                self.lives.push(OwnedLife { from: 0, until: NONE, displaced: NONE, is_wanted: true });
                self.freed_before = self.freed_before.saturating_add(bytes);
                life
            }
        }
    }

    fn end(&mut self, address: u64, number: u32, bytes: i128) -> (u32, i128) {
        let life = self.freed(address, bytes);
        if life == NONE {
            return (life, 0);
        }
        self.lives[life as usize].until = number + 1;
        (life, -bytes)
    }

    fn number(&self) -> u32 {
        u32::try_from(self.lives.len()).unwrap_or(NONE - 1)
    }

    /// Keeps the lives that ended at addresses where the end has blocks.
    fn compare_with_the_end(&mut self, segments: &[InventorySegment]) {
        for block in segments.iter().flat_map(|segment| &segment.blocks) {
            self.bytes = self.bytes.saturating_add(i128::from(block.requested_bytes));
            if let Some(life) = self.last.get(&block.address.0) {
                self.lives[*life as usize].is_wanted = true;
            }
        }
    }

    /// Chooses the lives at the moments that the table of this process is about. If it `shares` the table, because the kernel
    /// reported nothing of the processes, these include the highest moment of each span of time.
    fn choose(&mut self, owners: &RunOwners, shares: bool, run: Option<&RunSums>) {
        let n_events = u32::try_from(self.life_of.len()).unwrap_or(NONE - 1);
        let (mut level, mut most, mut highest) = (0, 0, 0);
        for (moment, change) in &self.changes {
            level += change;
            if level > most {
                (most, highest) = (level, *moment);
            }
        }
        self.moments.extend([0, highest, n_events]);
        if shares {
            let before = self.bytes - level;
            self.add_highest(owners, run.map(|run| (run, before + most)));
        }
        self.moments.sort_unstable();
        self.moments.dedup();
        for life in &mut self.lives {
            let next = self.moments.partition_point(|moment| *moment < life.from);
            life.is_wanted |= self.moments.get(next).is_some_and(|moment| *moment < life.until);
        }
        // So that each moment remains one, and the times of the first and the last event do.
        let events = self.moments.iter().filter_map(|moment| moment.checked_sub(1)).chain([0]);
        for event in events {
            if let Some(life) = self.lives.get_mut(self.life_of[event as usize] as usize) {
                life.is_wanted = true;
            }
        }
        for life in 0..self.lives.len() {
            let displaced = self.lives[life].displaced as usize;
            let follows = self.lives.get(displaced).is_some_and(|before| before.is_wanted);
            self.lives[life].is_wanted |= follows;
        }
    }

    /// Adds the highest moments of spans, which begin at a peak before the events if there is one. `run` has the sums of the run,
    /// and the most bytes at a moment of the events.
    fn add_highest(&mut self, owners: &RunOwners, run: Option<(&RunSums, i128)>) {
        let [first_us, last_us] =
            [self.times_us.first(), self.times_us.last()].map(|time| *time.unwrap_or(&0));
        let earlier_us = run.and_then(|(run, most)| {
            let bytes = run.stacks.iter().map(|sum| i128::from(sum.bytes_at_peak)).sum::<i128>();
            run.peak_us.filter(|_| bytes > most)
        });
        let begin_us = earlier_us.map_or(first_us, |us| i64::try_from(us).unwrap_or(i64::MAX).min(first_us));
        let before = (self.freed_before > 0).then_some((0, self.freed_before));
        let changes: Vec<_> = before.into_iter().chain(self.changes.iter().copied()).collect();
        let time_us =
            |moment: u32| moment.checked_sub(1).map_or(first_us, |event| self.times_us[event as usize]);
        self.moments.extend(owners.highest(&changes, [begin_us, last_us], time_us));
    }

    fn is_wanted(&self, event: usize) -> bool {
        self.lives.get(self.life_of[event] as usize).is_none_or(|life| life.is_wanted)
    }
}
