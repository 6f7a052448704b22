//! A device that calls a hook at the beginning of each of its calls that may take long, and that checks its marks.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex},
};

use memreel::{
    Address, Result, StreamId,
    device::{Device, Mark},
};

type Hook = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Wraps a device. The hook gets the name of the method that is called.
pub(crate) struct Hooked<D> {
    device: D,
    hook: Mutex<Option<Hook>>,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    live: BTreeSet<u64>,
    awaited: Option<Mark>,
}

impl<D: Device> Hooked<D> {
    pub(crate) fn new(device: D) -> Hooked<D> {
        Hooked { device, hook: Mutex::default(), marks: Mutex::default() }
    }

    pub(crate) fn set_hook(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    /// Removes the hook and all that it holds.
    pub(crate) fn unhook(&self) {
        *self.hook.lock().unwrap() = None;
    }

    /// The number of marks that were not forgotten.
    pub(crate) fn n_marks(&self) -> usize {
        self.marks.lock().unwrap().live.len()
    }

    fn call(&self, name: &'static str) {
        let hook = self.hook.lock().unwrap().clone();
        if let Some(hook) = hook {
            hook(name);
        }
    }
}

impl<D: Device> fmt::Debug for Hooked<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)
    }
}

// SAFETY: every call goes to the wrapped device, which keeps the contract.
unsafe impl<D: Device> Device for Hooked<D> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn total_bytes(&self) -> u64 {
        self.device.total_bytes()
    }

    fn free_bytes(&self) -> u64 {
        self.call("free_bytes");
        self.device.free_bytes()
    }

    fn is_host_visible(&self) -> bool {
        self.device.is_host_visible()
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        self.call("segment_alloc");
        self.device.segment_alloc(bytes)
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        self.call("segment_free");
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.segment_free(address, bytes) }
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        self.call("range_reserve");
        self.device.range_reserve(bytes, page_bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        self.call("range_release");
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.range_release(address, bytes) }
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        self.call("range_map");
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.range_map(address, bytes) }
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        self.call("range_unmap");
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.range_unmap(address, bytes) }
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        let mark = self.device.mark(stream)?;
        assert!(self.marks.lock().unwrap().live.insert(mark.0), "{mark:?} is made twice");
        Ok(mark)
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        assert!(self.marks.lock().unwrap().live.contains(&mark.0), "{mark:?} was forgotten");
        self.device.is_passed(mark)
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        self.marks.lock().unwrap().awaited = Some(mark);
        self.call("wait");
        assert!(self.marks.lock().unwrap().live.contains(&mark.0), "{mark:?} was forgotten during a wait");
        let waits = self.device.wait(mark);
        self.marks.lock().unwrap().awaited = None;
        waits
    }

    unsafe fn forget(&self, mark: Mark) {
        let mut marks = self.marks.lock().unwrap();
        assert!(marks.awaited != Some(mark), "{mark:?} is forgotten while a thread waits for it");
        assert!(marks.live.remove(&mark.0), "{mark:?} is forgotten twice");
        drop(marks);
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.forget(mark) }
    }
}
