//! What `rewrite`, `export` and a later file make of a file, and the differences between two files.

use std::collections::BTreeMap;

use memreel_snapshot::{
    DeviceId, Snapshot,
    export::{Format, convert},
    rewrite::{Part, Slim, Window, fix, merge, split},
    validate::{Severity, validate},
};

use super::{
    compared::Compared,
    past::Device,
    questions::{figures_of, history_of, moment, sums},
    recorded::{File, Layout},
    truth::{Figures, Sum, Truth},
};
use crate::random::Random;

/// Checks everything that is made of one file.
pub(crate) fn check(file: &File, random: &mut Random, compared: &mut Compared) {
    let errors = validate(&file.snapshot).into_iter().filter(|finding| finding.severity == Severity::Error);
    compared.equal("errors", &errors.map(|finding| finding.to_string()).collect::<Vec<_>>(), &[""; 0]);
    let fixed = fix(file.snapshot.clone());
    compared.equal("repairs", &fixed.changes, &[]);
    for device in &file.world.devices {
        event_window(file, device, random, compared);
    }
    if file.options.layout > Layout::V2_0 {
        time_window(file, random, compared);
    }
    large_blocks(file, random, compared);
    parts(file, compared);
    exports(file, compared);
}

/// Some events of one device: the state at each moment is that of the whole file.
fn event_window(file: &File, device: &Device, random: &mut Random, compared: &mut Compared) {
    let truth = Truth::new(file, device);
    if truth.n_kept() == 0 {
        return;
    }
    let start = random.index(truth.n_kept());
    let end = start + 1 + random.index(truth.n_kept() - start);
    let number = u16::try_from(device.number).expect("a few devices");
    let window = Window::Events { device: Some(DeviceId::from(number)), range: start..end };
    let cut = Slim::new().window(window).apply(file.snapshot.clone()).expect("the window is in the history");
    window_is(&truth, &cut, start, end, compared);
}

/// A window of time has the events of that time, and their states, on every device.
fn time_window(file: &File, random: &mut Random, compared: &mut Compared) {
    let times = || file.world.devices.iter().flat_map(|device| &device.events).map(|event| event.time_us);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return };
    let span = u64::try_from(last - first).expect("time goes on") + 2;
    let [one, other] =
        [random.below(span), random.below(span)].map(|at| first + i64::try_from(at).expect("short"));
    let window = one.min(other)..one.max(other) + 1;
    let Ok(cut) = Slim::new().window(Window::Time(window.clone())).apply(file.snapshot.clone()) else {
        let truths = file.world.devices.iter().map(|device| Truth::new(file, device));
        let n: usize = truths
            .map(|truth| {
                let kept = &truth.device.events[truth.n_lost..];
                kept.iter().filter(|event| window.contains(&event.time_us)).count()
            })
            .sum();
        compared.equal("an empty window", &n, &0);
        return;
    };
    for device in &file.world.devices {
        let truth = Truth::new(file, device);
        let kept = &device.events[truth.n_lost..];
        let n_before = |time: i64| kept.iter().filter(|event| event.time_us < time).count();
        window_is(&truth, &cut, n_before(window.start), n_before(window.end), compared);
    }
}

fn window_is(truth: &Truth, cut: &Snapshot, start: usize, end: usize, compared: &mut Compared) {
    let history = history_of(cut, truth.device.number);
    // Blocks that are freed behind the window have only their least size in it.
    let without_rounding = |figures: Figures| Figures { rounded: 0, ..figures };
    let found: Vec<Figures> = history.totals().map(|totals| without_rounding(figures_of(&totals))).collect();
    let expected: Vec<Figures> = (start..=end).map(|at| without_rounding(truth.figures(at))).collect();
    compared.equal("window", &found, &expected);
    for (at, of_file) in [(0, start), (end - start, end)] {
        let mut blocks: Vec<_> = history
            .lives_at(moment(at))
            .map(|life| (life.address.0, life.requested_bytes, life.is_allocated_at(moment(at))))
            .collect();
        blocks.sort_unstable();
        let mut expected: Vec<_> = truth
            .active(of_file)
            .map(|block| (block.address, block.requested, block.freed > truth.n_lost + of_file))
            .collect();
        expected.sort_unstable();
        compared.equal("blocks of a window", &blocks, &expected);
        let found = history.segments_at(moment(at));
        let found = found.iter().map(|r| (r.address.0, r.bytes, r.stream.0, r.is_expandable));
        let expected = truth.ranges(of_file).into_iter();
        let expected = expected.map(|r| (r.address, r.bytes, r.key.stream, r.is_expandable));
        let (ranges, expected) = (joined(found), joined(expected));
        compared.equal("segments of a window", &ranges, &expected);
    }
    // A stack that the whole file has is in the window too, if the block has an event there or is in use at its end.
    let found = sums(&history.held_at(moment(end - start)), cut);
    let n_blocks: usize = found.values().map(|(_, n)| n).sum();
    compared.equal("held in a window", &n_blocks, &truth.held(end).count());
    let errors = validate(cut).into_iter().filter(|finding| finding.severity == Severity::Error);
    compared.equal(
        "errors of a window",
        &errors.map(|finding| finding.to_string()).collect::<Vec<_>>(),
        &[""; 0],
    );
}

/// Adjacent ranges of expandable segments as one. Before 2.12 a file does not have the pool of what was returned, so a
/// window may have ranges of one pool as two.
fn joined(ranges: impl Iterator<Item = (u64, u64, i64, bool)>) -> Vec<(u64, u64, i64, bool)> {
    let mut joined: Vec<(u64, u64, i64, bool)> = Vec::new();
    for (address, bytes, stream, is_expandable) in ranges {
        match joined.last_mut() {
            Some((start, length, of, true))
                if is_expandable && *of == stream && *start + *length == address =>
            {
                *length += bytes;
            }
            _ => joined.push((address, bytes, stream, is_expandable)),
        }
    }
    joined
}

/// Without the small blocks, the large ones are what they were.
fn large_blocks(file: &File, random: &mut Random, compared: &mut Compared) {
    let least = *random.pick(&[1_000, 100_000, 3_000_000]);
    let slim = Slim::new().min_bytes(least).apply(file.snapshot.clone()).expect("no window is asked for");
    for device in &file.world.devices {
        let truth = Truth::new(file, device);
        let history = history_of(&slim, device.number);
        let mut found: Vec<_> = history
            .lives()
            .iter()
            .filter(|life| life.requested_bytes >= least)
            .map(|life| (life.address.0, life.requested_bytes))
            .collect();
        found.sort_unstable();
        let large = truth.lives().filter(|block| block.requested >= least);
        let mut expected: Vec<_> = large.map(|block| (block.address, block.requested)).collect();
        expected.sort_unstable();
        compared.equal("large blocks", &found, &expected);
        let found = history.lives_at(history.end()).filter(|life| life.requested_bytes >= least);
        let active = truth.active(truth.n_kept()).filter(|block| block.requested >= least);
        let bytes: u64 = active.map(|block| block.requested).sum();
        compared.equal(
            "large blocks at the end",
            &found.map(|life| life.requested_bytes).sum::<u64>(),
            &bytes,
        );
    }
}

/// A file divided by device, and joined again, has the same states.
fn parts(file: &File, compared: &mut Compared) {
    let parts = split(file.snapshot.clone());
    let joined = merge(parts.iter().map(|(device, part)| Part::new(part.clone()).rank(device.index())));
    for device in &file.world.devices {
        let truth = Truth::new(file, device);
        let all: Vec<Figures> = (0..=truth.n_kept()).map(|at| truth.figures(at)).collect();
        let part = parts.iter().find(|(of, _)| u64::try_from(of.0) == Ok(device.number));
        let is_empty = truth.n_kept() == 0 && all[0] == Figures::default();
        compared.equal("a part", &part.is_some(), &!is_empty);
        let Some((_, part)) = part else { continue };
        let states = |snapshot: &Snapshot| -> Vec<Figures> {
            history_of(snapshot, device.number).totals().map(|totals| figures_of(&totals)).collect()
        };
        compared.equal("states of a part", &states(part), &all);
        if let Ok(joined) = &joined {
            compared.equal("states of what was joined", &states(joined), &all);
        }
    }
}

fn exports(file: &File, compared: &mut Compared) {
    let text = |format| {
        let mut text = Vec::new();
        convert(&file.snapshot, format, &mut text).expect("a vector takes everything");
        String::from_utf8(text).expect("it is text")
    };
    let truths: Vec<Truth> = file.world.devices.iter().map(|device| Truth::new(file, device)).collect();
    let n_events: usize = truths.iter().map(Truth::n_kept).sum();
    compared.equal("lines of CSV", &text(Format::Csv).lines().count(), &(n_events + 1));
    let active: u64 = truths.iter().map(|truth| truth.figures(truth.n_kept()).active).sum();
    let folded = text(Format::Folded);
    let bytes = folded.lines().map(|line| line.rsplit_once(' ').expect("a number").1.parse::<u64>());
    compared.equal("folded bytes", &bytes.map(|bytes| bytes.expect("a number")).sum::<u64>(), &active);
    let json: Snapshot = serde_json::from_str(&text(Format::Json)).expect("it is a snapshot");
    for truth in &truths {
        let of_json = history_of(&json, truth.device.number);
        let last = figures_of(&of_json.totals_at(of_json.end()));
        compared.equal("JSON", &last, &truth.figures(truth.n_kept()));
    }
}

/// The differences between a file and a later one of the same world.
pub(crate) fn diff(before: &File, after: &File, compared: &mut Compared) {
    for (old, new) in before.world.devices.iter().zip(&after.world.devices) {
        let (old, new) = (Truth::new(before, old), Truth::new(after, new));
        let of = |truth: &Truth| -> BTreeMap<String, Sum> { truth.by_site(truth.active(truth.n_kept())) };
        let (was, is) = (of(&old), of(&new));
        let mut expected: BTreeMap<String, (i128, i64)> = BTreeMap::new();
        for (sign, sums) in [(-1, &was), (1, &is)] {
            for (site, (bytes, n)) in sums {
                let (sum, count) = expected.entry(site.clone()).or_default();
                *sum += i128::from(sign) * i128::from(*bytes);
                *count += sign * i64::try_from(*n).expect("a few blocks");
            }
        }
        expected.retain(|_, change| *change != (0, 0));
        let one = history_of(&before.snapshot, old.device.number);
        let other = history_of(&after.snapshot, new.device.number);
        let changes = one.diff(one.end(), &other, other.end());
        let mut found: BTreeMap<String, (i128, i64)> = BTreeMap::new();
        for change in &changes {
            let text = |group: &Option<_>, file: &File| {
                group
                    .clone()
                    .map(|group| sums(&[group], &file.snapshot).into_keys().next().expect("one site"))
            };
            let site =
                text(&change.after, after).or_else(|| text(&change.before, before)).expect("one of them");
            let is_new = found.insert(site, (change.bytes(), change.n_blocks())).is_none();
            compared.equal("one row for a site", &is_new, &true);
        }
        compared.equal("diff", &found, &expected);
    }
}
