//! Records of a snapshot, as values.

use serde_json::{Value, json};

/// Where addresses of the cases begin.
pub(super) const BASE: u64 = 0x7f00_0000_0000;

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn many(n: u64, record: impl FnMut(u64) -> Value) -> Vec<Value> {
    (0..n).map(record).collect()
}

/// Returns a record with one more key.
pub(super) fn and(mut record: Value, key: &str, value: impl Into<Value>) -> Value {
    record[key] = value.into();
    record
}

/// Returns a record with many more keys.
pub(super) fn with_keys(mut record: Value, n: u64) -> Value {
    let keys = (0..n).map(|at| (format!("key{at:07}"), Value::Null));
    record.as_object_mut().unwrap().extend(keys);
    record
}

/// A snapshot of these segments and traces.
pub(super) fn file(segments: Vec<Value>, traces: Vec<Value>) -> Value {
    json!({ "segments": segments, "device_traces": traces })
}

/// A snapshot of one trace.
pub(super) fn traced(entries: Vec<Value>) -> Value {
    file(vec![], vec![entries.into()])
}

/// A snapshot with an event in each of some microseconds, and these annotations.
pub(super) fn annotated(annotations: Vec<Value>) -> Value {
    let entries = many(50, |at| entry("alloc", BASE + 512 * at, 10 * at));
    and(traced(entries), "external_annotations", annotations)
}

pub(super) fn entry(action: &str, address: u64, time: u64) -> Value {
    sized_entry(action, [address, 512], time)
}

pub(super) fn sized_entry(action: &str, [address, bytes]: [u64; 2], time: u64) -> Value {
    json!({ "action": action, "addr": address, "size": bytes, "stream": 0, "time_us": time })
}

/// An allocation that is at no other's address.
pub(super) fn alloc(at: u64) -> Value {
    entry("alloc", BASE + 512 * at, at)
}

/// An allocation with a stack.
pub(super) fn stacked(at: u64, frames: Vec<Value>) -> Value {
    and(alloc(at), "frames", frames)
}

pub(super) fn frame(name: impl Into<Value>, line: u64) -> Value {
    json!({ "name": name.into(), "filename": "/home/user/train.py", "line": line })
}

/// A segment without the list of its blocks.
pub(super) fn segment(address: u64, bytes: u64, device: i64) -> Value {
    json!({
        "device": device, "address": address, "total_size": bytes, "segment_type": "large",
        "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0,
    })
}

pub(super) fn empty_segment(address: u64, bytes: u64, device: i64) -> Value {
    and(segment(address, bytes, device), "blocks", vec![] as Vec<Value>)
}

/// A snapshot of one segment with these blocks.
pub(super) fn of_blocks(blocks: Vec<Value>) -> Value {
    file(vec![and(segment(BASE, 1 << 40, 0), "blocks", blocks)], vec![])
}

pub(super) fn block(address: u64) -> Value {
    json!({ "address": address, "size": 512, "requested_size": 511, "state": "active_allocated" })
}

/// A beginning or an end of an annotated scope.
pub(super) fn scope(stage: &str, name: impl Into<Value>, device: u64, time: u64) -> Value {
    json!({ "stage": stage, "name": name.into(), "device": device, "time_us": time })
}
