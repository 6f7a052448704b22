//! Judges how far the figures of a history can be trusted.

use std::fmt;

use serde::Serialize;

use super::{absence::Absence, by_device::ByDevice, confidence::Confidence};
use crate::{model::RecordedSettings, words::DeviceId};

/// The facts that determine how far the figures of one device's history can be trusted.
///
/// A ring that lost its oldest entries does not make later figures less exact: what was live before is known from its
/// frees or from the final state. Only the stacks of those blocks, and whether there was an earlier peak, are not
/// known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Trust {
    /// The length of the trace.
    pub n_entries: usize,
    /// Blocks that were in use before its first entry.
    pub n_before: usize,
    /// The bytes that were requested for them.
    pub bytes_before: u64,
    /// How many of them have no stack.
    pub n_nameless: usize,
    /// Whether only these blocks lack a stack: every block that was allocated since has its stack.
    #[serde(skip)]
    pub names_the_rest: bool,
    /// Whether blocks that were allocated since lack a stack while others have one, in a program with a backward pass,
    /// whose threads have no Python stack.
    #[serde(skip)]
    pub lacks_in_backward: bool,
    /// Bytes held from the device before the first entry.
    pub reserved_before_bytes: u64,
    /// Whether the settings state that all events are recorded, so that an empty trace means that none happened.
    /// PyTorch does not record this.
    pub keeps_events: bool,
    /// Whether the file states that its recorder lost entries of the device. PyTorch does not record this.
    pub has_lost: bool,
    /// How many entries of the device the recorder lost; 0 if the file does not state it. In a file of several devices
    /// that has only their sum, the sum.
    pub n_lost: u64,
    /// Entries and blocks that contradict earlier entries.
    pub n_contradictions: usize,
    /// The first such entry.
    pub first_contradiction: Option<usize>,
    /// The first entry that is more than a millisecond older than an earlier one; in a history that contradicts itself,
    /// any amount older. Entries without a time are skipped.
    pub first_disorder: Option<usize>,
    /// Frees whose completion is missing, in a trace without any completion. They count as completed immediately, so
    /// pending memory counts as free.
    pub n_uncompleted: usize,
    /// Frees whose request is missing. They count as requested when they complete, so pending memory counts as
    /// allocated.
    pub n_unrequested: usize,
    /// Entries that `memreel fix` added or dropped, at suitable places.
    pub n_fixed: u64,
    /// How many entries of the history are not in the file, because it is a window that `memreel slim` cut.
    pub n_cut: u64,
    /// Whether memory was taken from the device, but no entry is about a block in it.
    pub lacks_block_events: bool,
    /// Whether the trace ends with memory that is held or in use, but there are no segments.
    pub lacks_segments: bool,
    /// Whether more is in use than held at some moment, or more is held at the end than the segments
    /// have, so that segment events are missing.
    pub lacks_segment_events: bool,
    /// Allocations below this were not recorded, in bytes.
    pub min_size_bytes: u64,
    /// Mean sampling interval in bytes; 0 if every allocation was recorded.
    pub sample_bytes: u64,
    /// How many captures of a stack found the table of stacks full. Their events have one frame that reports it. It
    /// limits which callers can be named, but not the figures.
    pub n_stacks_refused: u64,
    /// Why the history is missing or has hardly any events.
    #[serde(skip)]
    pub absence: Option<Absence>,
    /// Mean sampling interval in bytes of a heap whose bytes are estimates of all allocations, from the sampled ones;
    /// otherwise 0.
    pub weight_bytes: u64,
    /// The most bytes that were in use over the whole run, if the recorder knows that for the lost entries too.
    #[serde(skip)]
    pub run_peak_bytes: Option<u64>,
}

impl Trust {
    /// The facts about a device that the settings of a snapshot say.
    #[doc(hidden)]
    #[must_use]
    pub fn from_settings(records: &ByDevice<'_>, device: impl Into<DeviceId>) -> Trust {
        let RecordedSettings {
            has_lost,
            n_lost,
            min_size_bytes,
            sample_bytes,
            n_fixed,
            n_cut,
            n_stacks_refused,
            weight_bytes,
            ..
        } = records.recorded(device);
        Trust {
            keeps_events: records.keeps_events(),
            has_lost,
            n_lost,
            min_size_bytes,
            sample_bytes,
            n_fixed,
            n_cut,
            n_stacks_refused,
            weight_bytes,
            ..Trust::default()
        }
    }

    /// Returns whether nothing existed before the first entry.
    #[doc(hidden)]
    #[must_use]
    pub fn begins_empty(&self) -> bool {
        !self.has_lost && self.n_before == 0 && self.reserved_before_bytes == 0
    }

    /// Returns whether the history is recorded from its start and its figures are exact.
    ///
    /// This decides what `memreel gate --strict`, [`assert_peak!`](crate::assert_peak) and
    /// [`assert_live!`](crate::assert_live) accept: a whole history starts without held device memory, lost no entries,
    /// has the events of every allocation and free, does not contradict itself, and is not a window of a longer one.
    /// [`Trust::warnings`] and [`Trust::unknown_before`] report why a history is not whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.has_history() && self.begins_empty() && self.n_cut == 0 && self.is_exact()
    }

    /// Returns whether the peak is that of the whole run: no entry is missing, or the recorder knows the peak of those
    /// that it lost.
    #[must_use]
    pub fn knows_peak(&self) -> bool {
        self.n_cut == 0 && (!self.has_lost || self.run_peak_bytes.is_some())
    }

    /// Returns whether there are entries, or there are none because nothing happened.
    fn has_history(&self) -> bool {
        self.n_entries > 0 || self.keeps_events && self.begins_empty()
    }

    /// Returns whether the figures of every recorded moment are exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.n_contradictions == 0
            && self.first_disorder.is_none()
            && self.n_uncompleted == 0
            && self.n_unrequested == 0
            && self.n_fixed == 0
            && !self.lacks_block_events
            && !self.lacks_segments
            && !self.lacks_segment_events
            && self.min_size_bytes == 0
            && self.sample_bytes == 0
    }

    /// Rates an answer for which allocations from before the history matter, by their share of `reserved_peak_bytes`.
    /// If entries were lost, their memory may have been freed before the first remaining one, so that nothing shows it:
    /// then the answer is at most fair, and low if more entries were lost than kept.
    #[must_use]
    pub fn confidence(&self, reserved_peak_bytes: u64) -> Confidence {
        let before_bytes = self.bytes_before.max(self.reserved_before_bytes);
        let most = match self.has_lost {
            false => Confidence::Sure,
            true if self.n_lost > self.n_entries as u64 => Confidence::Low,
            true => Confidence::Fair,
        };
        let rated = if self.begins_empty() {
            Confidence::Sure
        } else if before_bytes.saturating_mul(10) < reserved_peak_bytes {
            Confidence::High
        } else if before_bytes.saturating_mul(2) < reserved_peak_bytes {
            Confidence::Fair
        } else {
            Confidence::Low
        };
        rated.max(most)
    }

    /// Returns what users should know about the figures and the stacks, one sentence each; none if the figures are
    /// exact and all stacks were kept.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(entry) = self.first_disorder {
            all.push(format!(
                "entry {entry} is older than one before it, and figures over time are wrong: the recording ring \
                 was resized (`memreel fix` puts its entries in order), or a clock was set back"
            ));
        }
        if self.n_contradictions > 0 {
            let first =
                self.first_contradiction.map(|entry| format!(", first at entry {entry}")).unwrap_or_default();
            let contradict = match self.n_contradictions {
                1 => "1 event or block contradicts others".to_owned(),
                n => format!("{n} events or blocks contradict others"),
            };
            all.push(format!(
                "{contradict}{first}: events are missing (skip_actions?), and figures are estimates; see \
                 `memreel validate`"
            ));
        }
        if self.n_uncompleted > 0 {
            let frees = frees(self.n_uncompleted);
            all.push(format!(
                "free_completed is missing for {frees} (skip_actions?): memory that waited for a stream counts as \
                 free, and figures may be too low"
            ));
        }
        if self.n_unrequested > 0 {
            let frees = frees(self.n_unrequested);
            all.push(format!(
                "free_requested is missing for {frees} (skip_actions?): memory that waited for a stream counts as \
                 allocated"
            ));
        }
        if self.n_fixed > 0 {
            let n = self.n_fixed;
            all.push(format!(
                "`memreel fix`, or the recorder for its options (skip_actions, min_size, sample_every), added or \
                 dropped events ({n}), at places that fit: figures are estimates"
            ));
        }
        if self.lacks_block_events {
            all.push("no event is about a block (skip_actions?): figures may be too low".into());
        }
        if self.lacks_segments {
            all.push(
                "there are no segments, as in traces of an allocator without them (MLX): figures are those \
                 of blocks, reserved bytes are unknown or too low, and blocks live from before the history \
                 to its end are missing"
                    .into(),
            );
        } else if self.lacks_segment_events {
            all.push("the reserved bytes are wrong: segment events are missing (skip_actions?)".into());
        }
        if self.min_size_bytes > 0 {
            let least = self.min_size_bytes;
            all.push(format!("allocations below {least} bytes have no events: figures may be too low"));
        }
        if self.weight_bytes > 0 {
            let n = self.weight_bytes;
            all.push(format!(
                "allocations were sampled, one byte in {n}: bytes are estimates of all of them, and blocks are the \
                 sampled ones"
            ));
        } else if self.sample_bytes > 0 {
            let n = self.sample_bytes;
            all.push(format!("allocations were sampled, one byte in {n}: figures over time are too low"));
        }
        if self.n_stacks_refused > 0 {
            let n = self.n_stacks_refused;
            all.push(format!(
                "the recorder's stack table was full for {n} captures: their blocks only have their \
                 innermost frames, or the frame \"stack table full\""
            ));
        }
        all
    }

    /// Returns what is not known about the time before the history, as one sentence; `None` if it is whole or only the
    /// facts of [`Trust::warnings`] limit it. `bytes` formats a number of bytes.
    #[must_use]
    pub fn unknown_before<T: fmt::Display>(&self, bytes: impl Fn(u64) -> T) -> Option<String> {
        match self.absence {
            Some(absence @ Absence::Unused) => return Some(absence.to_string()),
            Some(absence) => return Some(format!("{absence}; figures are for the end")),
            None if !self.has_history() => {
                return Some("no history was recorded; figures are for the end".to_owned());
            }
            None => {}
        }
        let window = match self.n_cut {
            0 => String::new(),
            1 => "the file covers only part of a longer history (1 event is not in it)".to_owned(),
            n => format!("the file covers only part of a longer history ({n} events are not in it)"),
        };
        if self.begins_empty() {
            return Some(window).filter(|window| !window.is_empty());
        }
        let lost = match self.n_lost {
            0 if self.has_lost => " (older entries were lost)".to_owned(),
            0 => String::new(),
            n => format!(" ({n} older entries were lost)"),
        };
        let is_late = !self.has_lost && self.n_cut == 0;
        let nameless = match self.n_nameless {
            0 => String::new(),
            n if n == self.n_before && is_late => {
                " without a stack (to see their lines, start recording before the model is built)".to_owned()
            }
            n if n == self.n_before => " without a stack".to_owned(),
            n => format!("; {n} of them without a stack"),
        };
        let before = match self.n_before {
            0 if self.reserved_before_bytes > 0 => {
                format!("{} reserved and no block in use", bytes(self.reserved_before_bytes))
            }
            1 => format!("{} in 1 block", bytes(self.bytes_before)),
            n => format!("{} in {n} blocks", bytes(self.bytes_before)),
        };
        let window = if window.is_empty() { window } else { format!("{window}; ") };
        let known = match (self.run_peak_bytes, self.has_lost) {
            (Some(peak), _) => format!(
                "of what happened before, the peak of the run ({}) and what each stack allocated are known",
                bytes(peak)
            ),
            (None, true) => format!(
                "what happened before is unknown, and peaks are those of the last {} events",
                self.n_entries
            ),
            (None, false) => "what happened before is unknown".to_owned(),
        };
        Some(format!("{window}the history starts with {before}{lost}{nameless}; {known}"))
    }
}

fn frees(n: usize) -> String {
    if n == 1 { "1 free".to_owned() } else { format!("{n} frees") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Snapshot;
    use crate::model::Value;

    fn with_settings(settings: &[(&str, Value)]) -> Trust {
        let pairs: Vec<_> =
            settings.iter().map(|(key, value)| (Value::Text((*key).into()), value.clone())).collect();
        let mut snapshot = Snapshot::default();
        let settings = crate::model::Slot::Value(Value::Dict(pairs.into()));
        snapshot.shape.slots.push(("allocator_settings".into(), settings));
        Trust { n_entries: 1, ..Trust::from_settings(&ByDevice::new(&snapshot), DeviceId(0)) }
    }

    #[test]
    fn either_key_says_that_entries_were_lost() {
        let lost = [
            (("trace_alloc_overflowed", Value::Bool(true)), Confidence::Fair),
            (("trace_alloc_lost_entries", Value::Int(1)), Confidence::Fair),
            // More than are left.
            (("trace_alloc_lost_entries", Value::Int(3)), Confidence::Low),
        ];
        for (setting, confidence) in lost {
            let trust = with_settings(std::slice::from_ref(&setting));
            assert!(trust.has_lost && !trust.is_whole() && trust.is_exact(), "{setting:?}");
            assert_eq!(trust.confidence(100), confidence, "nothing that is left shows what was lost");
        }
        let whole = with_settings(&[("trace_alloc_overflowed", Value::Bool(false))]);
        assert!(whole.is_whole());
        assert_eq!(whole.confidence(0), Confidence::Sure);
    }

    #[test]
    fn confidence_falls_with_what_was_there_before() {
        let with = |bytes| Trust { n_before: 1, bytes_before: bytes, ..Trust::default() }.confidence(100);
        assert_eq!([9, 10, 49, 50].map(with).map(Confidence::name), ["high", "fair", "fair", "low"]);
    }
}
