//! Follows the tapes of running processes: reports what they hold now, without disturbing them.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, path::Path};

use crate::{
    collect::{Completed, snapshot_of},
    past::{FollowedCounts, FollowedState, FollowedTape, HeldSums},
    stack::SharedNames,
};
use memreel_snapshot::{
    model::Snapshot,
    words::{DeviceId, Result, StackId, UsageReport},
};

/// Follows a growing tape: reports what is live at each look, with its owners and stacks.
///
/// The state is taken once; each later look reads what was appended since. Reading changes nothing in the file and takes no
/// lock of the process. Memory is in proportion to what is live and does not grow with the length of the run. An event can
/// be one look late, because other threads may have recorded older ones that are not in the file yet.
///
/// ```
/// use memreel::{Follower, Reel, recorder::Recording};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("run.tape");
/// let reel = Reel::builder().history(Recording::all().tape(&path)).build()?;
/// let block = reel.alloc(1000)?;
/// let mut follower = Follower::attach(&path)?;
/// follower.look()?;
/// assert_eq!(follower.devices()[0].live_bytes, 1000);
/// drop(block);
/// follower.look()?;
/// follower.look()?;
/// assert_eq!(follower.devices()[0].live_bytes, 0);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    follow: FollowedTape,
    names: SharedNames,
}

/// A device of a followed process, at the last look.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FollowedDevice {
    /// The number of the device.
    pub device: DeviceId,
    /// The name of the device; empty if it is not known.
    pub name: String,
    /// The bytes that the live blocks asked for.
    pub live_bytes: u64,
    /// The number of live blocks that were recorded.
    pub n_live: u64,
    /// The highest `live_bytes` seen: since the oldest event in the file, or later.
    pub peak_bytes: u64,
    /// The bytes of the segments.
    pub reserved_bytes: u64,
    /// The last report of the device; `None` if there is none.
    pub report: Option<UsageReport>,
    /// The highest number of used bytes in a report.
    pub used_peak_bytes: Option<u64>,
    /// The recorded allocations since the tape was attached, or since the start.
    pub n_allocs: u64,
    /// The bytes of these allocations.
    pub allocated_bytes: u64,
    /// The blocks that were freed since then.
    pub n_frees: u64,
    /// The failed requests, in the file and later.
    pub n_ooms: u64,
    /// The time of the last failed request, in microseconds since the Unix epoch.
    pub last_oom_us: Option<u64>,
    /// The bytes of the last failed request.
    pub last_oom_bytes: Option<u64>,
}

/// What each stack of a followed process held at one look, as sums.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveSums(BTreeMap<DeviceId, HeldSums>);

impl LiveSums {
    /// Returns the bytes of the live blocks of a device.
    #[must_use]
    pub fn live_bytes(&self, device: impl Into<DeviceId>) -> u64 {
        let blocks = self.0.get(&device.into()).into_iter().flat_map(|held| held.blocks.values());
        blocks.fold(0, |all, (bytes, _)| all.saturating_add(*bytes))
    }

    /// Returns the first of the `earlier` moments, changed so that a comparison with the last of the `later` moments
    /// shows growth only in what really grew: a stack that merely went up and down has its final bytes in both.
    ///
    /// A stack grew if it held more at each later moment than at any earlier one, or if it never held less than at the
    /// first moment and never more than at the last.
    #[must_use]
    pub fn before_growth(earlier: &[&LiveSums], later: &[&LiveSums]) -> LiveSums {
        let (Some(first), Some(last)) = (earlier.first(), later.last()) else { return LiveSums::default() };
        let mut before = LiveSums::clone(first);
        for (device, held) in &last.0 {
            let of_device = before.0.entry(*device).or_default();
            for (stack, now) in &held.blocks {
                let bytes_at = |sums: &&LiveSums| sums.bytes_of(*device, *stack);
                let (begin, end) = (bytes_at(first), now.0);
                let has_grown = || {
                    let highest = earlier.iter().map(bytes_at).max().unwrap_or(begin);
                    let lowest = later.iter().map(bytes_at).min().unwrap_or(end);
                    let mut all = earlier.iter().chain(later).map(bytes_at);
                    highest < lowest || all.all(|bytes| (begin..=end).contains(&bytes))
                };
                // A stack that holds less compensates for another stack of the same site.
                if begin < end && !has_grown() {
                    of_device.blocks.insert(*stack, *now);
                }
            }
        }
        before
    }

    /// Returns the number of blocks of each stack of a device, in the order of their addresses in
    /// [`Follower::snapshot_of`]. For a sampled device, estimates the number of all blocks.
    pub fn n_blocks(&self, device: impl Into<DeviceId>) -> impl Iterator<Item = u64> {
        let blocks = self.0.get(&device.into()).into_iter().flat_map(|held| held.blocks.values());
        blocks.filter(|(bytes, _)| *bytes > 0).map(|(_, n)| *n)
    }

    fn bytes_of(&self, device: DeviceId, stack: StackId) -> u64 {
        self.0.get(&device).and_then(|held| held.blocks.get(&stack)).map_or(0, |(bytes, _)| *bytes)
    }
}

impl Follower {
    /// Opens a tape and takes its state.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io), and [`Error::is_malformed`](crate::Error::is_malformed) if it is not a tape
    /// of this version.
    pub fn attach(path: impl AsRef<Path>) -> Result<Follower> {
        Ok(Follower { follow: FollowedTape::attach(path.as_ref(), false)?, names: SharedNames::default() })
    }

    /// Attaches like [`Follower::attach`], and also counts the allocations and frees of the events in the file: all
    /// since the recording started, as long as none was dropped.
    ///
    /// # Errors
    /// The errors of [`Follower::attach`].
    pub fn attach_from_start(path: impl AsRef<Path>) -> Result<Follower> {
        Ok(Follower { follow: FollowedTape::attach(path.as_ref(), true)?, names: SharedNames::default() })
    }

    /// Reads what is new. If the process dropped events before they could be read, takes the state again, which
    /// [`Follower::n_anew`] counts.
    ///
    /// # Errors
    /// The errors of [`Follower::attach`].
    pub fn look(&mut self) -> Result<()> {
        self.follow.look()
    }

    /// Returns the PID of the recording process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.follow.header().process
    }

    /// Returns when the recording started, in microseconds since the Unix epoch.
    #[must_use]
    pub fn start_us(&self) -> u64 {
        self.follow.header().start_us
    }

    /// Returns whether the process was still running on this machine at the last look.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.follow.header().is_running
    }

    /// Returns whether the recording had ended properly at the last look.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.follow.header().is_closed
    }

    /// Returns how often the state was taken again because events had left the file unread or were written very late.
    /// The counts of events lack those.
    #[must_use]
    pub fn n_anew(&self) -> u64 {
        self.follow.n_anew()
    }

    /// Returns what is missing, one sentence for each problem.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let header = self.follow.header();
        let mut problems = header.problems.clone();
        if header.n_elsewhere > 0 {
            problems.push(
                "the file could not grow: the tape ends there, and later events are only in the process's \
                 memory"
                    .into(),
            );
        }
        problems
    }

    /// Returns the devices of the process.
    #[must_use]
    pub fn devices(&self) -> Vec<FollowedDevice> {
        let of = |(device, followed): (DeviceId, Option<&FollowedState>)| {
            let FollowedCounts {
                live_bytes,
                n_live,
                peak_bytes,
                n_allocs,
                n_frees,
                allocated_bytes,
                n_ooms,
                last_oom,
            } = followed.map(|followed| followed.counts).unwrap_or_default();
            let reports = self.follow.reports(device);
            FollowedDevice {
                device,
                name: self.follow.name_of(device).to_owned(),
                live_bytes,
                n_live,
                peak_bytes,
                reserved_bytes: followed.map_or(0, FollowedState::reserved_bytes),
                report: reports.map(|[last, _]| last),
                used_peak_bytes: reports.map(|[_, highest]| highest.used_bytes),
                n_allocs,
                allocated_bytes,
                n_frees,
                n_ooms,
                last_oom_us: last_oom.map(|(time_us, _)| time_us),
                last_oom_bytes: last_oom.map(|(_, bytes)| bytes),
            }
        };
        self.follow.devices().map(of).collect()
    }

    /// Returns what each stack holds now, for comparison with a later look.
    #[must_use]
    pub fn sums(&self) -> LiveSums {
        let held = |(device, followed): (DeviceId, Option<&FollowedState>)| Some((device, followed?.held()));
        LiveSums(self.follow.devices().filter_map(held).collect())
    }

    /// Returns a snapshot of sums, without a history, for analyses of owners and sites: each stack has one block with
    /// the bytes of all of its blocks, and one segment with those of its segments. Addresses have no meaning.
    ///
    /// Each function is looked up once, so a snapshot costs time in proportion to the stacks that hold memory.
    #[must_use]
    pub fn snapshot_of(&self, sums: &LiveSums) -> Snapshot {
        Completed::new(snapshot_of(&self.follow.sums(&sums.0, self.names.clone()))).into_snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(bytes: [u64; 4]) -> LiveSums {
        let stacks = (1..).map(StackId);
        let blocks = stacks.zip(bytes).map(|(stack, bytes)| (stack, (bytes, 1))).collect();
        let mut held = HeldSums::default();
        held.blocks = blocks;
        LiveSums(BTreeMap::from([(DeviceId(0), held)]))
    }

    /// Four sites: one goes up and down, one leaks and goes up and down, one allocated once, one shrinks.
    #[test]
    fn what_goes_up_and_down_has_not_grown() {
        let earlier = [[5, 1, 0, 9], [9, 3, 0, 8], [1, 2, 0, 8]].map(sums);
        let later = [[9, 5, 7, 5], [3, 4, 7, 5], [8, 6, 7, 1]].map(sums);
        let before = LiveSums::before_growth(&earlier.each_ref(), &later.each_ref());
        assert_eq!(before, sums([8, 1, 0, 9]), "what grew by 0, 5, 7 and -8");
        assert_eq!(LiveSums::before_growth(&[], &later.each_ref()), LiveSums::default());
    }
}
