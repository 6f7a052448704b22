//! Questions with a verdict: gates, failed requests, scopes, and the sums of PyTorch's tool.

use memreel_snapshot::{
    analysis::{DeviceHistory, Limits},
    history::{ScopeError, Scopes},
};

use super::{
    compared::Compared,
    past::Range,
    questions::{figures_of, moment},
    recorded::{File, Layout},
    truth::{Figures, Truth},
};

/// Sets a limit in bytes.
type Limit = fn(Limits, u64) -> Limits;

pub(crate) fn gate(truth: &Truth, history: &DeviceHistory, all: &[Figures], compared: &mut Compared) {
    let figures = history.figures();
    let peak = truth.highest(all, |figures| figures.active);
    let most = truth.highest(all, |figures| figures.reserved);
    compared.equal("peak", &(figures.peak_bytes, figures.peak), &(all[peak].active, moment(peak)));
    compared.equal("live", &figures.live_bytes, &all[all.len() - 1].allocated);
    compared.equal("reserved", &figures.reserved_bytes, &all[most].reserved);
    let unused = all[most].reserved - all[most].rounded;
    #[allow(clippy::cast_precision_loss)]
    let percent = unused as f64 / all[most].reserved.max(1) as f64 * 100.0;
    compared.equal("fragmentation", &(figures.fragmentation_percent - percent).abs().lt(&1e-9), &true);
    let limits: [(u64, Limit); 3] = [
        (figures.peak_bytes, |limits, most| limits.peak_bytes(most)),
        (figures.live_bytes, |limits, most| limits.live_bytes(most)),
        (figures.reserved_bytes, |limits, most| limits.reserved_bytes(most)),
    ];
    for (actual, limit) in limits {
        for most in [actual.saturating_sub(1), actual, actual + 1] {
            let is_passed = figures.check(&limit(Limits::new(), most)).iter().all(|check| check.is_passed);
            compared.equal("gate", &is_passed, &(actual <= most));
        }
    }
}

/// The gate of a whole file: every device has to keep the limit, and has to be whole.
pub(crate) fn gates(file: &File, compared: &mut Compared) {
    let truths: Vec<Truth> = file.world.devices.iter().map(|device| Truth::new(file, device)).collect();
    let seen = || truths.iter().filter(|truth| truth.n_kept() > 0 || !truth.ranges(0).is_empty());
    let peaks = seen().flat_map(|truth| (0..=truth.n_kept()).map(|moment| truth.figures(moment).active));
    let peak = peaks.max().unwrap_or(0);
    let is_whole = seen().count() > 0 && seen().all(|truth| truth.n_kept() > 0 && truth.ranges(0).is_empty());
    for most in [peak.saturating_sub(1), peak, peak + 1] {
        let limits = Limits::new().peak_bytes(most);
        let passes = |limits: Limits| limits.broken_by(&file.snapshot).is_none();
        compared.equal("macro", &passes(limits.clone()), &(peak <= most && is_whole));
        compared.equal("partial macro", &passes(limits.allow_partial(true)), &(peak <= most));
    }
}

pub(crate) fn oom(truth: &Truth, history: &DeviceHistory, all: &[Figures], compared: &mut Compared) {
    let kept = &truth.device.events[truth.n_lost..];
    let Some(at) = kept.iter().rposition(|event| event.action == "oom") else {
        compared.equal("no oom", &history.oom().is_none(), &true);
        return;
    };
    let (event, report) = (&kept[at], history.oom().expect("there is one"));
    let figures = all[at + 1];
    compared.equal("oom's entry", &report.entry, &at);
    compared.equal("ooms", &report.n_ooms, &kept.iter().filter(|event| event.action == "oom").count());
    compared.equal("oom's request", &report.requested_bytes, &event.size);
    compared.equal("oom's device", &report.device_free_bytes, &event.address);
    compared.equal("oom's totals", &figures_of(&report.totals), &figures);
    compared.equal("oom's pending", &report.pending_bytes, &(figures.active - figures.allocated));
    let ranges = truth.ranges(at + 1);
    let sum = |of: &[(u64, u64)]| -> u64 { of.iter().map(|(_, bytes)| bytes).sum() };
    let gaps: Vec<(&Range, Vec<(u64, u64)>)> =
        ranges.iter().map(|range| (range, truth.gaps(range, at + 1))).collect();
    let all_free: u64 = gaps.iter().map(|(_, gaps)| sum(gaps)).sum();
    compared.equal("oom's free bytes", &(report.free_here_bytes + report.free_elsewhere_bytes), &all_free);
    // A file does not have the kind of what was returned later.
    let is_returned =
        kept[at..].iter().any(|event| ["segment_free", "segment_unmap"].contains(&event.action));
    let layout = truth.file.options.layout;
    if is_returned || layout == Layout::V2_0 {
        return;
    }
    // Releases before 2.12 do not name the pool of a request.
    let pool = if layout == Layout::V2_12 { event.pool } else { (0, 0) };
    let is_small = event.size <= 1 << 20;
    let here: Vec<_> = gaps
        .iter()
        .filter(|(range, _)| {
            (range.key.stream, range.key.pool, range.key.is_small) == (event.stream, pool, is_small)
        })
        .flat_map(|(_, gaps)| gaps.iter().copied())
        .collect();
    compared.equal("oom's free bytes here", &report.free_here_bytes, &sum(&here));
    let largest = here.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    compared.equal("oom's largest piece", &report.largest_free_bytes, &largest);
}

pub(crate) fn scopes(truth: &Truth, history: &DeviceHistory, compared: &mut Compared) {
    if !truth.file.options.has_marks {
        return;
    }
    let scopes = Scopes::new(history.snapshot(), history.device());
    for name in ["step", "forward", "backward"] {
        let ends = truth.ends_of(name);
        for (number, end) in ends.iter().enumerate() {
            let found = scopes.end_of(&format!("{name}#{number}"));
            let open = || ScopeError::Open { name: format!("{name}#{number}") };
            compared.equal("end of a scope", &found, &end.map(moment).ok_or_else(open));
        }
        if ends.len() > 1 {
            let several = ScopeError::Several { name: name.to_owned(), n: ends.len() };
            compared.equal("several scopes", &scopes.end_of(name), &Err(several));
        }
    }
}

pub(crate) fn stats(truth: &Truth, history: &DeviceHistory, compared: &mut Compared) {
    let (stats, now) = (history.stats(), truth.device.now());
    let ranges = truth.ranges(truth.n_kept());
    let held = || truth.device.blocks.iter().filter(|block| block.is_held(now));
    let requested: u64 = held().map(|block| block.requested).sum();
    let sizes: u64 = held().map(|block| block.size).sum();
    let reserved: u64 = ranges.iter().map(|range| range.bytes).sum();
    compared.equal("stats: segments", &stats.n_segments, &ranges.len());
    compared.equal("stats: reserved", &stats.reserved_bytes, &i128::from(reserved));
    compared.equal("stats: allocated", &stats.allocated_bytes, &i128::from(requested));
    compared.equal("stats: external", &stats.free.external_bytes, &i128::from(reserved - sizes));
    compared.equal("stats: internal", &stats.free.internal_bytes, &i128::from(sizes - requested));
}
