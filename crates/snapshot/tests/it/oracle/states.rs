//! Questions about one moment: the totals, the segments, who holds the memory, and what is unused.

use std::collections::BTreeMap;

use memreel_snapshot::analysis::{By, DeviceHistory, Fragmentation, Group, SegmentSum, ShownFrames};

use super::{
    compared::Compared,
    past::{Block, Event, Key, Range},
    questions::{figures_of, moment, sums, text},
    recorded::{Layout, calls},
    truth::{Figures, Sum, Truth},
};

pub(crate) fn every_moment(truth: &Truth, history: &DeviceHistory, all: &[Figures], compared: &mut Compared) {
    let found: Vec<Figures> = history.totals().map(|totals| figures_of(&totals)).collect();
    compared.equal("totals", &found, &all);
    let trust = history.trust();
    compared.equal("is_exact", &trust.is_exact(), &true);
    let is_whole = truth.n_kept() > 0 && truth.ranges(0).is_empty();
    compared.equal("is_whole", &trust.is_whole(), &is_whole);
    let before = || truth.lives().filter(|block| truth.is_from_before(block));
    compared.equal("blocks before", &trust.n_before, &before().count());
    compared.equal("bytes before", &trust.bytes_before, &all[0].active);
    compared.equal("reserved before", &trust.reserved_before_bytes, &all[0].reserved);
    let n_nameless = before().filter(|block| truth.call(block).is_none()).count();
    compared.equal("nameless", &trust.n_nameless, &n_nameless);
}

fn shown_ranges(ranges: &[Range]) -> Vec<(u64, u64, i64, bool)> {
    ranges.iter().map(|range| (range.address, range.bytes, range.key.stream, range.is_expandable)).collect()
}

pub(crate) fn state(truth: &Truth, history: &DeviceHistory, at: usize, compared: &mut Compared) {
    let ranges = truth.ranges(at);
    let found = history.segments_at(moment(at));
    let of_found = found.iter().map(|r| (r.address.0, r.bytes, r.stream.0, r.is_expandable));
    compared.equal("segments", &of_found.collect::<Vec<_>>(), &shown_ranges(&ranges));
    for (found, range) in found.iter().zip(&ranges) {
        let is_small = found.kind.map(|kind| kind == memreel_snapshot::PoolKind::Small);
        compared.equal("kind", &is_small.unwrap_or(range.key.is_small), &range.key.is_small);
    }
    let layout = history.layout(moment(at));
    let gaps =
        layout.iter().map(|segment| segment.gaps.iter().map(|gap| (gap.address.0, gap.bytes)).collect());
    let expected = ranges.iter().map(|range| truth.gaps(range, at)).collect::<Vec<_>>();
    compared.equal("gaps", &gaps.collect::<Vec<Vec<_>>>(), &expected);
    let n_laid_out: usize = layout.iter().map(|segment| segment.blocks.len()).sum();
    compared.equal("blocks in segments", &n_laid_out, &truth.active(at).count());
}

pub(crate) fn who(truth: &Truth, history: &DeviceHistory, at: usize, compared: &mut Compared) {
    let snapshot = history.snapshot();
    let of = |groups: Vec<Group>| sums(&groups, snapshot);
    let expected = truth.by_site(truth.active(at));
    let by_stack = history.top(moment(at), By::Stack);
    compared.equal("total bytes", &by_stack.iter().all(|group| group.total_bytes == group.bytes), &true);
    compared.equal("top", &of(by_stack), &expected);
    compared.equal("held", &of(history.held_at(moment(at))), &truth.by_site(truth.held(at)));
    let waits = truth.active(at).filter(|block| block.freed <= truth.n_lost + at);
    compared.equal("pending", &of(history.pending_at(moment(at))), &truth.by_site(waits));
    for (by, what) in [(By::Function, "functions"), (By::File, "files")] {
        let (own, total) = by_frame(truth, at, by);
        let groups = history.top(moment(at), by);
        let mut found = of(groups.clone());
        found.retain(|_, sum| *sum != (0, 0));
        compared.equal(what, &found, &own);
        let shown = ShownFrames::new(snapshot);
        let found = groups.iter().map(|group| (text(&group.site, &shown), group.total_bytes));
        compared.equal(what, &found.collect::<BTreeMap<_, _>>(), &total);
    }
    let mut scopes: BTreeMap<String, Sum> = BTreeMap::new();
    for block in truth.active(at) {
        let name = truth.scope(block).map_or_else(|| "Before".to_owned(), |scope| format!("scope {scope}"));
        let (bytes, n) = scopes.entry(name).or_default();
        (*bytes, *n) = (*bytes + block.requested, *n + 1);
    }
    compared.equal("scopes", &of(history.top(moment(at), By::Scope)), &scopes);
    compared.equal("tree", &found_branches(history, at), &branches(truth, at));
}

/// Own sums and total bytes by function or file.
fn by_frame(truth: &Truth, at: usize, by: By) -> (BTreeMap<String, Sum>, BTreeMap<String, u64>) {
    let (mut own, mut total) = (BTreeMap::<String, Sum>::new(), BTreeMap::<String, u64>::new());
    for block in truth.active(at) {
        let mut names: Vec<String> = match truth.call(block) {
            Some(call) => calls(call)
                .map(|(name, file, _)| if by == By::File { file } else { format!("{name} {file}") })
                .to_vec(),
            None => vec![if by == By::File { "NoFile" } else { "NoStack" }.to_owned()],
        };
        let (bytes, n) = own.entry(names[0].clone()).or_default();
        (*bytes, *n) = (*bytes + block.requested, *n + 1);
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| *total.entry(name).or_default() += block.requested);
    }
    (own, total)
}

/// Each way from the outermost call to one of its callees, with its sum; the ways themselves are left out, so that
/// the order of the lines does not matter.
fn branches(truth: &Truth, at: usize) -> Vec<(String, Sum)> {
    let mut ways: BTreeMap<Vec<String>, Sum> = BTreeMap::new();
    for block in truth.active(at) {
        let mut frames: Vec<String> = match truth.call(block) {
            Some(call) => calls(call).map(|(name, file, line)| format!("{name} {file}:{line}")).to_vec(),
            None => vec![String::new()],
        };
        frames.reverse();
        for n in 1..=frames.len() {
            let (bytes, n_blocks) = ways.entry(frames[..n].to_vec()).or_default();
            (*bytes, *n_blocks) = (*bytes + block.requested, *n_blocks + 1);
        }
    }
    let mut all: Vec<_> =
        ways.into_iter().map(|(mut way, sum)| (way.pop().unwrap_or_default(), sum)).collect();
    all.sort();
    all
}

fn found_branches(history: &DeviceHistory, at: usize) -> Vec<(String, Sum)> {
    let frame = |index| history.snapshot().stacks.frame(index);
    let lines = history.tree(moment(at), 0).into_iter().map(|line| {
        let name =
            line.frame.map(frame).map(|frame| format!("{} {}:{}", frame.name, frame.filename, frame.line));
        (name.unwrap_or_default(), (line.bytes, line.n_blocks))
    });
    let mut all: Vec<_> = lines.collect();
    all.sort();
    all
}

pub(crate) fn fragmentation(
    truth: &Truth,
    history: &DeviceHistory,
    all: &[Figures],
    at: usize,
    compared: &mut Compared,
) {
    let found = history.fragmentation(moment(at));
    let ranges = truth.ranges(at);
    let gaps: Vec<u64> =
        ranges.iter().flat_map(|range| truth.gaps(range, at)).map(|(_, bytes)| bytes).collect();
    compared.equal("free bytes", &found.free_bytes, &gaps.iter().sum::<u64>());
    compared.equal("free pieces", &found.n_free, &gaps.len());
    compared.equal("largest piece", &found.largest_free_bytes, &gaps.iter().copied().max().unwrap_or(0));
    let within = |block: &Block, range: &Range| {
        block.address >= range.address && block.address < range.address + range.bytes
    };
    let n_in = |range: &Range| truth.active(at).filter(|block| within(block, range)).count();
    let empty: u64 = ranges.iter().filter(|range| n_in(range) == 0).map(|range| range.bytes).sum();
    compared.equal("empty segments", &found.empty_bytes, &empty);
    let of_streams: BTreeMap<i64, u64> = ranges.iter().fold(BTreeMap::new(), |mut sums, range| {
        *sums.entry(range.key.stream).or_default() += range.bytes;
        sums
    });
    let found_streams = found.streams.iter().map(|of| (of.stream.0, of.sum.reserved_bytes));
    compared.equal("streams", &found_streams.collect::<BTreeMap<_, _>>(), &of_streams);
    let sums = |bytes: fn(&SegmentSum) -> u64| found.pools.iter().map(|of| bytes(&of.sum)).sum::<u64>();
    compared.equal("free bytes of pools", &sums(|sum| sum.free_bytes), &found.free_bytes);
    compared.equal("empty segments of pools", &sums(|sum| sum.empty_bytes), &found.empty_bytes);
    pinned(truth, &found, at, compared);
    let most_reserved = truth.highest(all, |figures| figures.reserved);
    compared.equal("most reserved", &found.most_reserved.moment, &moment(most_reserved));
    let most_unused = truth.highest(all, |figures| figures.reserved - figures.rounded);
    compared.equal("most unused", &found.most_unused.moment, &moment(most_unused));
}

/// The segments that the last failed request could use, or the largest one that is still to come.
fn pinned(truth: &Truth, found: &Fragmentation, at: usize, compared: &mut Compared) {
    let (kept, layout) = (&truth.device.events[truth.n_lost..], truth.file.options.layout);
    let returned = |event: &Event| ["segment_free", "segment_unmap"].contains(&event.action);
    // A file has neither the kind nor, in old releases, the pool of what was returned later.
    if kept[at..].iter().any(returned) || layout == Layout::V2_0 {
        return;
    }
    let failed = kept.iter().rposition(|event| event.action == "oom");
    let later =
        || (at..kept.len()).rev().filter(|at| kept[*at].action == "alloc").max_by_key(|at| kept[*at].size);
    let wanted = failed.or_else(later).map(|event| (event, &kept[event]));
    let serves = |range: &Range| {
        wanted.is_none_or(|(_, event)| {
            let pool = if layout == Layout::V2_12 { event.pool } else { (0, 0) };
            range.key == Key { stream: event.stream, pool, is_small: event.size <= 1 << 20 }
        })
    };
    let (mut all, mut served) = (Vec::new(), Vec::new());
    for range in truth.ranges(at) {
        let within = range.address..range.address + range.bytes;
        let n_blocks = truth.active(at).filter(|block| within.contains(&block.address)).count();
        let free: u64 = truth.gaps(&range, at).iter().map(|(_, bytes)| bytes).sum();
        if n_blocks > 0 && free > if range.key.is_small { 0 } else { 1 << 20 } {
            all.push((u64::MAX - free, range.address, n_blocks));
            served.extend(serves(&range).then_some((u64::MAX - free, range.address, n_blocks)));
        }
    }
    let is_of_all = wanted.is_none() || served.is_empty();
    let mut expected = if is_of_all { all } else { served };
    expected.sort_unstable();
    let of_found = found.pinned.iter();
    let of_found =
        of_found.map(|pinned| (u64::MAX - pinned.free_bytes, pinned.range.address.0, pinned.n_blocks));
    compared.equal("pinned", &of_found.collect::<Vec<_>>(), &expected);
    let wanted = wanted.filter(|_| !is_of_all).map(|(event, _)| event);
    compared.equal("wanted", &found.wanted.map(|wanted| wanted.event), &wanted);
}
