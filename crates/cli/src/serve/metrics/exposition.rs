//! Writes the metrics of all devices in the OpenMetrics text format.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::{
    families::{COUNTERS, Family, GAUGES},
    owners::Owners,
};
use crate::run::figures::{Figures, OwnerBytes};

/// The prefix of all metric names.
const PREFIX: &str = "memreel";

/// The name and the value of each label.
type Labels = Vec<(&'static str, String)>;

/// Series of one metric.
type Series<M> = Vec<(Labels, M)>;

/// Returns the metrics of devices, as they were at a time in seconds since the Unix epoch.
pub(super) fn text(figures: Vec<Figures>, owners: &Owners, look_s: f64) -> String {
    let at_peak = figures.iter().map(|of| owners.at_peak(of).to_vec()).collect();
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Devices { figures, at_peak, look_s }));
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = encode(&mut text, &registry);
    text
}

/// The devices at one look.
#[derive(Debug)]
struct Devices {
    figures: Vec<Figures>,
    /// The owners of each at its peak.
    at_peak: Vec<Vec<OwnerBytes>>,
    look_s: f64,
}

impl Collector for Devices {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in GAUGES {
            self.family(&family, ConstGauge::new, &mut encoder)?;
        }
        for family in COUNTERS {
            self.family(&family, ConstCounter::new, &mut encoder)?;
        }
        let owners = self.rows(self.figures.iter().map(|of| &*of.owners));
        put(&mut encoder, ("owner", "Bytes held by an owner", Some(&Unit::Bytes)), &owners)?;
        let owners = self.rows(self.at_peak.iter().map(Vec::as_slice));
        let help = "Bytes held by an owner at the sample with the most in use";
        put(&mut encoder, ("owner_at_peak", help, Some(&Unit::Bytes)), &owners)?;
        put(&mut encoder, ("site", "Bytes held by a call site", Some(&Unit::Bytes)), &self.sites())?;
        let n_processes = self.figures.iter().map(|of| &of.file).collect::<BTreeSet<_>>().len();
        let processes = vec![(Labels::new(), ConstGauge::new(n_processes as u64))];
        put(&mut encoder, ("processes", "Recorded processes that are running", None), &processes)?;
        let look = vec![(Labels::new(), ConstGauge::new(self.look_s))];
        put(
            &mut encoder,
            ("look_timestamp", "When the reading of these figures started", Some(&Unit::Seconds)),
            &look,
        )
    }
}

impl Devices {
    fn family<T, M: EncodeMetric>(
        &self,
        family: &Family<T>,
        metric: fn(T) -> M,
        encoder: &mut DescriptorEncoder,
    ) -> fmt::Result {
        let series: Series<M> = self
            .figures
            .iter()
            .filter_map(|figures| Some((labels(figures), metric((family.of)(figures)?))))
            .collect();
        let unit = family.is_bytes.then_some(&Unit::Bytes);
        put(encoder, (family.name, family.help, unit), &series)
    }

    /// Returns the series of owners. Rows of one name and kind are one.
    fn rows<'a>(&self, owners: impl Iterator<Item = &'a [OwnerBytes]>) -> Series<ConstGauge<i64>> {
        let mut all = Series::new();
        for (figures, owners) in self.figures.iter().zip(owners) {
            let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
            for OwnerBytes { owner, kind, bytes } in owners {
                let kind = serde_json::to_value(kind).unwrap_or_default();
                let key = (owner.clone(), kind.as_str().unwrap_or_default().to_owned());
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(*bytes);
            }
            for ((owner, kind), bytes) in sums {
                let of_owner = [("owner", owner), ("kind", kind)];
                all.push((labels(figures).into_iter().chain(of_owner).collect(), ConstGauge::new(bytes)));
            }
        }
        all
    }

    /// Returns the series of sites. Sites of one name are one.
    fn sites(&self) -> Series<ConstGauge<i64>> {
        let mut all = Series::new();
        for figures in &self.figures {
            let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
            for site in &figures.holders {
                let sum = sums.entry(&site.text).or_default();
                *sum = sum.saturating_add(site.bytes);
            }
            for (site, bytes) in sums {
                let of_site = [("site", site.to_owned())];
                all.push((labels(figures).into_iter().chain(of_site).collect(), ConstGauge::new(bytes)));
            }
        }
        all
    }
}

/// Writes a metric with its series, if it has any.
fn put<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder,
    (name, help, unit): (&str, &str, Option<&Unit>),
    series: &Series<M>,
) -> fmt::Result {
    let Some((_, first)) = series.first() else { return Ok(()) };
    // The library ends the text with a full stop only where it is registered by name.
    let help = format!("{help}.");
    let mut metric = encoder.encode_descriptor(name, &help, unit, first.metric_type())?;
    series.iter().try_for_each(|(labels, number)| number.encode(metric.encode_family(labels)?))
}

/// Returns what a device is known by.
fn labels(figures: &Figures) -> Labels {
    let mut labels = vec![
        ("process", figures.process.to_string()),
        ("device", figures.device.to_string()),
        ("device_name", figures.name.clone()),
    ];
    labels.extend(figures.rank.iter().map(|rank| ("rank", rank.clone())));
    labels
}
