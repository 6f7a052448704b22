//! The state of the allocator at a moment: segments, their blocks, and what is free between them.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use memreel_snapshot::{
    analysis::{SegmentLayout, Totals},
    history::{Life, Moment},
};
use serde_json::{Value, json};

use super::{
    device::Device,
    groups::{Colour, pool_name},
    refusal::Refusal,
    request::Request,
};

/// The most blocks of an answer; the smallest of more are summed up.
const MAX_BLOCKS: usize = 50_000;

/// Returns the segments with their blocks.
pub(super) fn answer(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let moment = request.moment("moment")?.unwrap_or(device.peak.moment).min(device.history.end());
    let colour = Colour::parse(request.text("colour"))?;
    let groups = device.groups(colour);
    let layout = device.history.layout(moment);
    let least_bytes = least(&layout);
    let (mut n_left_out, mut left_out_bytes) = (0_usize, 0_u64);
    let mut block = |segment: &SegmentLayout<'_>, life: &Life| {
        if life.bytes < least_bytes {
            n_left_out += 1;
            left_out_bytes = left_out_bytes.saturating_add(life.bytes);
            return None;
        }
        let number = u32::try_from(device.history.number_of(life)).unwrap_or(u32::MAX);
        let offset = life.address - segment.range.address;
        let is_pending = u8::from(!life.is_allocated_at(moment));
        let group = groups.number(life, number);
        Some(json!([number, offset, life.bytes, life.requested_bytes, is_pending, group]))
    };
    let segments = layout.iter().map(|segment| {
        let of_segment = || device.expandable_range(segment.range.address);
        let range = segment.range.is_expandable.then(of_segment).flatten();
        json!({
            "address": segment.range.address.to_string(),
            "bytes": segment.range.bytes,
            "stream": segment.range.stream,
            "pool": pool_name(segment.range.pool),
            "kind": segment.range.kind.map(|kind| kind.name()),
            "is_expandable": segment.range.is_expandable,
            "range": range.map(|range| json!([range.start.to_string(), range.end - range.start])),
            "largest_gap_bytes": segment.largest_gap_bytes(),
            "used_bytes": segment.used_bytes(),
            "blocks": segment.blocks.iter().filter_map(|life| block(segment, life)).collect::<Vec<_>>(),
        })
    });
    let segments: Vec<Value> = segments.collect();
    Ok(json!({
        "moment": moment.0,
        "totals": totals(device, device.figures.at(&device.history, moment)),
        "n_left_out": n_left_out,
        "left_out_bytes": left_out_bytes,
        "segments": segments,
    }))
}

/// Returns the size from which a block is in the answer.
fn least(layout: &[SegmentLayout<'_>]) -> u64 {
    let mut sizes: Vec<Reverse<u64>> =
        layout.iter().flat_map(|segment| segment.blocks.iter().map(|life| Reverse(life.bytes))).collect();
    if sizes.len() <= MAX_BLOCKS {
        return 0;
    }
    let (_, Reverse(at), _) = sizes.select_nth_unstable(MAX_BLOCKS);
    *at + 1
}

/// Returns the figures of a moment, with the event that has just happened.
pub(super) fn totals(device: &Device<'_>, totals: Totals) -> Value {
    let entry = totals.moment.entry();
    let action = entry.and_then(|entry| device.history.entries().get(entry)?.action);
    json!({
        "moment": totals.moment.0,
        "event": entry,
        "time_us": device.time_us(totals.moment),
        "action": action.map(|action| action.name()),
        "allocated_bytes": totals.allocated_bytes,
        "active_bytes": totals.active_bytes,
        "rounded_bytes": totals.rounded_bytes,
        "reserved_bytes": totals.reserved_bytes,
        "n_blocks": totals.n_blocks,
    })
}

/// The most moments of an answer about several.
const MAX_MOMENTS: usize = 100_000;

/// Returns the figures of a moment, or of several.
pub(super) fn figures(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let history = &device.history;
    let Some(from) = request.moment("from")? else {
        let moment = request.moment("moment")?.unwrap_or(device.peak.moment);
        return Ok(totals(device, device.figures.at(history, moment)));
    };
    let count: usize = request.number("count")?.unwrap_or(1000).min(MAX_MOMENTS);
    let start = device.figures.at(history, from);
    let all: Vec<Totals> = std::iter::once(start).chain(history.totals_after(start)).take(count).collect();
    let column = |figure: fn(&Totals) -> u64| all.iter().map(figure).collect::<Vec<_>>();
    Ok(json!({
        "from": start.moment.0,
        "allocated_bytes": column(|totals| totals.allocated_bytes),
        "active_bytes": column(|totals| totals.active_bytes),
        "reserved_bytes": column(|totals| totals.reserved_bytes),
    }))
}

/// Returns the next moment of a kind: an event with that action, or the peak.
pub(super) fn next(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let from = request.moment("moment")?.unwrap_or(Moment::START).n_entries();
    let is_back = request.text("direction") == Some("-1");
    let kind = request.text("kind").unwrap_or("segment");
    if kind == "peak" {
        let peak = device.peak.moment.n_entries();
        let is_there = if is_back { peak < from } else { peak > from };
        return Ok(json!({ "moment": is_there.then_some(device.peak.moment.0) }));
    }
    let is_of_kind = |name: &str| match kind {
        "segment" => name.starts_with("segment_"),
        "free" => name.starts_with("free"),
        kind => name == kind,
    };
    let entries = device.history.entries();
    let is_there = |at: &usize| entries[*at].action.is_some_and(|action| is_of_kind(action.name()));
    let found = match is_back {
        true => (0..from.saturating_sub(1).min(entries.len())).rev().find(is_there),
        false => (from.min(entries.len())..entries.len()).find(is_there),
    };
    Ok(json!({ "moment": found.map(|entry| Moment::after(entry).0) }))
}
