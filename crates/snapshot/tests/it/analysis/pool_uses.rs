//! What pools hold, and what returns it.

use std::sync::Arc;

use memreel::{
    Allocation, Reel,
    allocator::{PoolOptions, Route},
    device::Simulated,
    recorder::Recording,
    snapshot::Dialect,
};
use memreel_snapshot::{
    DeviceId, PoolId, Snapshot,
    analysis::{
        DeviceHistory, PoolOf,
        oom::{CauseKind, Explanation, Verdict},
    },
};

use super::questions::MIB;

struct Pools {
    reel: Reel,
    kept: Vec<Allocation>,
}

impl Pools {
    fn new() -> Pools {
        let device = Arc::new(Simulated::new(512 * MIB));
        let builder = Reel::builder().device(device).history(Recording::all());
        let reel = builder.dialect(Dialect::Torch2_15).build().unwrap();
        Pools { reel, kept: Vec::new() }
    }

    /// Keeps blocks of some MiB of a pool, and frees others.
    fn fill(&mut self, pool: Option<PoolId>, kept: &[u64], freed: &[u64]) {
        let allocator = &self.reel.allocators()[0];
        pool.into_iter().for_each(|pool| allocator.begin_pool(pool, Route::Thread).unwrap());
        let alloc = |mib: &u64| self.reel.alloc(mib * MIB).unwrap();
        let _freed: Vec<Allocation> = freed.iter().map(alloc).collect();
        self.kept.extend(kept.iter().map(alloc));
        pool.into_iter().for_each(|pool| allocator.end_pool(pool).unwrap());
    }

    fn create(&self) -> PoolId {
        self.reel.allocators()[0].create_pool(PoolOptions::default())
    }
}

#[test]
fn each_pool_has_its_memory_and_what_returns_it() {
    let mut pools = Pools::new();
    let graph = pools.reel.allocators()[0].create_capture_pool();
    let user = pools.create();
    pools.fill(None, &[100], &[30]);
    pools.fill(Some(graph), &[], &[20, 24]);
    pools.fill(Some(user), &[60], &[40]);
    let file = pools.reel.snapshot();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let uses: Vec<_> = history
        .pool_uses(history.end())
        .into_iter()
        .map(|of| {
            (
                of.pool,
                of.kind,
                of.sum.reserved_bytes / MIB,
                of.sum.block_bytes / MIB,
                of.sum.empty_bytes / MIB,
            )
        })
        .collect();
    assert_eq!(
        uses,
        [
            (PoolId::DEFAULT, PoolOf::Default, 130, 100, 30),
            (graph, PoolOf::Graph, 44, 0, 44),
            (user, PoolOf::Program, 100, 60, 40),
        ]
    );
    let found = history.fragmentation(history.end());
    assert_eq!((found.empty_bytes / MIB, found.returnable_bytes / MIB), (114, 30));
    // As the allocator has it.
    let before = pools.reel.allocators()[0].memory_reserved();
    pools.reel.allocators()[0].empty_cache().unwrap();
    assert_eq!(before - pools.reel.allocators()[0].memory_reserved(), found.returnable_bytes);
}

fn first_cause(file: &Snapshot) -> (CauseKind, String, String) {
    let history = DeviceHistory::new(file, DeviceId(0));
    let cause = Explanation::new(&history, history.oom().unwrap()).causes().swap_remove(0);
    (cause.kind, cause.finding, cause.advice.unwrap_or_default())
}

#[test]
fn a_pool_that_gives_nothing_back_is_the_cause() {
    let mut pools = Pools::new();
    let user = pools.create();
    pools.fill(Some(user), &[], &[400]);
    pools.reel.alloc(450 * MIB).unwrap_err();
    let (kind, finding, advice) = first_cause(&pools.reel.snapshot());
    assert_eq!(kind, CauseKind::Unusable(Verdict::Elsewhere));
    let expected = "400.00 MiB in the MemPool (0, 1) is free, which this request cannot use; the device has 112.00 MiB free";
    assert_eq!(finding, expected);
    assert!(advice.contains("deleting the MemPool returns them"), "{advice}");
    // A request of the pool itself.
    let allocator = &pools.reel.allocators()[0];
    allocator.begin_pool(user, Route::Thread).unwrap();
    pools.reel.alloc(450 * MIB).unwrap_err();
    allocator.end_pool(user).unwrap();
    let (kind, _, advice) = first_cause(&pools.reel.snapshot());
    assert_eq!(kind, CauseKind::Unusable(Verdict::Fragmented));
    assert!(advice.contains("deleting the MemPool returns them"), "{advice}");
}

#[test]
fn what_the_default_pool_caches_is_the_cause_within_another() {
    let mut pools = Pools::new();
    let user = pools.create();
    pools.fill(None, &[], &[400]);
    let allocator = &pools.reel.allocators()[0];
    allocator.begin_pool(user, Route::Thread).unwrap();
    pools.reel.alloc(450 * MIB).unwrap_err();
    let (_, finding, advice) = first_cause(&pools.reel.snapshot());
    assert!(finding.contains("400.00 MiB in the default pool"), "{finding}");
    assert!(advice.contains("call torch.cuda.empty_cache() before it"), "{advice}");
}
