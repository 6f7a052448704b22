//! What devices reported about their memory, stored in the settings: `memreel_usage` in `allocator_settings`.
//!
//! It is a list with a dictionary for each device: `device`, `name`, `uuid`, and `reports`, a list of lists of eight:
//! microseconds since the Unix epoch, bytes used, bytes of the device, bytes of other processes (`None` if they are not
//! visible), bytes of slack in the driver's pools, bytes of rounding to pages, bytes of no process, bytes of
//! reserved addresses. Older files have six or seven.

use super::{
    Snapshot, Value,
    recorded::{USAGE, set_setting},
};
use crate::words::{DeviceId, DeviceUsage, TimedUsage, UsageReport};

/// Returns the setting, its key and its value; `None` if there is nothing to store.
pub fn usage_setting(devices: &[DeviceUsage]) -> Option<(&'static str, Value)> {
    let of_device = |usage: &DeviceUsage| {
        Value::dict([
            ("device", Value::Int(usage.device.0)),
            ("name", Value::text(&usage.name)),
            ("uuid", Value::text(&usage.uuid)),
            ("reports", Value::List(usage.reports.iter().map(report_value).collect())),
        ])
    };
    (!devices.is_empty()).then(|| (USAGE, Value::List(devices.iter().map(of_device).collect())))
}

/// Writes what devices reported into the settings of a snapshot, if it has settings.
pub(crate) fn store(snapshot: &mut Snapshot, devices: &[DeviceUsage]) {
    if let Some((key, value)) = usage_setting(devices) {
        set_setting(snapshot, key, value);
    }
}

fn report_value(TimedUsage { time_us, report }: &TimedUsage) -> Value {
    let UsageReport { used_bytes, total_bytes, other_processes_bytes, .. } = *report;
    Value::List(
        [
            Value::unsigned(*time_us),
            Value::unsigned(used_bytes),
            Value::unsigned(total_bytes),
            other_processes_bytes.map_or(Value::None, Value::unsigned),
            Value::unsigned(report.pool_slack_bytes),
            Value::unsigned(report.page_rounding_bytes),
            Value::unsigned(report.no_process_bytes),
            Value::unsigned(report.reserved_address_bytes),
        ]
        .into(),
    )
}

impl Snapshot {
    /// Returns what each device reported about its memory during the recording; nothing if the file does not have it.
    /// Invalid reports, such as a text in place of a number, are left out.
    #[must_use]
    pub fn usage(&self) -> Vec<DeviceUsage> {
        of_settings(self.allocator_settings())
    }
}

/// Returns what settings say. What is not of the form above is left out.
fn of_settings(settings: Option<&Value>) -> Vec<DeviceUsage> {
    let devices = settings.and_then(|settings| settings.get(USAGE)).and_then(Value::as_elements);
    devices.unwrap_or_default().iter().filter_map(of_value).collect()
}

fn of_value(value: &Value) -> Option<DeviceUsage> {
    let device = DeviceId(value.get("device")?.as_int()?);
    let text =
        |key: &str| value.get(key).and_then(Value::as_text).map_or_else(String::new, |text| (**text).into());
    let reports = value.get("reports").and_then(Value::as_elements).unwrap_or_default();
    let mut reports: Vec<TimedUsage> = reports.iter().filter_map(report).collect();
    reports.sort_by_key(|report| report.time_us);
    Some(DeviceUsage { device, name: text("name"), uuid: text("uuid"), reports })
}

fn report(value: &Value) -> Option<TimedUsage> {
    let [time_us, used, total, others, slack, rounding, rest @ ..] = value.as_elements()? else {
        return None;
    };
    let other_processes_bytes = match others {
        Value::None => None,
        others => Some(others.as_unsigned()?),
    };
    let report = UsageReport {
        used_bytes: used.as_unsigned()?,
        total_bytes: total.as_unsigned()?,
        other_processes_bytes,
        no_process_bytes: rest.first().map_or(Some(0), Value::as_unsigned)?,
        pool_slack_bytes: slack.as_unsigned()?,
        page_rounding_bytes: rounding.as_unsigned()?,
        reserved_address_bytes: rest.get(1).map_or(Some(0), Value::as_unsigned)?,
    };
    Some(TimedUsage { time_us: time_us.as_unsigned()?, report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn settings(devices: &[DeviceUsage]) -> Value {
        Value::dict(usage_setting(devices))
    }

    fn random_usage(random: &mut Rng) -> DeviceUsage {
        let mut number = || if random.u64(..9) == 0 { u64::MAX } else { random.u64(..1 << 40) };
        let mut times: Vec<u64> = (0..number() % 20).map(|_| number() % 50).collect();
        times.sort_unstable();
        let report = |time_us| TimedUsage {
            time_us,
            report: UsageReport {
                used_bytes: number(),
                total_bytes: number(),
                other_processes_bytes: Some(number()).filter(|bytes| bytes % 2 == 0),
                no_process_bytes: number(),
                pool_slack_bytes: number(),
                page_rounding_bytes: number(),
                reserved_address_bytes: number(),
            },
        };
        let reports = times.into_iter().map(report).collect();
        DeviceUsage {
            device: DeviceId(random.u64(..9) as i64 - 1),
            name: "a".into(),
            uuid: "b".into(),
            reports,
        }
    }

    #[test]
    fn usage_comes_back_equal() {
        for seed in 0..200 {
            let mut random = Rng::with_seed(seed);
            let devices: Vec<DeviceUsage> = (0..random.u64(..4)).map(|_| random_usage(&mut random)).collect();
            assert_eq!(of_settings(Some(&settings(&devices))), devices, "seed {seed}");
        }
        assert_eq!(of_settings(None), []);
    }

    /// One value anywhere in the key is replaced by another; the rest is read.
    #[test]
    fn bad_values_are_left_out() {
        for seed in 0..2000 {
            let mut random = Rng::with_seed(seed);
            let devices: Vec<DeviceUsage> = (0..3).map(|_| random_usage(&mut random)).collect();
            let n_before: usize = devices.iter().map(|device| device.reports.len()).sum();
            let whole = settings(&devices);
            let mut at = random.usize(..60);
            let damaged = damaged(&whole, &mut at, &mut random);
            let read = of_settings(Some(&damaged));
            assert!(read.len() <= 3, "seed {seed}");
            assert!(read.iter().map(|device| device.reports.len()).sum::<usize>() <= n_before, "seed {seed}");
        }
    }

    fn damaged(value: &Value, at: &mut usize, random: &mut Rng) -> Value {
        *at = at.wrapping_sub(1);
        if *at == usize::MAX {
            let other =
                [Value::None, Value::Int(-1), Value::text("x"), Value::List([].into()), Value::Float(1.5)];
            return random.choice(&other).unwrap().clone();
        }
        match value {
            Value::List(all) => Value::List(all.iter().map(|value| damaged(value, at, random)).collect()),
            Value::Dict(pairs) => Value::Dict(
                pairs.iter().map(|(key, value)| (key.clone(), damaged(value, at, random))).collect(),
            ),
            value => value.clone(),
        }
    }
}
