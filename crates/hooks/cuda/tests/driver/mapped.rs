//! Memory that a program maps itself, which no allocator has blocks in: it is in use by what mapped it.

use memreel::{
    Action, DeviceId,
    analysis::{By, DeviceHistory, OwnerStack, Site},
    whatif::explain,
};

use crate::{
    MIB,
    mock::{Recorded, Run},
};

/// The functions of a stack.
fn names(recorded: &Recorded, stack: memreel::snapshot::StackIndex) -> Vec<String> {
    recorded.snapshot.stacks.frames(stack).map(|frame| frame.name.to_string()).collect()
}

fn has(recorded: &Recorded, stack: Option<OwnerStack>, function: &str) -> bool {
    names(recorded, stack.unwrap().stack).iter().any(|name| name == function)
}

/// An engine wakes up on a device that a step has filled meanwhile: the wake-up fails half-way, and is no leak.
#[test]
fn a_wake_up_that_fails_is_in_use_as_far_as_it_came() {
    let run = Run::prepared("dlsym", "wakes").env("MOCK_OTHERS", "0").start();
    assert_eq!(run.printed("failed"), [(5, 0)], "{}", run.err);
    let recorded = run.recorded();
    let history = DeviceHistory::new(&recorded.snapshot, DeviceId(0));
    let end = history.end();
    let groups = history.top(end, By::Stack);
    let of = |function: &str| {
        let is_it = |site: &Site| matches!(site, Site::Stack(stack) if names(&recorded, *stack).iter().any(|name| name == function));
        groups
            .iter()
            .filter(|group| is_it(&group.site))
            .map(|group| (group.bytes, group.n_blocks))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("takes_a_step"), [(1800 * MIB, 1)]);
    assert_eq!(of("wakes_up"), [(1500 * MIB, 5)]);
    assert_eq!(of("load_weights"), []);
    let fragmentation = history.fragmentation(end);
    assert_eq!((fragmentation.free_bytes, fragmentation.empty_bytes), (0, 0));
    assert_eq!(history.peak().allocated_bytes, (500 + 1800 + 1500) * MIB);
    let report = history.oom().unwrap();
    assert_eq!((report.requested_bytes, report.free_here_bytes), (300 * MIB, 0));
    let explanation = explain(&history, report);
    assert_eq!(explanation.verdict().name(), "full", "{}", explanation.text(1));
    recorded.assert_adds_up(0);
    recorded.assert_valid();
}

/// What stays after a sleep has its own name beside *now*, and what slept has its name beside the peak.
#[test]
fn what_stays_after_a_sleep_has_its_name() {
    let run = Run::prepared("dlsym", "sleeps").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    let table = recorded.table(0);
    let row = table.rows.iter().find(|row| row.owner == "program").unwrap();
    assert_eq!(row.now_bytes, Some(i128::from(700 * MIB)));
    assert!(
        has(&recorded, row.largest_now, "takes_a_step") && !has(&recorded, row.largest_now, "load_weights")
    );
    assert!(has(&recorded, row.largest, "load_weights"));
    recorded.assert_adds_up(0);
}

/// The handles are given back while their ranges are mapped, and half of them are unmapped in one call.
#[test]
fn a_hundred_thousand_ranges_are_as_many_blocks() {
    let run = Run::prepared("dlsym", "many").env("MOCK_OTHERS", "0").start();
    let [(n, bytes)] = run.printed("mapped")[..] else { panic!("{}", run.err) };
    let recorded = run.recorded();
    let blocks = recorded.blocks(0);
    assert_eq!((blocks.len() as u64, blocks.iter().map(|block| block.1).sum()), (n, bytes));
    assert_eq!(recorded.owned(0, "program")[0], i128::from(bytes));
    recorded.assert_valid();
}

/// A driver unmaps whole mappings.
#[test]
fn a_range_that_is_not_unmapped_stays_in_use() {
    let run = Run::prepared("dlsym", "partly").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    assert_eq!(recorded.blocks(0), run.printed("mapped"));
    let counts = [Action::SegmentMap, Action::Alloc, Action::FreeCompleted, Action::SegmentUnmap];
    assert_eq!(
        counts.map(|action| recorded.count(0, action)),
        [2, 2, 1, 1],
        "one refused call has the beginning"
    );
    recorded.assert_adds_up(0);
    recorded.assert_valid();
}
