//! Recording and snapshots from C, and reports of foreign allocators.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void},
    path::Path,
    ptr,
};

use super::{
    border::{status, text},
    options,
    state::{State, state, unknown},
};
use memreel::{
    Address, Error, OutOfMemory, Result,
    integrate::Refusal,
    ledger::{Contradiction, Ledger},
    pickle,
    recorder::{Recording, Scope},
    trigger::Triggers,
};

/// Starts, changes or stops recording. `options` is a JSON object such as
/// `{"enabled": "all"}`; null records everything.
///
/// # Safety
/// `options` is null or ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_record(options: *const c_char) -> c_int {
    status(|| {
        let history = if options.is_null() {
            Recording::all()
        } else {
            // SAFETY: the caller's promise.
            options::history(unsafe { text("the options", options)? })?
        };
        state()?.reel.record_history(&history);
        Ok(())
    })
}

/// Compares the calling thread's Python frames with those that the interpreter reports.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_check_python() -> c_int {
    status(|| state()?.python.check().map(drop))
}

/// Writes a snapshot to a file that pytorch.org/memory_viz opens. On failure no partial file is left.
///
/// # Safety
/// `path` ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_dump(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    status(|| pickle::save(&state()?.recorded(), Path::new(unsafe { text("the path", path)? })))
}

/// Makes the first failed request (with `{n}` in the path, every failed request) write a snapshot before its error is
/// returned or thrown.
///
/// # Safety
/// `path` ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_save_on_oom(path: *const c_char) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        state()?.reel.save_on_oom(unsafe { text("the path", path)? });
        Ok(())
    })
}

/// A function that is called when a request has failed: with the value that came with it, the device, the request,
/// the device's total and its free memory in bytes.
pub type OomObserver =
    unsafe extern "C" fn(data: *mut c_void, device: c_int, requested: u64, total: u64, free: u64);

/// Registers a function that each failed request calls, on its own thread and before its error is returned or thrown.
///
/// # Safety
/// The function may be called with `data` from any thread until the process ends, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_on_oom(observer: Option<OomObserver>, data: *mut c_void) -> c_int {
    status(|| {
        let observer = observer.ok_or_else(|| Error::misuse("the observer is null"))?;
        let data = data.expose_provenance();
        let call = move |device, oom: &OutOfMemory| {
            let data = ptr::with_exposed_provenance_mut(data);
            // SAFETY: the caller's promise.
            unsafe {
                observer(data, device, oom.requested_bytes, oom.device_total_bytes, oom.device_free_bytes)
            };
        };
        for (device, allocator) in (0..).zip(state()?.reel.allocators()) {
            allocator.on_oom(move |oom| call(device, oom));
        }
        Ok(())
    })
}

/// Writes snapshots automatically: `triggers` is a text such as `dump=oom+exit,file=snap-{pid}.pickle,keep=5`.
///
/// # Safety
/// `triggers` ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_dump_on(triggers: *const c_char) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let triggers: Triggers = unsafe { text("the triggers", triggers)? }.parse()?;
        state()?.reel.dump_on(&triggers)
    })
}

thread_local! {
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Begins a scope: this thread's allocations carry its name until [`memreel_scope_end`].
///
/// # Safety
/// `name` ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_scope_begin(name: *const c_char) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let scope = state()?.reel.scope(unsafe { text("the name", name)? });
        let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push(scope));
        Ok(())
    })
}

/// Ends the scope that this thread began last; fails if none is open.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_scope_end() -> c_int {
    status(|| {
        let scope = SCOPES.try_with(|scopes| scopes.borrow_mut().pop()).ok().flatten();
        scope.map(drop).ok_or_else(|| Error::misuse("no scope is open on this thread"))
    })
}

/// Gives a live block a name: one of memreel's blocks, or one that was reported.
///
/// # Safety
/// `name` ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_annotate(device: c_int, address: *mut c_void, name: *const c_char) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        state()?.annotate(device, at(address), unsafe { text("the name", name)? })
    })
}

/// Records that another allocator allocated a block.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_record_alloc(
    device: c_int,
    address: *mut c_void,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    report(device, |ledger| ledger.alloc(at(address), size as u64, stream.addr().into()))
}

/// Records that a block is freed to another allocator; call it before the block can be reused.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_record_free(device: c_int, address: *mut c_void) -> c_int {
    report(device, |ledger| ledger.free(at(address)))
}

/// Records that another allocator got a segment from the device.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_record_segment_alloc(
    device: c_int,
    address: *mut c_void,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    report(device, |ledger| ledger.segment_alloc(at(address), size as u64, stream.addr().into()))
}

/// Records that another allocator returns a segment to the device.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_record_segment_free(device: c_int, address: *mut c_void) -> c_int {
    report(device, |ledger| ledger.segment_free(at(address)))
}

/// Records that a request of another allocator failed while the device had `device_free` bytes free.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_record_oom(
    device: c_int,
    size: usize,
    device_free: usize,
    stream: *mut c_void,
) -> c_int {
    status(|| {
        let (bytes, device_free_bytes, stream) = (size as u64, device_free as u64, stream.addr().into());
        state()?.ledger(device)?.oom(Refusal { bytes, device_free_bytes, stream, ..Refusal::default() });
        Ok(())
    })
}

fn at(address: *mut c_void) -> Address {
    Address(address.addr() as u64)
}

/// What a ledger returns for a report.
type Reported = std::result::Result<(), Contradiction>;

/// Passes a report to the device's ledger; one that contradicts earlier reports is an error.
fn report(device: c_int, report: impl FnOnce(&Ledger) -> Reported) -> c_int {
    status(|| report(state()?.ledger(device)?).map_err(|why| refused(device, why)))
}

/// Returns the error of a report that the ledger of a device rejected.
fn refused(device: c_int, why: Contradiction) -> Error {
    Error::misuse(format!("not recorded for device {device}: {why}"))
}

impl State {
    fn ledger(&self, device: c_int) -> Result<&Ledger> {
        let id = u16::try_from(device).map_err(|_| Error::misuse(format!("there is no device {device}")))?;
        Ok(self.ledgers.get_or_create(id, self.reel.recorder()))
    }

    /// Gives a live block a name: one of memreel's allocator, or one that was reported.
    fn annotate(&self, device: c_int, address: Address, name: &str) -> Result<()> {
        if self.allocator(device).is_ok_and(|allocator| allocator.annotate_raw(address, name)) {
            return Ok(());
        }
        match u16::try_from(device).ok().and_then(|device| self.ledgers.get(device)) {
            Some(ledger) => ledger.annotate(address, name).map_err(|why| refused(device, why)),
            None => Err(unknown(address)),
        }
    }
}
