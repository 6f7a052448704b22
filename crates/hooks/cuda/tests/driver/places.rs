//! Memory that is not where the calling thread's device is: on the host, managed, on a part of a device, on another device.

use memreel::{Action, DeviceId, analysis::DeviceHistory};

use crate::{MIB, mock::Run};

#[test]
fn memory_is_where_its_pool_or_its_handle_says() {
    let run = Run::prepared("dlsym", "places").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    // The locality domain, and the block.
    assert_eq!(recorded.owned(0, "program")[0], i128::from(601 * MIB), "{}", run.err);
    assert_eq!(recorded.owned(0, "memory:managed")[0], i128::from(520 * MIB), "outside of the sum");
    recorded.assert_adds_up(0);
    // A pool, that of a locality domain, and the default one.
    assert_eq!(recorded.owned(1, "program")[0], i128::from((100 + 40 + 8) * MIB));
    // Behind two GPUs and the heap: two pools and a handle. What was freed is not there.
    assert_eq!(recorded.owned(3, "program")[0], i128::from((900 + 70 + 50) * MIB));
    assert_eq!(recorded.table(3).name, "pinned host memory");
    assert_eq!([0, 1, 3].map(|device| recorded.count(device, Action::Oom)), [0, 0, 1], "refused by the host");
    recorded.assert_valid();
}

#[test]
fn a_green_context_may_be_the_first_of_its_device() {
    let run = Run::prepared("dlsym", "green").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    assert_eq!(recorded.marked("driver:context"), 520 * MIB, "{}", run.err);
    assert_eq!(recorded.owned(0, "program")[0], i128::from(30 * MIB));
    recorded.assert_adds_up(0);
    // With the last one the primary context ends, and all that it has.
    let run = Run::prepared("dlsym", "green").env("MOCK_OTHERS", "0").argument("all").start();
    let recorded = run.recorded();
    assert_eq!((recorded.blocks(0), recorded.marked("driver:context")), (vec![], 0), "{}", run.err);
    // The last one, which the driver does not end at first, is known when it does.
    let start = Run::prepared("dlsym", "green").env("MOCK_OTHERS", "0").env("MOCK_BUSY_GREEN", "2");
    let recorded = start.argument("all").start().recorded();
    assert_eq!((recorded.blocks(0), recorded.marked("driver:context")), (vec![], 0));
}

/// What a pool keeps is not the program's, and is free elsewhere when a request is refused.
#[test]
fn a_refusal_knows_what_the_pools_keep() {
    let run = Run::prepared("dlsym", "keeps").env("MOCK_OTHERS", "0").env("MOCK_KEEP", "1").start();
    let recorded = run.recorded();
    let history = DeviceHistory::new(&recorded.snapshot, DeviceId(0));
    assert_eq!(history.oom().unwrap().pool_slack_bytes, 2400 * MIB, "{}", run.err);
}
