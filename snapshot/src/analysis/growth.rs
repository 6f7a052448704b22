//! Growth: the bytes that sites hold at a moment beyond the most that they held while the program did the same before.
//!
//! A program is *settled* once it repeats itself: most sites that it uses from then on were used before, and memory has
//! risen and fallen back at least once, as in a step or a request. What a site held until then is its usual level.
//! Weights, caches and the buffers of a step reach it early. A leak, a burst or a larger step is above it.
//!
//! A first step cannot be compared with another, so a history that never settles has no growth. Its layers repeat too, and
//! all of them keep something for the way back: where most of what is allocated is kept, nothing repeats.

use serde::{Serialize, Serializer};

use super::{same_calls::SameCalls, site::Site, state::DeviceHistory, top::is_zero};
use crate::{
    history::{Life, Moment},
    words::SeededMap,
};

/// How a site grew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GrowthKind {
    /// In every quarter of the time since the program settled, and what it holds never fell back: a leak.
    Steady,
    /// Late: its level was the usual one, then it rose and did not fall back. A leak that started late, or a burst.
    Late,
    /// Its blocks are freed and allocated again, and this time there are more of them: a step that is larger than those
    /// before it.
    LargerStep,
}

impl GrowthKind {
    /// Returns `steady`, `late` or `larger step`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GrowthKind::Steady => "steady",
            GrowthKind::Late => "late",
            GrowthKind::LargerStep => "larger step",
        }
    }
}

impl Serialize for GrowthKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// The growth of one site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Growth {
    /// The stack, or the size where there is none.
    #[serde(skip)]
    pub site: Site,
    /// How it grew.
    pub kind: GrowthKind,
    /// The requested bytes that it holds beyond its usual level.
    #[serde(rename = "grown_bytes")]
    pub bytes: u64,
    /// The requested bytes of its blocks that the program holds.
    pub held_bytes: u64,
    /// Its usual level: the most requested bytes that it held until the program settled.
    pub usual_bytes: u64,
    /// The alloc that took it above its usual level, where it stayed.
    #[serde(rename = "began_event")]
    pub began: Moment,
    /// The number of its blocks that were allocated since and are held.
    #[serde(rename = "grown_blocks")]
    pub n_blocks: usize,
    /// The number of recorded stacks of its allocations.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
}

/// The growth of all sites until a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Growths {
    /// The moment from which the program repeats itself.
    pub settled: Moment,
    /// The sites that grew, the one that grew most first.
    pub sites: Vec<Growth>,
}

impl Growths {
    /// Returns the bytes by which the sites grew.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the moment at which the first of the sites began to grow.
    #[must_use]
    pub fn began(&self) -> Option<Moment> {
        self.sites.iter().map(|site| site.began).min()
    }

    /// Returns how most of the bytes grew.
    #[must_use]
    pub fn kind(&self) -> Option<GrowthKind> {
        let of = |kind| {
            let same = self.sites.iter().filter(|site| site.kind == kind);
            same.map(|site| site.bytes).fold(0, u64::saturating_add)
        };
        let kinds = [GrowthKind::Steady, GrowthKind::Late, GrowthKind::LargerStep];
        kinds.into_iter().max_by_key(|kind| of(*kind)).filter(|kind| of(*kind) > 0)
    }
}

/// Few of the sites that allocate after the program settled are new: at most this part of them, one in this number, or two of
/// at least six.
const NEW_SITES: usize = 10;
const FEW_SITES: usize = 2;

/// Memory has risen and fallen back if it rose by this part of the most that was held, one in this number, and gave back half
/// of that.
const RISE: u64 = 50;

/// Growth below this part of what is held is no finding: one in this number.
const LEAST: u64 = 50;

/// The number of blocks from which a site that only grows is a loop and not one pass over the layers of a network, which
/// has no fall of memory before its end either.
const MANY_BLOCKS: usize = 256;

impl DeviceHistory<'_> {
    /// Returns the growth of sites until a moment; `None` if the program had not settled before it.
    ///
    /// Sites that grew and stopped before the second half of the settled time are left out, and so is growth that is
    /// less than a fiftieth of what is held together.
    #[must_use]
    pub fn growth_at(&self, moment: Moment) -> Option<Growths> {
        self.growth_with(moment, None)
    }

    /// Like [`DeviceHistory::growth_at`], as if a request of a site had been served at the moment.
    pub(super) fn growth_with(&self, moment: Moment, request: Option<(Site, u64)>) -> Option<Growths> {
        self.growths(moment, request, false)
    }

    /// Like [`DeviceHistory::growth_at`] for the end, but a leak may be of any size, and where most of what is allocated is kept,
    /// only a loop leaks: no failed request says that something went wrong.
    pub(super) fn growth_of_leaks(&self) -> Option<Growths> {
        self.growths(self.end(), None, true)
    }

    fn growths(&self, moment: Moment, request: Option<(Site, u64)>, are_leaks: bool) -> Option<Growths> {
        let walk = Walk::new(self, moment, request);
        let settled = walk.settled()?;
        let held_bytes = total(&walk.held);
        let mut sites = walk.growths(settled, are_leaks);
        let bytes = sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add);
        if bytes < held_bytes / LEAST {
            sites.retain(|site| are_leaks && site.kind == GrowthKind::Steady);
        }
        sites.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.site.cmp(&other.site)));
        Some(Growths { settled, sites })
    }
}

/// A change of what a site holds.
#[derive(Clone, Copy)]
struct Change {
    moment: Moment,
    /// The number of the site.
    site: u32,
    bytes: u64,
    is_alloc: bool,
}

/// What a site holds.
#[derive(Clone, Copy, Default)]
struct Held {
    bytes: u64,
    n_blocks: usize,
}

impl Held {
    fn apply(&mut self, change: Change) {
        if change.is_alloc {
            self.bytes = self.bytes.saturating_add(change.bytes);
            self.n_blocks += 1;
        } else {
            self.bytes = self.bytes.saturating_sub(change.bytes);
            self.n_blocks = self.n_blocks.saturating_sub(1);
        }
    }
}

/// A site with the moments of its first and its last allocation.
struct Used {
    site: Site,
    first: Moment,
    last: Moment,
    n_stacks: usize,
}

/// The blocks of a history as changes of their sites, in the order of the entries.
struct Walk {
    end: Moment,
    sites: Vec<Used>,
    /// By site, what it held before the history.
    start: Vec<Held>,
    changes: Vec<Change>,
    /// By site, what it holds at the end.
    held: Vec<Held>,
}

impl Walk {
    fn new(history: &DeviceHistory<'_>, end: Moment, request: Option<(Site, u64)>) -> Walk {
        let mut calls = SameCalls::new(history);
        let mut numbers: SeededMap<Site, u32> = SeededMap::default();
        let mut walk =
            Walk { end, sites: Vec::new(), start: Vec::new(), changes: Vec::new(), held: Vec::new() };
        let mut number = |walk: &mut Walk, own: Site| match numbers.get(&own) {
            Some(number) => *number,
            None => {
                let site = calls.site(&own);
                let number = *numbers.entry(site.clone()).or_insert_with(|| walk.new_site(site));
                walk.sites[number as usize].n_stacks += usize::from(matches!(own, Site::Stack(_)));
                numbers.insert(own, number);
                number
            }
        };
        for life in history.lives().iter().filter(|life| life.from <= end) {
            let site = number(&mut walk, Site::from_life(life));
            walk.add(life, site);
        }
        if let Some((site, bytes)) = request {
            let site = number(&mut walk, site);
            walk.sites[site as usize].first = walk.sites[site as usize].first.min(end);
            walk.sites[site as usize].last = end;
            walk.changes.push(Change { moment: end, site, bytes, is_alloc: true });
        }
        walk.changes.sort_by_key(|change| change.moment);
        walk.held = walk.start.clone();
        walk.changes.iter().for_each(|change| walk.held[change.site as usize].apply(*change));
        walk
    }

    fn new_site(&mut self, site: Site) -> u32 {
        self.sites.push(Used { site, first: Moment::NEVER, last: Moment::START, n_stacks: 0 });
        self.start.push(Held::default());
        u32::try_from(self.sites.len() - 1).unwrap_or(u32::MAX)
    }

    fn add(&mut self, life: &Life, site: u32) {
        let change = |moment, is_alloc| Change { moment, site, bytes: life.represented_bytes, is_alloc };
        let used = &mut self.sites[site as usize];
        if !life.is_from_before() {
            used.first = used.first.min(life.from);
            used.last = used.last.max(life.from);
            self.changes.push(change(life.from, true));
        } else if life.is_allocated_at(Moment::START) {
            used.first = Moment::START;
            self.start[site as usize].apply(change(Moment::START, true));
        } else {
            return;
        }
        if life.requested.min(life.until) <= self.end {
            self.changes.push(change(life.requested.min(life.until), false));
        }
    }

    /// Returns the first moment from which the program repeats itself.
    fn settled(&self) -> Option<Moment> {
        let settled = self.few_sites_are_new()?.max(self.first_cycle()?);
        (settled < self.end).then_some(settled)
    }

    /// Returns the first moment after which few of the sites that allocate are new.
    fn few_sites_are_new(&self) -> Option<Moment> {
        let sorted = |moment: fn(&Used) -> Moment| {
            let mut all: Vec<Moment> = self.sites.iter().map(moment).collect();
            all.sort_unstable();
            all
        };
        let (firsts, lasts) = (sorted(|used| used.first), sorted(|used| used.last));
        let n_after = |sorted: &[Moment], moment: Moment| {
            sorted.len() - sorted.partition_point(|other| *other <= moment)
        };
        let is_known = |moment: &Moment| {
            let n_used = n_after(&lasts, *moment);
            let n_new = n_after(&firsts, *moment);
            n_used > 0 && (n_new * NEW_SITES <= n_used || n_new <= FEW_SITES && n_new * 3 < n_used + 1)
        };
        let mut moments = firsts.clone();
        moments.dedup();
        moments.into_iter().filter(|moment| *moment != Moment::NEVER).find(is_known)
    }

    /// Returns the first moment at which memory has risen and fallen back, or, if a site has so many blocks that it must be a
    /// loop, the start.
    fn first_cycle(&self) -> Option<Moment> {
        let mut now = total(&self.start);
        // The place from which it rose, the top, and the lowest place since.
        let (mut low, mut high, mut trough, mut highest) = (now, now, now, now);
        for change in &self.changes {
            now = match change.is_alloc {
                true => now.saturating_add(change.bytes),
                false => now.saturating_sub(change.bytes),
            };
            highest = highest.max(now);
            let least = (highest / RISE).max(1);
            if now > high {
                (high, trough) = (now, now);
            }
            trough = trough.min(now);
            if high - low >= least && now.saturating_sub(low) <= (high - low) / 2 {
                return Some(change.moment);
            }
            if now < low || now - trough >= least {
                // It rises again, from a place that is not far enough down.
                (low, high, trough) = (trough, now.max(trough), now.max(trough));
            }
        }
        self.held.iter().any(|of| of.n_blocks >= MANY_BLOCKS).then_some(Moment::START)
    }

    /// Returns whether most of what was allocated after a moment was freed.
    fn mostly_frees_since(&self, moment: Moment) -> bool {
        let of = |is_alloc: bool| {
            let since =
                self.changes.iter().filter(|change| change.moment > moment && change.is_alloc == is_alloc);
            since.fold(0_u128, |sum, change| sum + u128::from(change.bytes))
        };
        of(false) * 2 >= of(true)
    }

    /// Returns the sites that grew; without those that may be layers of a first step, if they are to be leaks.
    fn growths(&self, settled: Moment, are_leaks: bool) -> Vec<Growth> {
        let mut curves: Vec<Curve> = self.start.iter().map(|held| Curve::new(*held)).collect();
        let quarters = quarters(settled, self.end);
        let mut next = 0;
        for change in &self.changes {
            while next < quarters.len() && quarters[next] < change.moment {
                curves.iter_mut().for_each(|curve| curve.mark(next));
                next += 1;
            }
            curves[change.site as usize].apply(*change, next);
        }
        for at in next..quarters.len() {
            curves.iter_mut().for_each(|curve| curve.mark(at));
        }
        let found = curves.iter().zip(&self.sites).filter_map(|(curve, used)| curve.growth(used));
        let mut found: Vec<Growth> = found.collect();
        if !self.mostly_frees_since(settled) {
            let is_freed = |change: &&Change| !change.is_alloc && change.moment > settled;
            let n_freed = self.changes.iter().filter(is_freed).count();
            // A loop frees something in each round, where a program that loads weights frees little.
            let is_loop = |site: &Growth| site.n_blocks >= MANY_BLOCKS && n_freed >= site.n_blocks;
            found.retain(|site| match site.kind {
                GrowthKind::LargerStep => true,
                GrowthKind::Late if !are_leaks => true,
                _ => is_loop(site),
            });
        }
        found
    }
}

/// Returns the bytes of all sites.
fn total(held: &[Held]) -> u64 {
    held.iter().fold(0, |sum, of| sum.saturating_add(of.bytes))
}

/// The number of marks: the moment at which the program settled, and the ends of three quarters of the time since.
const N_MARKS: usize = 4;

fn quarters(settled: Moment, end: Moment) -> [Moment; N_MARKS] {
    let n = u64::from(end.0.saturating_sub(settled.0));
    std::array::from_fn(|at| {
        Moment(settled.0.saturating_add(u32::try_from(n * at as u64 / N_MARKS as u64).unwrap_or(0)))
    })
}

/// What a site holds over time.
struct Curve {
    now: Held,
    highest_bytes: u64,
    /// The most blocks that it had until the first mark.
    usual_blocks: usize,
    /// At each mark, the most that it had held.
    highest_until: [u64; N_MARKS],
    /// The least that it holds from each mark on.
    lowest_since: [u64; N_MARKS],
    /// The number of its blocks when it was last not above its usual level.
    n_usual: usize,
    /// The first moment since then.
    began: Moment,
}

impl Curve {
    fn new(start: Held) -> Curve {
        Curve {
            now: start,
            highest_bytes: start.bytes,
            usual_blocks: start.n_blocks,
            highest_until: [0; N_MARKS],
            lowest_since: [0; N_MARKS],
            n_usual: start.n_blocks,
            began: Moment::NEVER,
        }
    }

    fn mark(&mut self, at: usize) {
        self.highest_until[at] = self.highest_bytes;
        self.lowest_since[at] = self.now.bytes;
        if at == 0 {
            self.n_usual = self.now.n_blocks;
        }
    }

    /// Applies a change after `n_marks` marks.
    fn apply(&mut self, change: Change, n_marks: usize) {
        self.now.apply(change);
        let bytes = self.now.bytes;
        self.highest_bytes = self.highest_bytes.max(bytes);
        self.lowest_since[..n_marks].iter_mut().for_each(|lowest| *lowest = (*lowest).min(bytes));
        if n_marks == 0 {
            self.usual_blocks = self.usual_blocks.max(self.now.n_blocks);
            return;
        }
        if bytes <= self.highest_until[0] {
            (self.began, self.n_usual) = (Moment::NEVER, self.now.n_blocks);
        } else if self.began == Moment::NEVER {
            self.began = change.moment;
        }
    }

    fn growth(&self, used: &Used) -> Option<Growth> {
        let new_since = self.highest_until.map(|highest| self.now.bytes.saturating_sub(highest));
        let [bytes, _, in_last_half, _] = new_since;
        // What stopped growing in the first half was warming up.
        if bytes == 0 || in_last_half.saturating_mul(10) < bytes {
            return None;
        }
        Some(Growth {
            site: used.site.clone(),
            kind: self.kind(new_since),
            bytes,
            held_bytes: self.now.bytes,
            usual_bytes: self.highest_until[0],
            began: self.began,
            n_blocks: self.now.n_blocks.saturating_sub(self.n_usual),
            n_stacks: used.n_stacks,
        })
    }

    fn kind(&self, new_since: [u64; N_MARKS]) -> GrowthKind {
        let usual_bytes = self.highest_until[0];
        let lowest = self.lowest_since;
        let rises = lowest.windows(2).all(|pair| pair[0] < pair[1]) && new_since[N_MARKS - 1] > 0;
        if rises && lowest[N_MARKS - 1] > usual_bytes {
            GrowthKind::Steady
        } else if usual_bytes > 0
            && (self.now.n_blocks <= self.usual_blocks || lowest[N_MARKS - 1] <= usual_bytes / 4)
        {
            // As many blocks as ever that are larger, or more of those that each step frees.
            GrowthKind::LargerStep
        } else {
            GrowthKind::Late
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the entries that allocated the blocks by which sites grew until a moment: of each site the newest of its
    /// blocks, as many as have the bytes of its growth.
    #[must_use]
    pub fn grown_blocks(&self, growths: &Growths, moment: Moment) -> Vec<usize> {
        let mut calls = SameCalls::new(self);
        let mut left: SeededMap<Site, u64> =
            growths.sites.iter().map(|growth| (calls.site(&growth.site), growth.bytes)).collect();
        let mut held: Vec<&Life> =
            self.lives_at(moment).filter(|life| life.is_allocated_at(moment)).collect();
        held.sort_by_key(|life| std::cmp::Reverse(life.from));
        let mut entries = Vec::new();
        for life in held {
            let Some(left_bytes) =
                left.get_mut(&calls.site(&Site::from_life(life))).filter(|left| **left > 0)
            else {
                continue;
            };
            *left_bytes = left_bytes.saturating_sub(life.represented_bytes);
            entries.extend(life.from.entry());
        }
        entries.sort_unstable();
        entries
    }
}
