//! The full explanation of a failed request.

use super::{Fit, OomReport, Tried, elsewhere::Elsewhere};
use crate::{
    analysis::{
        Bytes, DeviceHistory, Group, GrowthKind, Growths, PinnedSegment, SettingsReader, ShownFrames, Site,
        Totals, sites::SameCalls,
    },
    history::{ScopeSpan, step_of},
    model::StackTable,
};

/// A failed request with its causes, what would have helped, and the stacks that hold the memory.
///
/// ```
/// use memreel::{DeviceId, Reel, analysis::DeviceHistory, device::Simulated, recorder::Recording, whatif};
///
/// let reel = Reel::builder().device(Simulated::new(60 << 20)).history(Recording::all()).build()?;
/// let _blocks = (reel.alloc(9 << 20)?, reel.alloc(12 << 20)?);
/// reel.alloc(30 << 20).unwrap_err();
/// let snapshot = reel.snapshot();
/// let history = DeviceHistory::new(&snapshot, DeviceId(0));
/// let explanation = whatif::explain(&history, history.oom().expect("a request failed"));
/// assert!(explanation.text(5).starts_with("fragmented: 11.00 MiB is free"));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Explanation<'h, 'a> {
    pub(super) history: &'h DeviceHistory<'a>,
    pub(super) report: OomReport,
    pub(super) tried: Tried,
    pub(super) growths: Option<Growths>,
    pub(super) most_reserved: Totals,
    /// Whether the site of the request is among those that grew.
    pub(super) grew_by_request: bool,
    pub(super) pinned: Vec<PinnedSegment>,
    pub(super) elsewhere: Elsewhere,
    pub(super) steps: Vec<ScopeSpan>,
    pub(super) live: Vec<Group>,
    pub(super) pending: Vec<Group>,
    pub(super) shown: ShownFrames<'a>,
    pub(super) reader: SettingsReader,
}

impl<'h, 'a> Explanation<'h, 'a> {
    /// Explains a report of this history ([`DeviceHistory::oom`]), without a replay.
    #[must_use]
    pub fn new(history: &'h DeviceHistory<'a>, report: OomReport) -> Explanation<'h, 'a> {
        let moment = report.totals.moment;
        let site = match report.stack.filter(|stack| *stack != StackTable::EMPTY) {
            Some(stack) => Site::Stack(stack),
            None => Site::Size(report.requested_bytes),
        };
        let growths = history.growth_with(moment, Some((site.clone(), report.requested_bytes)));
        let mut calls = SameCalls::new(history);
        let asked = calls.site(&site);
        let mut grew_by_request = false;
        let growths = growths.map(|mut growths| {
            for growth in &mut growths.sites {
                if calls.site(&growth.site) != asked {
                    continue;
                }
                grew_by_request = true;
                // The request is part of a larger step. In a leak it is not, because it failed.
                if growth.kind == GrowthKind::Late && growth.n_repeats == 0 {
                    growth.bytes = growth.bytes.saturating_sub(report.requested_bytes);
                    growth.held_bytes = growth.held_bytes.saturating_sub(report.requested_bytes);
                    growth.n_blocks = growth.n_blocks.saturating_sub(1);
                }
            }
            growths.sites.retain(|growth| growth.bytes > 0);
            growths.sites.sort_by_key(|growth| std::cmp::Reverse(growth.bytes));
            growths
        });
        let growths = growths.filter(|growths| !growths.sites.is_empty());
        Explanation {
            history,
            tried: Tried::default(),
            grew_by_request,
            growths,
            most_reserved: history.highest_until(moment, |totals| totals.reserved_bytes),
            pinned: history.pinned_at(moment, history.wanted_by(report.entry).as_ref()),
            elsewhere: Elsewhere::of(history, &report),
            steps: history.scopes().steps(),
            live: history.held_at(moment),
            pending: history.pending_at(moment),
            shown: history.shown_frames(),
            reader: SettingsReader::of(history.snapshot()),
            report,
        }
    }

    /// Adds the results of replays of the history.
    #[must_use]
    pub fn with_tried(mut self, tried: Tried) -> Self {
        self.tried = tried;
        self
    }

    /// Returns the results of replays of the history.
    #[must_use]
    pub fn tried(&self) -> &Tried {
        &self.tried
    }

    /// Returns the sites that grew until the request; `None` if none did, or if it is not known.
    #[must_use]
    pub fn growths(&self) -> Option<&Growths> {
        self.growths.as_ref()
    }

    /// Returns when the request was made: `in step#3`, or `after step#3` outside of the outermost scopes; `None` before
    /// the first step.
    #[must_use]
    pub fn step(&self) -> Option<String> {
        step_of(&self.steps, self.report.entry)
    }

    /// Returns the report.
    #[must_use]
    pub fn report(&self) -> &OomReport {
        &self.report
    }

    /// Returns the groups of allocated blocks, by stack, largest first.
    #[must_use]
    pub fn live(&self) -> &[Group] {
        &self.live
    }

    /// Returns the groups of pending blocks, by stack, largest first.
    #[must_use]
    pub fn pending(&self) -> &[Group] {
        &self.pending
    }

    /// Returns the figures with their names, in the order in which they are read.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, String)> {
        let report = &self.report;
        if let Some(reserved_bytes) = report.reserved_address_bytes {
            return vec![
                ("requested addresses", Bytes(report.requested_bytes).to_string()),
                ("reserved addresses", Bytes(reserved_bytes).to_string()),
                ("free on the device", Bytes(report.device_free_bytes).to_string()),
            ];
        }
        let segment = if report.is_expandable { "pages needed" } else { "segment needed" };
        let mut rows = vec![
            ("requested", Bytes(report.requested_bytes).to_string()),
            (segment, Bytes(report.segment_bytes).to_string()),
            ("free on the device", Bytes(report.device_free_bytes).to_string()),
        ];
        if let Some(outside_bytes) = report.outside_bytes() {
            let total = Bytes(report.device_total_bytes.unwrap_or(0));
            let text = format!("{} of {total}: other processes, contexts, libraries", Bytes(outside_bytes));
            rows.push(("used elsewhere", text));
        }
        rows.extend([
            ("reserved", Bytes(report.totals.reserved_bytes).to_string()),
            ("live", Bytes(report.totals.allocated_bytes).to_string()),
        ]);
        if report.n_pending > 0 {
            let blocks = if report.n_pending == 1 { "block" } else { "blocks" };
            let bytes = Bytes(report.pending_bytes);
            let text = format!("{bytes} in {} {blocks}, freed and waiting for a stream", report.n_pending);
            rows.push(("pending", text));
        }
        let rounded_bytes = [report.totals.allocated_bytes, report.pending_bytes]
            .into_iter()
            .chain([report.free_here_bytes, report.free_elsewhere_bytes])
            .fold(report.totals.reserved_bytes, u64::saturating_sub);
        if rounded_bytes > report.totals.reserved_bytes / 100 {
            rows.push(("rounded up", format!("{} added to blocks by rounding", Bytes(rounded_bytes))));
        }
        let largest = Bytes(report.largest_free_bytes);
        rows.extend([
            ("free in this pool", format!("{}, largest piece {largest}", Bytes(report.free_here_bytes))),
            ("free elsewhere", Bytes(report.free_elsewhere_bytes).to_string()),
            (
                "would fit if compacted",
                if report.fits_compacted() { "yes" } else { "no, too little is free in this pool" }
                    .to_owned(),
            ),
            ("with expandable segments", self.with_expandable_text()),
        ]);
        rows
    }

    fn with_expandable_text(&self) -> String {
        match self.tried.with_expandable {
            _ if self.report.is_expandable => "no; they were on".to_owned(),
            _ if self.report.is_freed_late => "not needed: retrying the request is enough".to_owned(),
            fit => match self.reader.line("expandable_segments:True") {
                None if matches!(self.reader, SettingsReader::Other(_)) => {
                    "unknown: the file does not show which PyTorch wrote it".to_owned()
                }
                None => "not supported by this PyTorch".to_owned(),
                Some(line) if fit == Fit::Yes => {
                    let how = if self.report.fits_compacted() {
                        ""
                    } else {
                        ", with pages that are free elsewhere"
                    };
                    format!("yes{how}: {line}")
                }
                Some(_) => fit.to_string(),
            },
        }
    }

    /// Returns the limitations of the figures, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if !self.report.is_last {
            notes.push("blocks were allocated and freed afterwards, so the free figures are upper bounds");
        }
        if self.report.pool.is_none() {
            notes.push(
                "the file does not name the request's pool; `free in this pool` is for the default pool",
            );
        }
        notes
    }
}
