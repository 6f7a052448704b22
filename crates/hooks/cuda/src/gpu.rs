//! One GPU: the ledger of its memory, and how much of it is accounted for.
#![forbid(unsafe_code)]

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering},
};

use memreel::{DeviceId, integrate::hold_at_forks, ledger::Ledger, recorder::Recorder};

use super::{alive::Alive, driver::driver, parts::Parts, pending::Pending, seen::PAGE_BYTES};

/// Smaller blocks share a page.
const SHARES_A_PAGE: u64 = 1 << 20;

/// A GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: i32,
    ledger: Ledger,
    alive: Alive,
    pub(crate) pending: Arc<Mutex<Pending>>,
    pub(crate) parts: Arc<Mutex<Parts>>,
    booked: Booked,
    /// How many threads requested to record what is not mapped, since one started to do it.
    pub(crate) n_unmapped_changes: AtomicU32,
    /// The most bytes that were accounted for at the last look for a peak. Relaxed, as the next: they decide when to
    /// look.
    peak_bytes: AtomicU64,
    /// Whether the next call that allocates should look.
    is_wanted: AtomicBool,
    /// How often something was accounted for.
    n_accounted: AtomicU64,
    /// Whether other processes were seen on the device: then its used memory shows little about this one. Relaxed: a
    /// call that is measured uses one value for both of its looks.
    is_shared: AtomicBool,
}

/// The bytes that are accounted for.
#[derive(Debug, Default)]
struct Booked {
    /// What was requested in pages of its own, and these pages.
    in_pages: AtomicI64,
    pages: AtomicI64,
    /// The bytes that share pages.
    small: AtomicI64,
    /// Physical memory under handles, and the mapped part of it.
    physical: AtomicI64,
    mapped: AtomicI64,
    /// The bytes requested from pools.
    of_pools: AtomicI64,
    /// What the driver took for itself.
    parts: AtomicI64,
}

/// How a device's memory is accounted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Account {
    /// Pages of its own, or a share of one.
    Pages,
    /// From a pool, which holds memory itself.
    Pool,
    /// Physical memory under a handle.
    Physical,
    /// The mapped part of it, which is already in the sum.
    Mapped,
    /// The driver's own.
    Part,
    /// Managed, or another process's: not in the sum.
    Outside,
}

impl Gpu {
    pub(crate) fn new(device: i32, recorder: &Recorder) -> Gpu {
        let gpu = Gpu {
            device,
            ledger: recorder.ledger(device),
            alive: Alive::new(),
            pending: Arc::default(),
            parts: Arc::default(),
            booked: Booked::default(),
            n_unmapped_changes: AtomicU32::new(0),
            peak_bytes: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            n_accounted: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
        };
        hold_at_forks(&gpu.pending);
        hold_at_forks(&gpu.parts);
        // A device may have memory of other processes and no context.
        gpu.describe(recorder);
        gpu
    }

    /// Adds the device's name to recordings, as soon as the driver is there.
    pub(crate) fn describe(&self, recorder: &Recorder) {
        let Some((name, uuid)) = driver().map(|driver| driver.identity(self.device)) else { return };
        if !name.is_empty() || !uuid.is_empty() {
            recorder.describe_device(self.ledger_device(), &name, &uuid);
        }
    }

    /// The number of the device in recordings.
    pub(crate) fn ledger_device(&self) -> DeviceId {
        DeviceId::from(self.device)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The context and the pools.
    pub(crate) fn alive(&self) -> &Alive {
        &self.alive
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub(crate) fn set_shared(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Ordering::Relaxed);
    }

    /// Adds bytes to an account; with a sign of -1, subtracts them.
    pub(crate) fn account(&self, account: Account, bytes: u64, sign: i64) {
        self.n_accounted.fetch_add(1, Ordering::SeqCst);
        let booked = &self.booked;
        let add = |to: &AtomicI64, bytes: u64| {
            // Release: a look that sees this sees that `n_accounted` is another, and is made again.
            to.fetch_add(sign * i64::try_from(bytes).unwrap_or(0), Ordering::Release);
        };
        match account {
            Account::Pages if bytes < SHARES_A_PAGE => add(&booked.small, bytes),
            Account::Pages => {
                add(&booked.in_pages, bytes);
                add(&booked.pages, bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES));
            }
            Account::Pool => add(&booked.of_pools, bytes),
            Account::Physical => add(&booked.physical, bytes),
            Account::Mapped => add(&booked.mapped, bytes),
            Account::Part => add(&booked.parts, bytes),
            Account::Outside => {}
        }
    }

    /// Returns the bytes that are accounted for, without those of pools.
    pub(crate) fn booked_bytes(&self) -> u64 {
        let booked = &self.booked;
        of(&booked.pages) + of(&booked.physical) + of(&booked.parts) + self.pages_of_small()
    }

    /// The bytes of pages that no block has.
    pub(crate) fn page_rounding_bytes(&self) -> u64 {
        let booked = &self.booked;
        (of(&booked.pages) + self.pages_of_small()).saturating_sub(of(&booked.in_pages) + of(&booked.small))
    }

    /// The bytes of blocks of pools.
    pub(crate) fn pool_bytes(&self) -> u64 {
        of(&self.booked.of_pools)
    }

    /// The bytes of physical memory under handles that no mapping has.
    pub(crate) fn unmapped_bytes(&self) -> u64 {
        of(&self.booked.physical).saturating_sub(of(&self.booked.mapped))
    }

    /// Returns how often something was accounted for.
    pub(crate) fn n_accounted(&self) -> u64 {
        self.n_accounted.load(Ordering::SeqCst)
    }

    /// Makes the next call that allocates look.
    pub(crate) fn want_look(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Returns whether a look is wanted, or more is accounted for than ever, though not for every few bytes: a look
    /// takes microseconds of processor time.
    #[inline]
    pub(crate) fn needs_look(&self) -> bool {
        let bytes = self.booked_bytes() + self.pool_bytes();
        let peak = self.peak_bytes.load(Ordering::Relaxed);
        let is_at_peak = bytes > peak + peak / 64 + (1 << 20);
        if is_at_peak {
            self.peak_bytes.store(bytes, Ordering::Relaxed);
        }
        let is_wanted =
            self.is_wanted.load(Ordering::Relaxed) && self.is_wanted.swap(false, Ordering::Relaxed);
        is_at_peak || is_wanted
    }

    fn pages_of_small(&self) -> u64 {
        of(&self.booked.small).div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
    }
}

fn of(account: &AtomicI64) -> u64 {
    account.load(Ordering::Acquire).max(0).cast_unsigned()
}
