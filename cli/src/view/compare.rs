//! Questions about a whole history or two: its curve, the difference between two, and the curve under other settings.

#![forbid(unsafe_code)]

use memreel::{
    analysis::GroupChange,
    whatif::{Requests, replayed},
};
use serde_json::{Value, json};

use super::{
    asked::Asked,
    device::Device,
    figures::{self, Figures},
    refusal::Refusal,
    state::totals,
    words,
};

/// The most points of a curve.
const MAX_POINTS: usize = 4000;

/// The most rows of a difference.
const MAX_CHANGES: usize = 500;

/// Returns the highest figures of stretches of equal length.
pub(super) fn curve(asked: &Asked, device: &Device<'_>) -> Result<Value, Refusal> {
    let n_points: usize = asked.number("points")?.unwrap_or(500).clamp(1, MAX_POINTS);
    let points = points(&device.figures, &device.history, n_points);
    Ok(
        json!({ "points": points.iter().map(|(at, active, reserved)| (at, active, reserved)).collect::<Vec<_>>() }),
    )
}

fn points(
    figures: &Figures,
    history: &memreel::analysis::DeviceHistory<'_>,
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
pub(super) fn diff(asked: &Asked, before: &Device<'_>, after: &Device<'_>) -> Result<Value, Refusal> {
    let moments = (
        asked.moment("moment")?.unwrap_or(before.peak.moment),
        asked.moment("other_moment")?.unwrap_or(after.peak.moment),
    );
    let changes = before.history.diff(moments.0, &after.history, moments.1);
    let figures = |group: &Option<memreel::analysis::Group>| {
        group.as_ref().map_or((0, 0), |group| (group.bytes, group.n_blocks))
    };
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
    let of = |group: &Option<memreel::analysis::Group>, device: &Device<'_>| match group.as_ref()?.site {
        memreel::analysis::Site::Stack(stack) => {
            let shown = device.history.shown_frames();
            Some(shown.identifying_frames(stack).take(12).map(words::call).collect::<Vec<_>>())
        }
        _ => None,
    };
    of(&change.after, after).or_else(|| of(&change.before, before)).unwrap_or_default()
}

/// Returns the curve of reserved memory under other settings, from a replay.
pub(super) fn whatif(asked: &Asked, device: &Device<'_>) -> Result<Value, Refusal> {
    let conf = asked.text("conf").unwrap_or_default();
    let snapshot = device.history.snapshot();
    let requests = Requests::new(snapshot, device.id)?;
    let replayed = replayed(snapshot, &[&requests], conf, None)?;
    let history = memreel::analysis::DeviceHistory::new(&replayed, device.id);
    let figures = Figures::new(&history);
    let all = figures.between(&history, 0, figures.n_moments());
    let curve = points(&figures, &history, 1000);
    // The replay has other events; its curve is drawn by time, which both have.
    let time = |at: usize| {
        let entry = at.saturating_sub(1);
        replayed.trace(device.id).get(entry).map(|entry| entry.time_us)
    };
    let first_us = device.first_us().unwrap_or(0);
    let point = |(at, _, reserved): &(usize, u64, u64)| {
        let since_us = time(*at).map_or(0, |time_us| time_us.saturating_sub(first_us));
        (figures::moment(device.moment_at(since_us)).0, *reserved)
    };
    Ok(json!({
        "conf": conf,
        "points": curve.iter().map(point).collect::<Vec<_>>(),
        "peak_reserved_bytes": all.reserved[1],
        "recorded_peak_reserved_bytes": device.history.highest(|totals| totals.reserved_bytes).reserved_bytes,
        "warnings": requests.warnings(),
    }))
}
