//! The state of the driver under one lock, and what every call does first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    capture::{Capture, Graph},
    clock::Clock,
    context::{self, Context},
    memory::Memory,
    streams::{Event, Line, Spin},
};

/// The codes of `CUresult` that this driver returns.
pub(crate) mod code {
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
    pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
    pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
    pub(crate) const CAPTURE_UNMATCHED: u32 = 903;
    pub(crate) const CAPTURE_UNJOINED: u32 = 904;
    pub(crate) const CAPTURE_ISOLATION: u32 = 905;
    pub(crate) const CAPTURE_IMPLICIT: u32 = 906;
    pub(crate) const CAPTURED_EVENT: u32 = 907;
}

/// The result of a call: a value, or a code.
pub(crate) type Answer<T> = Result<T, u32>;

/// A failure that a test asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) call: String,
    pub(crate) n_passed: u64,
    pub(crate) n_failing: u64,
    pub(crate) code: u32,
}

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) n_devices: usize,
    pub(crate) device_bytes: u64,
    pub(crate) contexts: BTreeMap<u64, Context>,
    pub(crate) lines: Vec<Line>,
    /// By context, handle and thread; context and thread are 0 for streams that were created.
    pub(crate) streams: HashMap<(u64, u64, u64), usize>,
    pub(crate) idle_streams: Vec<u64>,
    pub(crate) events: HashMap<u64, Event>,
    /// What the host knows to be finished.
    pub(crate) done: Clock,
    pub(crate) memory: Memory,
    /// By device, the lowest address that was allocated so far.
    pub(crate) lowest_address: HashMap<usize, u64>,
    /// Reserved ranges: start and bytes.
    pub(crate) ranges: BTreeMap<u64, u64>,
    /// Memory without an address: handle, device and bytes.
    pub(crate) loose: HashMap<u64, (usize, u64)>,
    pub(crate) captures: HashMap<u64, Capture>,
    pub(crate) graphs: HashMap<u64, Graph>,
    pub(crate) spins: Vec<Spin>,
    pub(crate) violations: Vec<String>,
    pub(crate) failures: Vec<Failure>,
    /// The state of the random numbers that let work finish; 0 when work finishes only if the host waits.
    pub(crate) chance: u64,
    next_handle: u64,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

pub(crate) struct Locked(MutexGuard<'static, Option<Driver>>);

impl std::ops::Deref for Locked {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.0.as_ref().expect("`lock` fills it")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Driver {
        self.0.as_mut().expect("`lock` fills it")
    }
}

pub(crate) fn lock() -> Locked {
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    driver.get_or_insert_with(|| Driver::new(2, 4 << 30));
    Locked(driver)
}

/// Lets the host wait until everything before a clock is finished. Other threads go on meanwhile.
pub(crate) fn finish(clock: &Clock) {
    let start = Instant::now();
    while lock().is_spinning(clock) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    lock().done.join(clock);
}

/// Converts an answer to the driver's code.
pub(crate) fn coded(answer: Answer<()>) -> u32 {
    answer.err().unwrap_or(0)
}

impl Driver {
    pub(crate) fn new(n_devices: usize, device_bytes: u64) -> Driver {
        Driver {
            n_devices,
            device_bytes,
            contexts: BTreeMap::new(),
            lines: Vec::new(),
            streams: HashMap::new(),
            idle_streams: Vec::new(),
            events: HashMap::new(),
            done: Clock::default(),
            memory: Memory::default(),
            lowest_address: HashMap::new(),
            ranges: BTreeMap::new(),
            loose: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            spins: Vec::new(),
            violations: Vec::new(),
            failures: Vec::new(),
            chance: 0,
            next_handle: 0x1000,
        }
    }

    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// Returns the current context, if there is one and it is alive.
    pub(crate) fn current(&self) -> Answer<u64> {
        let context = context::current();
        if self.contexts.contains_key(&context) { Ok(context) } else { Err(code::INVALID_CONTEXT) }
    }

    /// Notes that a program broke a rule whose breach the driver does not survive, and returns the code for it.
    pub(crate) fn misused(&mut self, text: String) -> u32 {
        self.violations.push(format!("MISUSE: {text}"));
        code::ILLEGAL_ADDRESS
    }

    /// Returns the failure that a test asked for, if it is this call's turn.
    pub(crate) fn failing(&mut self, call: &str) -> Answer<()> {
        for failure in &mut self.failures {
            if failure.call != call || failure.n_failing == 0 {
                continue;
            }
            if failure.n_passed > 0 {
                failure.n_passed -= 1;
            } else {
                failure.n_failing -= 1;
                return Err(failure.code);
            }
        }
        Ok(())
    }

    /// Returns the next random number below `bound`; 0 when nothing is random.
    pub(crate) fn random(&mut self, bound: u64) -> u64 {
        if self.chance == 0 {
            return 0;
        }
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % bound
    }

    /// Returns true if something before a clock runs until the host sets a flag.
    pub(crate) fn is_spinning(&self, clock: &Clock) -> bool {
        // SAFETY: a spin's flag is in pinned memory of the host, which is never given back to the system.
        let is_set = |flag: u64| unsafe { (flag as *const u32).read_volatile() } != 0;
        self.spins.iter().any(|spin| clock.get(spin.line) >= spin.time && !is_set(spin.flag))
    }
}
