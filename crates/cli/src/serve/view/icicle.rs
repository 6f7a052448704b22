//! The tree of the calls that allocated what is live at a moment, or what was allocated or freed in an interval.

#![forbid(unsafe_code)]

use memreel_snapshot::history::{Life, Moment};
use serde_json::{Value, json};

use super::{choice::Choice, device::Device, refusal::Refusal, request::Request, words::base};
use crate::text::names::short;

/// The most branches of an answer.
const MAX_BRANCHES: usize = 5000;

/// Branches below this part of the whole are left out.
const LEAST_PART: u64 = 4000;

/// Which blocks the tree is of.
enum What {
    Live(Moment),
    Allocated(Moment, Moment),
    Freed(Moment, Moment),
}

impl What {
    fn of(request: &Request, device: &Device<'_>) -> Result<What, Refusal> {
        let interval = || -> Result<_, Refusal> {
            let from = request.moment("from")?.unwrap_or(Moment::START);
            Ok((from, request.moment("to")?.unwrap_or(device.history.end())))
        };
        match request.text("what").unwrap_or("live") {
            "live" => Ok(What::Live(request.moment("moment")?.unwrap_or(device.peak.moment))),
            "allocated" => interval().map(|(from, to)| What::Allocated(from, to)),
            "freed" => interval().map(|(from, to)| What::Freed(from, to)),
            other => Err(Refusal::usage(format!("{other:?} is not one of live, allocated and freed"))),
        }
    }

    fn has(&self, life: &Life) -> bool {
        match self {
            What::Live(moment) => life.is_active_at(*moment),
            What::Allocated(from, to) => *from < life.from && life.from <= *to,
            What::Freed(from, to) => *from < life.until && life.until <= *to,
        }
    }
}

/// Returns the tree, the outermost calls first.
pub(super) fn answer(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let what = What::of(request, device)?;
    let choice = Choice::of(request, device, true)?;
    let history = &device.history;
    let lives = || {
        let all = (0..).zip(history.lives()).filter(|(_, life)| what.has(life));
        all.filter(|(number, life)| choice.is_all() || choice.holds(life, *number)).map(|(_, life)| life)
    };
    let (bytes, n_blocks) = lives()
        .fold((0_u64, 0_usize), |(bytes, n), life| (bytes.saturating_add(life.represented_bytes), n + 1));
    let branches = history.tree_of(lives(), bytes / LEAST_PART);
    let (stacks, no_stack) = (&history.snapshot().stacks, history.shown_frames().no_stack());
    let mut depth = Depth::default();
    let shown = branches.iter().take(MAX_BRANCHES).map(|branch| {
        let frame = branch.frame.map(|frame| stacks.frame(frame));
        json!({
            "depth": depth.of(branch.depth, branch.continues),
            "name": frame.map_or_else(|| no_stack.to_owned(), |frame| short(&frame.name, 300)),
            "filename": frame.map(|frame| base(&frame.filename)),
            "line": frame.map_or(0, |frame| frame.line),
            "bytes": branch.bytes,
            "n_blocks": branch.n_blocks,
        })
    });
    let shown: Vec<Value> = shown.collect();
    Ok(json!({
        "bytes": bytes,
        "n_blocks": n_blocks,
        "n_left_out": branches.len().saturating_sub(MAX_BRANCHES),
        "branches": shown,
    }))
}

/// The depth of a branch in a chart, where a call is below its caller even if it accounts for all bytes of it. In the
/// tree of the library such a call has the depth of its caller.
#[derive(Default)]
struct Depth {
    /// By the depth in the library's tree, the depth in the chart of the last branch there.
    last: Vec<usize>,
}

impl Depth {
    fn of(&mut self, depth: usize, continues: bool) -> usize {
        let in_chart = match (continues, depth.checked_sub(1)) {
            (true, _) => self.last.get(depth).map_or(0, |last| last + 1),
            (false, None) => 0,
            (false, Some(outer)) => self.last.get(outer).map_or(0, |last| last + 1),
        };
        self.last.truncate(depth);
        self.last.resize(depth + 1, in_chart);
        in_chart
    }
}
