//! Every question about a damaged snapshot, and every format of it: each has an answer or an error.

use std::io::{self, Write as _};

use memreel::whatif::{Replay, Requests, replayed};
use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        Axis, By, DeviceHistory, FoldedStack, Grouping, Limits, Naming, ShownFrames, compare, devices,
        folded, stats, trace_lines,
    },
    export::{Format, convert},
    history::{Moment, Scopes},
    validate::validate,
};

use crate::random::Random;

/// More devices have the same code.
const N_DEVICES: usize = 4;

pub(crate) const FORMATS: [Format; 6] =
    [Format::Csv, Format::CsvStacks, Format::Folded, Format::Perfetto, Format::Json, Format::Pprof];

/// Asks everything that can be asked, and writes every format.
pub(super) fn ask(snapshot: &Snapshot, other: &Snapshot, random: &mut Random) {
    answers(snapshot, other, random);
    let taken = |stack: &FoldedStack<'_>, _: i128| write!(io::sink(), "{stack}").map_err(|_| ());
    for grouping in [Grouping::Segments, Grouping::Memory] {
        folded(snapshot, None, grouping, taken).expect("each stack is taken");
    }
    compare(snapshot, other).folded(snapshot, other, taken).expect("each stack is taken");
    for format in FORMATS {
        convert(snapshot, format, &mut io::sink()).expect("every format is written");
    }
}

/// Asks everything whose answer is in proportion to the snapshot.
pub(crate) fn answers(snapshot: &Snapshot, other: &Snapshot, random: &mut Random) {
    let _ = validate(snapshot);
    for device in devices(snapshot).into_iter().take(N_DEVICES).chain([DeviceId(0)]) {
        ask_device(snapshot, other, device, random);
        replay(snapshot, device);
    }
    let _ = stats(snapshot, None);
}

fn ask_device(snapshot: &Snapshot, other: &Snapshot, device: DeviceId, random: &mut Random) {
    let history = DeviceHistory::new(snapshot, device);
    let (end, n_entries) = (history.end(), snapshot.trace(device).len());
    let moment = Moment(random.below(n_entries as u64 + 2) as u32).min(end);
    let _ = (history.figures().check(&Limits::new()), history.trust().warnings(), history.peak());
    for by in [By::Stack, By::Function, By::File, By::Line, By::Scope, By::Name, By::Stream, By::Pool] {
        let _ = history.top(moment, by);
    }
    let _ = (history.tree(moment, 1), history.held_at(moment), history.pending_at(moment), history.churn());
    let _ = (history.leaks(), history.grown_between(Moment(1).min(end), moment), history.older_than(3));
    let _ = (
        history.layout(moment),
        history.fragmentation(moment),
        history.segments_at(moment),
        history.totals().count(),
    );
    let address = snapshot.trace(device).last().map_or_else(Default::default, |entry| entry.address);
    let _ = history.at_address(address..address.saturating_add(random.below(1 << 40)), moment);
    let _ = (history.idle_streams(moment), history.reserved_growth(), history.wanted_at(moment));
    let _ = (history.outside_segments(moment), history.idle_pools(moment), history.peak_in("forward"));
    if let Some(oom) = history.oom() {
        let _ = (oom.could_hold_bytes(), oom.all_free_bytes(), oom.fits_compacted(), oom.never_fits());
    }
    for axis in [Axis::Events, Axis::Time] {
        let _ = history.timeline(axis, 100);
    }
    let scopes = Scopes::new(snapshot, device);
    let _ = (scopes.paths(), scopes.end_of("forward"));
    for naming in [Naming::Recycled, Naming::PyTorch] {
        let _ = trace_lines(snapshot, device, naming).count();
    }
    let shown = ShownFrames::new(snapshot);
    for life in history.lives() {
        let _ =
            (history.names_of(life), scopes.of_life(life), life.stack.map(|stack| shown.innermost(stack)));
    }
    let after = DeviceHistory::new(other, DeviceId(0));
    let _ = history.diff(moment, &after, after.end());
}

fn replay(snapshot: &Snapshot, device: DeviceId) {
    let Ok(requests) = Requests::new(snapshot, device) else { return };
    let _ = requests.warnings();
    for conf in ["", "expandable_segments:True", "max_split_size_mb:20"] {
        let _ = Replay::new(&requests).conf(conf).run();
        let _ = replayed(snapshot, &[&requests], conf, None);
    }
}
