//! The figures of one device of a watched process.

#![forbid(unsafe_code)]

use memreel::{FollowedDevice, Follower, LiveSums};
use memreel_snapshot::{
    DeviceId,
    analysis::{By, DeviceHistory, GroupChange, RowKind, Site, owners},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::detail::Detail;
use crate::text::Sites;

/// The calls of a site in its text.
const N_CALLS: usize = 3;

/// The figures of one device of a process at one look.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) file: String,
    pub(crate) process: u32,
    pub(crate) rank: Option<String>,
    pub(crate) is_running: bool,
    pub(crate) device: DeviceId,
    pub(crate) name: String,
    /// The most that the device reported as used since the recording started, and its size.
    pub(crate) used_bytes: Option<u64>,
    pub(crate) used_peak_bytes: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) live_bytes: u64,
    pub(crate) live_peak_bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) n_live: u64,
    pub(crate) allocations_per_s: u64,
    pub(crate) allocated_bytes_per_s: u64,
    #[serde(skip)]
    pub(crate) totals: Totals,
    pub(crate) owners: Vec<OwnerBytes>,
    pub(crate) holders: Vec<SiteBytes>,
    pub(crate) grown_in_a_minute: Vec<SiteBytes>,
    pub(crate) grown_since_begin: Vec<SiteBytes>,
    pub(crate) watched_us: u64,
    pub(crate) oom: Option<Oom>,
    /// How often events were dropped before they could be read.
    pub(crate) n_anew: u64,
    pub(crate) problems: Vec<String>,
}

/// The counts of a device since the watch began or the recording started, and the bytes by which it grew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Totals {
    pub(crate) n_allocs: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) n_frees: u64,
    pub(crate) n_ooms: u64,
    pub(crate) grown_in_a_minute: i64,
}

/// The current bytes of an owner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct OwnerBytes {
    pub(crate) owner: String,
    pub(crate) kind: RowKind,
    pub(crate) bytes: i64,
}

/// The current bytes of a site, or its growth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SiteBytes {
    pub(crate) bytes: i64,
    #[serde(skip)]
    pub(crate) text: String,
    /// The same, but no two sites of a list have equal ones: it may have more calls, depending on the others.
    #[serde(skip)]
    pub(crate) distinct_text: String,
    #[serde(flatten)]
    frames: Value,
}

impl SiteBytes {
    fn without_stack(bytes: i128) -> SiteBytes {
        let text = "(no stack)".to_owned();
        SiteBytes {
            bytes: saturated(bytes),
            distinct_text: text.clone(),
            text,
            frames: json!({"stack": null}),
        }
    }
}

/// The newest failed request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Oom {
    pub(crate) time_us: Option<u64>,
    pub(crate) requested_bytes: Option<u64>,
    pub(crate) n_ooms: u64,
    /// Why it failed; `None` if the tape cannot be read any more.
    pub(crate) why: Option<String>,
}

/// What a process's devices hold, by owner and by site.
pub(crate) struct HeldByProcess(pub(crate) Vec<HeldOfDevice>);

/// What one device holds.
#[derive(Clone, Default)]
pub(crate) struct HeldOfDevice {
    pub(crate) device: DeviceId,
    pub(crate) owners: Vec<OwnerBytes>,
    pub(crate) holders: Vec<SiteBytes>,
    pub(crate) grown_in_a_minute: Vec<SiteBytes>,
    pub(crate) grown_since_begin: Vec<SiteBytes>,
}

impl HeldByProcess {
    /// Returns what a process holds now, compared with what it held `before`: a minute ago, and at the start.
    pub(crate) fn of(
        follower: &Follower,
        now: &LiveSums,
        before: Option<[LiveSums; 2]>,
        devices: &[FollowedDevice],
        detail: Detail,
    ) -> HeldByProcess {
        let now = follower.snapshot_of(now);
        let before = before.map(|before| before.each_ref().map(|sums| follower.snapshot_of(sums)));
        let n = detail.n_sites;
        let tables = owners(&[&now]);
        let of_device = |device: DeviceId| {
            let history = DeviceHistory::new(&now, device);
            let sites = Sites::new(&history, N_CALLS);
            let grown = |before| {
                let before = DeviceHistory::new(before, device);
                let changes = before.diff(before.end(), &history, history.end());
                let of = |change: &GroupChange| {
                    let site = &change.after.as_ref().or(change.before.as_ref())?.site;
                    Some((change.bytes(), site.clone()))
                };
                of_sites(&sites, changes.iter().filter_map(of), n)
            };
            let holders = if n > 0 { history.top(history.end(), By::Stack) } else { Vec::new() };
            let [grown_in_a_minute, grown_since_begin] =
                before.as_ref().map_or_else(Default::default, |before| before.each_ref().map(grown));
            let table = tables.iter().find(|table| table.device == device);
            HeldOfDevice {
                device,
                owners: table.map(|table| first_owners(&table.rows, detail.n_owners)).unwrap_or_default(),
                holders: of_sites(
                    &sites,
                    holders.iter().map(|group| (i128::from(group.bytes), group.site.clone())),
                    n,
                ),
                grown_in_a_minute,
                grown_since_begin,
            }
        };
        HeldByProcess(devices.iter().map(|device| of_device(device.device)).collect())
    }

    pub(crate) fn take(&mut self, device: DeviceId) -> HeldOfDevice {
        let found = self.0.iter_mut().find(|held| held.device == device);
        found.map(std::mem::take).unwrap_or_default()
    }
}

/// Returns the first `n` sites that have more than nothing, which are given with the most bytes first. Those without a stack
/// are one.
fn of_sites(sites: &Sites<'_>, found: impl Iterator<Item = (i128, Site)>, n: usize) -> Vec<SiteBytes> {
    let (mut kept, mut without_stack) = (Vec::new(), 0);
    for (bytes, site) in found {
        match site {
            // The blocks of a stack are one here, so its size says nothing.
            Site::Size(_) => without_stack += bytes,
            site if bytes > 0 && kept.len() < n => kept.push((bytes, site)),
            _ => {}
        }
    }
    let texts = sites.all_plain(&kept.iter().map(|(_, site)| site).collect::<Vec<_>>());
    let row = |((bytes, site), distinct_text): (&(i128, Site), String)| SiteBytes {
        bytes: saturated(*bytes),
        text: sites.plain(site),
        distinct_text,
        frames: serde_json::to_value(sites.site_frames(site)).unwrap_or_default(),
    };
    let mut all: Vec<SiteBytes> = kept.iter().zip(texts).map(row).collect();
    if without_stack > 0 {
        all.push(SiteBytes::without_stack(without_stack));
        all.sort_by_key(|site| std::cmp::Reverse(site.bytes));
        all.truncate(n);
    }
    all
}

/// Returns the owners with the most bytes now.
fn first_owners(rows: &[memreel_snapshot::analysis::OwnerRow], n: usize) -> Vec<OwnerBytes> {
    let bytes = |row: &memreel_snapshot::analysis::OwnerRow| row.now_bytes.filter(|bytes| *bytes != 0);
    let mut all: Vec<OwnerBytes> = rows
        .iter()
        .filter_map(|row| {
            Some(OwnerBytes { owner: row.owner.clone(), kind: row.kind, bytes: saturated(bytes(row)?) })
        })
        .collect();
    all.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    all.truncate(n);
    all
}

pub(crate) fn saturated(bytes: i128) -> i64 {
    i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX })
}
