//! What the kernel reported about a process's resident memory, stored in the settings: `memreel_resident` in
//! `allocator_settings`.
//!
//! It is a list of dictionaries, one for each report, oldest first, with the fields of [`ResidentReport`]. Of an area they
//! have `kind` and `name`, `range` and `holes` as lists of addresses, and bytes.

use std::ops::Range;

use super::{
    Snapshot, Value,
    recorded::{RESIDENT, set_setting},
};
use crate::words::{AreaKind, DeviceId, GroupReport, ResidentArea, ResidentReport};

/// Returns the setting, its key and its value; `None` if there is nothing to store.
pub fn resident_setting(reports: &[ResidentReport]) -> Option<(&'static str, Value)> {
    (!reports.is_empty()).then(|| (RESIDENT, Value::List(reports.iter().map(value).collect())))
}

/// Writes reports into the settings of a snapshot, if it has settings.
pub(crate) fn store(snapshot: &mut Snapshot, reports: &[ResidentReport]) {
    if let Some((key, value)) = resident_setting(reports) {
        set_setting(snapshot, key, value);
    }
}

fn value(report: &ResidentReport) -> Value {
    Value::dict([
        ("device", Value::Int(report.device.0)),
        ("time_us", Value::unsigned(report.time_us)),
        ("resident_bytes", Value::unsigned(report.resident_bytes)),
        ("peak_bytes", Value::unsigned(report.peak_bytes)),
        ("swapped_bytes", Value::unsigned(report.swapped_bytes)),
        ("machine_bytes", Value::unsigned(report.machine_bytes)),
        ("recorder_bytes", Value::unsigned(report.recorder_bytes)),
        ("group", report.group.as_ref().map_or(Value::None, group_value)),
        ("areas", Value::List(report.areas.iter().map(area_value).collect())),
    ])
}

fn group_value(group: &GroupReport) -> Value {
    let known = |bytes: Option<u64>| bytes.map_or(Value::None, Value::unsigned);
    Value::dict([
        ("used_bytes", Value::unsigned(group.used_bytes)),
        ("peak_bytes", known(group.peak_bytes)),
        ("limit_bytes", known(group.limit_bytes)),
        ("cache_bytes", Value::unsigned(group.cache_bytes)),
        ("shared_bytes", Value::unsigned(group.shared_bytes)),
        ("kernel_bytes", Value::unsigned(group.kernel_bytes)),
        ("n_killed", Value::unsigned(group.n_killed)),
    ])
}

fn area_value(area: &ResidentArea) -> Value {
    let ends = |range: &Range<u64>| [Value::unsigned(range.start), Value::unsigned(range.end)];
    Value::dict([
        ("kind", Value::text(area.kind.name())),
        ("name", Value::text(&area.name)),
        ("range", Value::List(ends(&area.range).into())),
        ("resident_bytes", Value::unsigned(area.resident_bytes)),
        ("shared_out_bytes", Value::unsigned(area.shared_out_bytes)),
        ("huge_bytes", Value::unsigned(area.huge_bytes)),
        ("holes", Value::List(area.holes.iter().flat_map(ends).collect())),
    ])
}

impl Snapshot {
    /// Returns what the kernel reported about the process's resident memory during the recording, oldest first; nothing
    /// if the file does not have it. Invalid reports are left out.
    #[must_use]
    pub fn resident(&self) -> Vec<ResidentReport> {
        let all = self.allocator_settings().and_then(|settings| settings.get(RESIDENT));
        let mut reports: Vec<ResidentReport> =
            all.and_then(Value::as_elements).unwrap_or_default().iter().filter_map(report).collect();
        reports.sort_by_key(|report| report.time_us);
        reports
    }
}

fn report(value: &Value) -> Option<ResidentReport> {
    let bytes = |key| value.get(key).and_then(Value::as_unsigned);
    let mut areas: Vec<ResidentArea> = value.get("areas")?.as_elements()?.iter().filter_map(area).collect();
    areas.sort_by_key(|area| (area.range.is_empty(), area.range.start));
    // Areas of one address space do not overlap; if they do, the first counts.
    let mut end = 0;
    areas.retain(|area| {
        let is_apart = area.range.is_empty() || area.range.start >= end;
        end = if is_apart { end.max(area.range.end) } else { end };
        is_apart
    });
    Some(ResidentReport {
        device: DeviceId(value.get("device")?.as_int()?),
        time_us: bytes("time_us")?,
        resident_bytes: bytes("resident_bytes")?,
        peak_bytes: bytes("peak_bytes")?,
        swapped_bytes: bytes("swapped_bytes").unwrap_or(0),
        machine_bytes: bytes("machine_bytes").unwrap_or(0),
        recorder_bytes: bytes("recorder_bytes").unwrap_or(0),
        group: value.get("group").and_then(group),
        areas,
    })
}

fn group(value: &Value) -> Option<GroupReport> {
    let bytes = |key| value.get(key).and_then(Value::as_unsigned);
    Some(GroupReport {
        used_bytes: bytes("used_bytes")?,
        peak_bytes: bytes("peak_bytes"),
        limit_bytes: bytes("limit_bytes"),
        cache_bytes: bytes("cache_bytes").unwrap_or(0),
        shared_bytes: bytes("shared_bytes").unwrap_or(0),
        kernel_bytes: bytes("kernel_bytes").unwrap_or(0),
        n_killed: bytes("n_killed").unwrap_or(0),
    })
}

fn area(value: &Value) -> Option<ResidentArea> {
    let bytes = |key| value.get(key).and_then(Value::as_unsigned).unwrap_or(0);
    let text = |key| value.get(key).and_then(Value::as_text);
    let range = ranges(value.get("range")?).into_iter().next().unwrap_or(0..0);
    let mut holes = value.get("holes").map(ranges).unwrap_or_default();
    holes.retain(|hole| range.start <= hole.start && hole.end <= range.end);
    if !holes.is_sorted_by(|one, next| one.end <= next.start) {
        holes.clear();
    }
    Some(ResidentArea {
        kind: AreaKind::of_name(text("kind")?)?,
        name: text("name").map_or_else(String::new, |name| (**name).into()),
        range,
        resident_bytes: bytes("resident_bytes"),
        shared_out_bytes: bytes("shared_out_bytes"),
        huge_bytes: bytes("huge_bytes"),
        holes,
    })
}

/// Returns the ranges in a list of their starts and ends; invalid ones are left out.
fn ranges(value: &Value) -> Vec<Range<u64>> {
    let pairs = value.as_elements().unwrap_or_default().chunks_exact(2);
    let range = |pair: &[Value]| Some(pair[0].as_unsigned()?..pair[1].as_unsigned()?);
    pairs.filter_map(range).filter(|range| range.start < range.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn random_report(random: &mut Rng) -> ResidentReport {
        let mut at = 0;
        let areas = (0..random.usize(..5)).map(|_| {
            let start = at + 4096 * random.u64(1..9);
            at = start + 4096 * random.u64(2..9);
            let range = start..at;
            let holes =
                if random.bool() { Vec::from([Range { start, end: start + 4096 }]) } else { Vec::new() };
            ResidentArea {
                kind: AreaKind::ALL[random.usize(..AreaKind::ALL.len())],
                name: if random.bool() { "/lib/a.so".into() } else { String::new() },
                range,
                resident_bytes: random.u64(..),
                shared_out_bytes: random.u64(..1 << 40),
                huge_bytes: random.u64(..1 << 40),
                holes,
            }
        });
        let areas: Vec<ResidentArea> = areas.collect();
        let group = GroupReport {
            used_bytes: random.u64(..),
            peak_bytes: random.bool().then_some(5),
            limit_bytes: random.bool().then(|| random.u64(..)),
            cache_bytes: 1,
            shared_bytes: 2,
            kernel_bytes: 3,
            n_killed: 4,
        };
        ResidentReport {
            device: DeviceId(1),
            time_us: random.u64(..1 << 50),
            resident_bytes: random.u64(..),
            peak_bytes: random.u64(..),
            swapped_bytes: 7,
            machine_bytes: 8,
            recorder_bytes: 9,
            group: random.bool().then_some(group),
            areas,
        }
    }

    #[test]
    fn reports_come_back_equal() {
        let mut random = Rng::with_seed(5);
        for _ in 0..200 {
            let expected = random_report(&mut random);
            assert_eq!(report(&value(&expected)), Some(expected));
        }
    }

    #[test]
    fn what_is_not_a_report_is_left_out() {
        assert_eq!(report(&Value::None), None);
        assert_eq!(report(&Value::dict([("areas", Value::List([].into()))])), None);
        let area_of = |range: [u64; 2], holes: &[u64]| {
            let list = |all: &[u64]| Value::List(all.iter().map(|at| Value::unsigned(*at)).collect());
            area(&Value::dict([
                ("kind", Value::text("stack")),
                ("range", list(&range)),
                ("holes", list(holes)),
            ]))
        };
        assert_eq!(area_of([8, 4], &[]).unwrap().range, 0..0);
        assert_eq!(area_of([0, 90], &[10, 20, 15, 30]).unwrap().holes, [], "they overlap");
        assert_eq!(
            area_of([0, 90], &[10, 20, 80, 99]).unwrap().holes,
            [Range { start: 10, end: 20 }],
            "one is outside"
        );
    }
}
