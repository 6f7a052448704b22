//! The answers of SQL are those of the library, on every snapshot.

use std::collections::BTreeMap;

use memreel_fleet::Fleet;
use memreel_snapshot::{
    Snapshot,
    analysis::{By, DeviceHistory, Histories, ShownFrames, Site, devices},
    history::{Life, Moment},
    model::Frame,
    pickle,
};

use crate::ask::{open, rows, snapshots, sorted};

/// A group as SQL has it: its frames, the size where there are none, bytes and number of blocks.
type Row = Vec<String>;

/// A frame as a text: without its line if that is not known.
fn shown(frame: &Frame) -> String {
    let line = if frame.line > 0 { format!(":{}", frame.line) } else { String::new() };
    format!("{} ({}{line})", frame.name, frame.filename)
}

fn site(snapshot: &Snapshot, site: &Site) -> [String; 2] {
    match site {
        Site::Stack(stack) => {
            let frames = ShownFrames::new(snapshot).identifying_frames(*stack).map(shown).collect::<Vec<_>>();
            [frames.join("\n"), String::new()]
        }
        Site::Size(size) => [String::new(), size.to_string()],
        other => panic!("{other:?} is not a site of a block"),
    }
}

fn group(snapshot: &Snapshot, of: &Site, bytes: u64, n_blocks: usize) -> Row {
    let [frames, size] = site(snapshot, of);
    vec![frames, size, bytes.to_string(), n_blocks.to_string()]
}

/// What the groups of a query look like.
const GROUPS: &str = "select site, case when site is null then requested_bytes end, \
                      sum(represented_bytes), count(*) from";

async fn each(check: impl AsyncFn(&Fleet, &str, &DeviceHistory<'_>)) {
    let mut n_checked = 0;
    for path in snapshots() {
        let snapshot = pickle::load(&path).unwrap();
        let fleet = open(&[&path]).await;
        let histories = Histories::new(&snapshot);
        // The tables have devices alone, and not the host's pinned memory.
        for device in devices(&snapshot).into_iter().filter(|device| device.index().is_some()) {
            check(&fleet, &path.display().to_string(), &histories.of(device)).await;
            n_checked += 1;
        }
        assert_eq!(fleet.problems(), Vec::<String>::new());
    }
    assert!(n_checked > 20);
}

#[tokio::test]
async fn the_peak_has_the_groups_of_top() {
    each(async |fleet, file, history| {
        let snapshot = history.snapshot();
        let top = history.top(history.peak().moment, By::Stack);
        let mut expected: Vec<Row> =
            top.iter().map(|of| group(snapshot, &of.site, of.bytes, of.n_blocks)).collect();
        expected.sort();
        let sql = format!("{GROUPS} peak('{file}') where device = {} group by 1, 2", history.device());
        assert_eq!(sorted(fleet, &sql).await, expected, "{file}");
    })
    .await;
}

#[tokio::test]
async fn scopes_at_the_peak_are_those_of_top() {
    each(async |fleet, file, history| {
        let mut expected = BTreeMap::<String, (u64, usize)>::new();
        for of in history.top(history.peak().moment, By::Scope) {
            let scope = match &of.site {
                Site::Scope(scope) => scope.to_string(),
                _ => String::new(),
            };
            let sum = expected.entry(scope).or_default();
            *sum = (sum.0 + of.bytes, sum.1 + of.n_blocks);
        }
        let sql = format!(
            "select scope, sum(represented_bytes), count(*) from peak() where device = {} group by 1",
            history.device()
        );
        let found: Vec<Row> = sorted(fleet, &sql).await;
        let expected: Vec<Row> = expected
            .into_iter()
            .map(|(scope, (bytes, n))| vec![scope, bytes.to_string(), n.to_string()])
            .collect();
        assert_eq!(found, expected, "{file}");
    })
    .await;
}

#[tokio::test]
async fn what_is_never_freed_is_what_leaks_lists() {
    each(async |fleet, file, history| {
        let snapshot = history.snapshot();
        let mut expected: Vec<Row> =
            history.leaks().iter().map(|of| group(snapshot, &of.site, of.bytes, of.n_live)).collect();
        expected.sort();
        let sql = format!(
            "{GROUPS} allocations where device = {} and state = 'active_allocated' group by 1, 2",
            history.device()
        );
        assert_eq!(sorted(fleet, &sql).await, expected, "{file}");
    })
    .await;
}

#[tokio::test]
async fn totals_of_runs_are_those_of_the_timeline() {
    each(async |fleet, file, history| {
        let all: Vec<_> = history.totals().collect();
        let active = all.iter().map(|totals| totals.active_bytes).max().unwrap();
        let end = all.last().unwrap();
        let reserved: u64 = history.segments().iter().map(|segment| segment.total_size).sum();
        let sql = format!(
            "select peak_bytes, end_active_bytes, end_allocated_bytes, end_blocks, allocations, events from runs \
             where device = {}",
            history.device()
        );
        let peak = history.peak().active_bytes;
        assert!(peak <= active);
        let expected = [
            peak,
            end.active_bytes,
            end.allocated_bytes,
            end.n_blocks as u64,
            history.lives().len() as u64,
            history.entries().len() as u64,
        ];
        assert_eq!(rows(fleet, &sql).await, [expected.map(|n| n.to_string()).to_vec()], "{file}");
        let sql = format!(
            "select coalesce(sum(size_bytes), 0), count(*) from segments where device = {}",
            history.device()
        );
        let expected = [reserved.to_string(), history.segments().len().to_string()];
        assert_eq!(rows(fleet, &sql).await, [expected.to_vec()], "{file}");
    })
    .await;
}

#[tokio::test]
async fn live_blocks_after_an_event_are_those_of_the_history() {
    each(async |fleet, file, history| {
        let n_events = history.entries().len();
        for event in [0, n_events / 3, n_events.saturating_sub(1)] {
            if event >= n_events {
                continue;
            }
            let moment = Moment::after(event);
            let mut expected: Vec<Row> = history
                .lives()
                .iter()
                .filter(|life: &&Life| life.from <= moment && moment < life.until)
                .map(|life| vec![life.address.0.to_string(), life.requested_bytes.to_string()])
                .collect();
            expected.sort();
            let sql = format!(
                "select address, requested_bytes from live_at('{file}', {event}) where device = {}",
                history.device()
            );
            assert_eq!(sorted(fleet, &sql).await, expected, "{file} {event}");
        }
    })
    .await;
}

#[tokio::test]
async fn events_blocks_and_frames_are_those_of_the_file() {
    for path in snapshots() {
        let snapshot = pickle::load(&path).unwrap();
        let fleet = open(&[&path]).await;
        let mut expected = BTreeMap::<String, (u64, u128)>::new();
        for entry in snapshot.device_traces.iter().flatten().chain(&snapshot.host_traces) {
            let name = entry.action.map_or("", |action| action.name()).to_owned();
            let sum = expected.entry(name).or_default();
            *sum = (sum.0 + 1, sum.1 + u128::from(entry.size % 1_000_003));
        }
        let expected: Vec<Row> = expected
            .into_iter()
            .map(|(action, (n, sum))| vec![action, n.to_string(), sum.to_string()])
            .collect();
        let sql = "select action, count(*), sum(size_bytes % 1000003) from events group by 1";
        assert_eq!(sorted(&fleet, sql).await, expected, "{}", path.display());

        let segments = snapshot.segments.iter().chain(&snapshot.host_segments);
        let n_blocks: usize = segments.map(|segment| segment.blocks.len()).sum();
        let n_frames: usize = snapshot.stacks.all_stacks().map(<[_]>::len).sum();
        for (table, n) in [
            ("blocks", n_blocks),
            ("frames", n_frames),
            ("stacks", snapshot.stacks.len()),
            ("annotations", snapshot.external_annotations.len()),
        ] {
            let sql = format!("select count(*) from {table}");
            assert_eq!(rows(&fleet, &sql).await, [[n.to_string()]], "{} {table}", path.display());
        }
    }
}

#[tokio::test]
async fn stacks_of_events_are_their_frames() {
    let path = crate::ask::snapshot("transformer_all_stacks.pickle");
    let snapshot = pickle::load(&path).unwrap();
    let fleet = open(&[&path]).await;
    let frames = |entry: &memreel_snapshot::model::TraceEntry| -> Vec<String> {
        snapshot.frames(entry.stack).map(shown).collect()
    };
    let entries = &snapshot.device_traces[0];
    let found =
        rows(&fleet, "select stack, top_frame(stack) from events where device = 0 order by event").await;
    assert_eq!(found.len(), entries.len());
    for (row, entry) in found.iter().zip(entries) {
        let frames = frames(entry);
        assert_eq!(row, &[frames.join("\n"), frames.first().cloned().unwrap_or_default()]);
    }
    let has = |entry: &&memreel_snapshot::model::TraceEntry| {
        frames(entry).iter().any(|frame| frame.contains("forward"))
    };
    let n_forward = entries.iter().filter(has).count();
    assert!(n_forward > 0 && n_forward < entries.len());
    let sql = "select count(*) from events where device = 0 and stack_contains(stack, 'forward')";
    assert_eq!(rows(&fleet, sql).await, [[n_forward.to_string()]]);
}
