//! Answers about one or two whole histories: the curve, the difference between two, and the curve under other settings.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use memreel::whatif::{Replay, Requests, ReservedFrom};
use memreel_snapshot::{DeviceId, analysis::GroupChange};
use serde_json::{Value, json};

use super::{device::Device, figures::Figures, refusal::Refusal, request::Request, state::totals, words};

/// The most points of a curve.
const MAX_POINTS: usize = 4000;

/// The most rows of a difference.
const MAX_CHANGES: usize = 500;

/// Returns the highest figures of stretches of equal length.
pub(super) fn curve(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let n_points: usize = request.number("points")?.unwrap_or(500).clamp(1, MAX_POINTS);
    let points = points(&device.figures, &device.history, n_points);
    Ok(
        json!({ "points": points.iter().map(|(at, active, reserved)| (at, active, reserved)).collect::<Vec<_>>() }),
    )
}

fn points(
    figures: &Figures,
    history: &memreel_snapshot::analysis::DeviceHistory<'_>,
    n_points: usize,
) -> Vec<(usize, u64, u64)> {
    let n_moments = figures.n_moments();
    let n_points = n_points.min(n_moments);
    let edge = |point: usize| point * n_moments / n_points;
    let point = |point: usize| {
        let found = figures.between(history, edge(point), edge(point + 1));
        (edge(point + 1) - 1, found.active[1], found.reserved[1])
    };
    (0..n_points).map(point).collect()
}

/// Returns the sites that hold more or less at a moment of another history than at one of this.
pub(super) fn diff(request: &Request, before: &Device<'_>, after: &Device<'_>) -> Result<Value, Refusal> {
    let moments = (
        request.moment("moment")?.unwrap_or(before.peak.moment),
        request.moment("other_moment")?.unwrap_or(after.peak.moment),
    );
    let mut changes = before.history.diff(moments.0, &after.history, moments.1);
    let figures = |group: &Option<memreel_snapshot::analysis::Group>| {
        group.as_ref().map_or((0, 0), |group| (group.bytes, group.n_blocks))
    };
    changes.sort_by_key(|change| Reverse(figures(&change.before).0.abs_diff(figures(&change.after).0)));
    let row = |change: &GroupChange| {
        let ((bytes_before, n_before), (bytes_after, n_after)) =
            (figures(&change.before), figures(&change.after));
        let frames = frames(change, before, after);
        let at = frames.first().cloned().unwrap_or_else(|| "(no stack)".to_owned());
        json!({
            "bytes_before": bytes_before, "bytes_after": bytes_after,
            "n_before": n_before, "n_after": n_after, "where": at, "frames": frames,
        })
    };
    Ok(json!({
        "before": totals(before, before.figures.at(&before.history, moments.0)),
        "after": totals(after, after.figures.at(&after.history, moments.1)),
        "n_changes": changes.len(),
        "changes": changes.iter().take(MAX_CHANGES).map(row).collect::<Vec<_>>(),
    }))
}

fn frames(change: &GroupChange, before: &Device<'_>, after: &Device<'_>) -> Vec<String> {
    let of =
        |group: &Option<memreel_snapshot::analysis::Group>, device: &Device<'_>| match group.as_ref()?.site {
            memreel_snapshot::analysis::Site::Stack(stack) => {
                let shown = device.history.shown_frames();
                Some(shown.identifying_frames(stack).take(12).map(words::call).collect::<Vec<_>>())
            }
            _ => None,
        };
    of(&change.after, after).or_else(|| of(&change.before, before)).unwrap_or_default()
}

/// The most points of a replay's curve.
const MAX_REPLAYED: usize = 1000;

/// Returns the curve of reserved memory under other settings, from a replay.
pub(super) fn whatif(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    if device.id == DeviceId::HOST {
        return Err(Refusal::usage("pinned host memory has no settings to try"));
    }
    let conf = request.text("conf").unwrap_or_default();
    let requests = Requests::new(device.history.snapshot(), device.id)?;
    let curve = Replay::new(&requests).conf(conf).bounds(requests.bounds()).reserved()?;
    let peak_bytes = curve.iter().map(|point| point.reserved_bytes).max();
    Ok(json!({
        "conf": conf,
        "points": thinned(&curve, device.figures.n_moments()),
        "peak_reserved_bytes": peak_bytes,
        "recorded_peak_reserved_bytes": device.history.highest(|totals| totals.reserved_bytes).reserved_bytes,
        "warnings": requests.warnings(),
    }))
}

/// Returns a curve's points; of too many, the highest of each stretch of moments.
fn thinned(curve: &[ReservedFrom], n_moments: usize) -> Vec<(u32, u64)> {
    let stretch = |point: &ReservedFrom| point.moment.n_entries() * MAX_REPLAYED / n_moments;
    let are_one = |one: &ReservedFrom, other: &ReservedFrom| {
        curve.len() > MAX_REPLAYED && stretch(one) == stretch(other)
    };
    let highest = |points: &[ReservedFrom]| points.iter().copied().max_by_key(|point| point.reserved_bytes);
    let points = curve.chunk_by(are_one).filter_map(highest);
    points.map(|point| (point.moment.0, point.reserved_bytes)).collect()
}
