//! Asks every question of `analysis` about a file; here are those about the whole history and about its end.

use std::collections::BTreeMap;

use memreel_snapshot::{
    Snapshot,
    analysis::{AddressChange, Axis, DeviceHistory, Group, ShownFrames, Site, Totals},
    history::Moment,
};

use super::{
    compared::Compared,
    past::NEVER,
    recorded::File,
    states,
    truth::{Figures, Sum, Truth},
    verdicts,
};
use crate::random::Random;

/// Asks every question about every device.
pub(crate) fn ask(file: &File, random: &mut Random, compared: &mut Compared) {
    for device in &file.world.devices {
        let truth = Truth::new(file, device);
        let history = history_of(&file.snapshot, device.number);
        let all: Vec<Figures> = (0..=truth.n_kept()).map(|moment| truth.figures(moment)).collect();
        states::every_moment(&truth, &history, &all, compared);
        let peak = truth.highest(&all, |figures| figures.active);
        let mut moments = vec![0, peak, truth.n_kept()];
        moments.extend((0..3).map(|_| random.index(truth.n_kept() + 1)));
        for moment in moments {
            states::state(&truth, &history, moment, compared);
            states::who(&truth, &history, moment, compared);
            states::fragmentation(&truth, &history, &all, moment, compared);
        }
        lives(&truth, &history, compared);
        ends(&truth, &history, random, compared);
        churn(&truth, &history, compared);
        timeline(&history, &all, random, compared);
        addresses(&truth, &history, random, compared);
        verdicts::gate(&truth, &history, &all, compared);
        verdicts::oom(&truth, &history, &all, compared);
        verdicts::scopes(&truth, &history, compared);
        verdicts::stats(&truth, &history, compared);
    }
    verdicts::gates(file, compared);
}

pub(crate) fn history_of(snapshot: &Snapshot, device: u64) -> DeviceHistory<'_> {
    DeviceHistory::new(snapshot, u16::try_from(device).expect("a few devices"))
}

pub(crate) fn moment(number: usize) -> Moment {
    if number == NEVER { Moment::NEVER } else { Moment(u32::try_from(number).expect("a short history")) }
}

pub(crate) fn figures_of(totals: &Totals) -> Figures {
    Figures {
        allocated: totals.allocated_bytes,
        active: totals.active_bytes,
        rounded: totals.rounded_bytes,
        reserved: totals.reserved_bytes,
        n_blocks: totals.n_blocks,
    }
}

/// The text of a site, as [`Truth::site`] has it.
pub(crate) fn text(site: &Site, shown: &ShownFrames<'_>) -> String {
    match site {
        Site::Stack(stack) => {
            let frames = shown.identifying_frames(*stack);
            let texts = frames.map(|frame| format!("{} {}:{}", frame.name, frame.filename, frame.line));
            texts.collect::<Vec<_>>().join(" < ")
        }
        Site::Size(bytes) => format!("size {bytes}"),
        Site::Function { name, filename } => format!("{name} {filename}"),
        Site::File(file) => file.to_string(),
        Site::Scope(scope) => format!("scope {scope}"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn sums(groups: &[Group], snapshot: &Snapshot) -> BTreeMap<String, Sum> {
    let shown = ShownFrames::new(snapshot);
    let sums: BTreeMap<String, Sum> =
        groups.iter().map(|group| (text(&group.site, &shown), (group.bytes, group.n_blocks))).collect();
    assert_eq!(sums.len(), groups.len(), "no site is in two rows");
    sums
}

fn lives(truth: &Truth, history: &DeviceHistory, compared: &mut Compared) {
    let mut expected: Vec<_> = truth
        .lives()
        .map(|block| {
            let moments = [block.from, block.freed, block.until].map(|at| moment(truth.moment(at)));
            (block.address, block.requested, truth.size(block), block.key.stream, moments)
        })
        .collect();
    let mut found: Vec<_> = history
        .lives()
        .iter()
        .map(|life| {
            let moments = [life.from, life.requested, life.until];
            (life.address.0, life.requested_bytes, life.bytes, life.stream.0, moments)
        })
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    compared.equal("lives", &found, &expected);
}

/// `leaks` with its variants.
fn ends(truth: &Truth, history: &DeviceHistory, random: &mut Random, compared: &mut Compared) {
    let (end, snapshot) = (truth.n_kept(), history.snapshot());
    let quarters = [1, 2, 3, 4].map(|quarter| end * quarter / 4);
    let mut expected = BTreeMap::new();
    for block in truth.lives() {
        let site = expected.entry(truth.site(block)).or_insert(([0u64; 4], [0usize; 3], (usize::MAX, 0)));
        let (of_quarters, [n_live, n_allocated, n_freed], (oldest, newest)) = site;
        for (sum, at) in of_quarters.iter_mut().zip(quarters) {
            *sum += if block.is_held(truth.n_lost + at) { block.requested } else { 0 };
        }
        let (is_live, is_new) = (block.is_held(truth.device.now()), !truth.is_from_before(block));
        *n_live += usize::from(is_live);
        *n_allocated += usize::from(is_new);
        *n_freed += usize::from(is_new && !is_live);
        if is_live {
            (*oldest, *newest) =
                ((*oldest).min(truth.moment(block.from)), (*newest).max(truth.moment(block.from)));
        }
    }
    expected.retain(|_, (_, [n_live, ..], _)| *n_live > 0);
    let shown = ShownFrames::new(snapshot);
    let leaks = history.leaks();
    let found: BTreeMap<_, _> = leaks
        .iter()
        .map(|site| {
            let ages = (site.oldest.n_entries(), site.newest.n_entries());
            (text(&site.site, &shown), (site.quarters, [site.n_live, site.n_allocated, site.n_freed], ages))
        })
        .collect();
    compared.equal("leaks", &found, &expected);
    for site in &leaks {
        let [first, second, third, fourth] = site.quarters;
        let is_growing = 0 < first && first < second && second < third && third < fourth && site.n_live >= 4;
        compared.equal("growing", &(site.is_growing, site.bytes), &(is_growing, fourth));
    }
    let of = |groups: Vec<Group>| sums(&groups, snapshot);
    let before = truth.held(end).filter(|block| truth.is_from_before(block));
    compared.equal("from before", &of(history.from_before()), &truth.by_site(before));
    let age = random.index(end + 2);
    let old = truth.held(end).filter(|block| end - truth.moment(block.from) >= age);
    compared.equal("older than", &of(history.older_than(age)), &truth.by_site(old));
    let (first, second) = (random.index(end + 1), random.index(end + 1));
    let found = history.grown_between(moment(first), moment(second)).map(of);
    let grown = truth.held(second).filter(|block| truth.moment(block.from) > first);
    compared.equal("grown", &found, &(first <= second).then(|| truth.by_site(grown)));
}

/// Who had an address: of a few blocks, a byte in each.
fn addresses(truth: &Truth, history: &DeviceHistory, random: &mut Random, compared: &mut Compared) {
    let lives: Vec<_> = truth.lives().collect();
    for _ in 0..lives.len().min(5) {
        let block = lives[random.index(lives.len())];
        let at = block.address + random.below(truth.size(block));
        let covers = |address: u64, bytes: u64| address <= at && at < address + bytes;
        let mut expected: Vec<_> = lives
            .iter()
            .filter(|block| covers(block.address, truth.size(block)))
            .map(|block| {
                let moments = [block.from, block.freed, block.until].map(|at| moment(truth.moment(at)));
                (moments, block.address, block.requested)
            })
            .collect();
        expected.sort_unstable();
        let found = history.at_address(at.into()..(at + 1).into(), history.end());
        let mut owners: Vec<_> = found
            .owners
            .iter()
            .map(|(life, _)| ([life.from, life.requested, life.until], life.address.0, life.requested_bytes))
            .collect();
        let is_rising = owners.is_sorted_by_key(|([from, ..], ..)| *from);
        owners.sort_unstable();
        compared.equal("owners of an address", &(owners, is_rising), &(expected, true));
        let of_memory = |action: &str| action.starts_with("segment_");
        let kept = truth.device.events[truth.n_lost..].iter().enumerate();
        let expected: Vec<usize> = kept
            .filter(|(_, event)| of_memory(event.action) && covers(event.address, event.size))
            .map(|(number, _)| number + 1)
            .collect();
        let memory = found.events.iter().filter(|event| matches!(event.what, AddressChange::Memory(_)));
        let memory: Vec<usize> = memory.map(|event| event.moment.n_entries()).collect();
        compared.equal("memory at an address", &memory, &expected);
        let is_held = truth.ranges(truth.n_kept()).iter().any(|range| covers(range.address, range.bytes));
        compared.equal("address held", &!found.held.is_empty(), &is_held);
    }
}

fn churn(truth: &Truth, history: &DeviceHistory, compared: &mut Compared) {
    let mut expected: BTreeMap<(String, u64), (usize, u64)> = BTreeMap::new();
    for block in truth.lives().filter(|block| !truth.is_from_before(block) && block.until != NEVER) {
        let (n, life) = expected.entry((truth.site(block), block.requested)).or_default();
        (*n, *life) = (*n + 1, *life + (block.until - block.from) as u64);
    }
    expected.retain(|_, (n, _)| *n > 1);
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|((site, size), (n, life))| ((site, size), (n, size * n as u64, life / n as u64)))
        .collect();
    let shown = ShownFrames::new(history.snapshot());
    let found = history.churn().into_iter().map(|site| {
        let key = (text(&site.site, &shown), site.size_bytes);
        (key, (site.n_cycles, site.bytes, site.mean_life_entries))
    });
    compared.equal("churn", &found.collect::<BTreeMap<_, _>>(), &expected);
}

fn timeline(history: &DeviceHistory, all: &[Figures], random: &mut Random, compared: &mut Compared) {
    let n_points = 1 + random.index(40);
    let n = n_points.min(all.len());
    let mut expected = vec![Figures::default(); n];
    for (at, figures) in all.iter().enumerate() {
        let point = &mut expected[at * n / all.len()];
        *point = Figures {
            allocated: point.allocated.max(figures.allocated),
            active: point.active.max(figures.active),
            rounded: point.rounded.max(figures.rounded),
            reserved: point.reserved.max(figures.reserved),
            n_blocks: point.n_blocks.max(figures.n_blocks),
        };
    }
    let points = history.timeline(Axis::Events, n_points);
    let found: Vec<Figures> = points.iter().map(|point| figures_of(&point.highest)).collect();
    compared.equal("timeline", &found, &expected);
    let highest = |figure: fn(&Figures) -> u64, of: &[Figures]| of.iter().map(figure).max();
    let by_time: Vec<Figures> =
        history.timeline(Axis::Time, n_points).iter().map(|point| figures_of(&point.highest)).collect();
    for figure in [|f: &Figures| f.active, |f: &Figures| f.reserved, |f: &Figures| f.allocated] {
        compared.equal("timeline by time", &highest(figure, &by_time), &highest(figure, all));
    }
}
