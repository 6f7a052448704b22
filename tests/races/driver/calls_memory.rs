//! Calls about memory: segments, pages, pinned memory, copies and memsets.

use std::{alloc, ffi::c_void, slice};

use super::{
    calls::{call, give},
    capture::Effect,
    clock::Clock,
    context,
    memory::Access,
    state::{Answer, Driver, code, finish, lock},
};

const SEGMENT: u64 = 2 << 20;

/// The first address of a device; those of reserved ranges follow a terabyte later.
fn base(device: usize) -> u64 {
    0x10_0000_0000_0000 + ((device as u64) << 44)
}

impl Driver {
    fn device(&self) -> Answer<usize> {
        self.contexts.get(&context::current()).map(|context| context.device).ok_or(code::INVALID_CONTEXT)
    }

    fn free_bytes(&self, device: usize) -> u64 {
        let loose = self.loose.values().filter(|(of, _)| *of == device).map(|(_, bytes)| bytes).sum::<u64>();
        // A context of a GPU with 80 GB takes 500 MB.
        let context_bytes = self.device_bytes / 160;
        self.device_bytes.saturating_sub(self.memory.used_bytes(device) + loose + context_bytes)
    }

    /// Takes memory back; it must not be in use.
    fn take_back(&mut self, start: u64) {
        if let Some(access) = self.memory.unfinished(start, &self.done) {
            let Access { start, bytes, what, line, .. } = access;
            let text = format!(
                "RACE: memory is freed before the {what} [{start:#x}, +{bytes}) on {}",
                self.name(line)
            );
            self.violations.push(text);
        }
        self.memory.remove(start);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    call("cuMemAlloc", |driver| {
        driver.outside_captures()?;
        let device = driver.device()?;
        let bytes = (bytes as u64).max(1).next_multiple_of(512);
        if bytes > driver.free_bytes(device) {
            return Err(code::OUT_OF_MEMORY);
        }
        // Downwards, like a real driver: recorded scenarios depend on that. An address is not used twice, so what
        // is used after its free is outside of all memory.
        let end = *driver.lowest_address.entry(device).or_insert(base(device) + (1 << 40));
        let start = (end - bytes) / SEGMENT * SEGMENT;
        driver.lowest_address.insert(device, start);
        driver.memory.insert(start, bytes, Some(device));
        give(address, start);
        Ok(())
    })
}

/// Frees memory after the work of its context is done.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    let mut clock = Clock::default();
    let answer = call("cuMemFree", |driver| {
        driver.outside_captures()?;
        let current = driver.current()?;
        clock = driver.clock_of(current);
        Ok(())
    });
    if answer != 0 {
        return answer;
    }
    finish(&clock);
    let mut driver = lock();
    if driver.memory.find(address).is_none_or(|(start, region)| start != address || region.device.is_none()) {
        return driver.misused(format!("{address:#x} is freed, but is not allocated"));
    }
    driver.take_back(address);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    call("cuMemGetInfo", |driver| {
        let device = driver.device()?;
        give(free, driver.free_bytes(device) as usize);
        give(total, driver.device_bytes as usize);
        Ok(())
    })
}

/// Allocates memory of the host. It is never given back, so that a spinning kernel can read its flag.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, _flags: u32) -> u32 {
    let Ok(layout) = alloc::Layout::from_size_align(bytes.max(1), 4096) else { return code::INVALID_VALUE };
    call("cuMemHostAlloc", |driver| {
        // SAFETY: the size is not zero.
        let new = unsafe { alloc::alloc_zeroed(layout) };
        driver.memory.insert(new as u64, bytes.max(1) as u64, None);
        give(pointer, new.cast());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> u32 {
    call("cuMemFreeHost", |driver| driver.memory.remove(pointer as u64).map(drop).ok_or(code::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    _properties: *const c_void,
    _which: u32,
) -> u32 {
    give(bytes, SEGMENT as usize);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressReserve(
    start: *mut u64,
    bytes: usize,
    _alignment: usize,
    _at: u64,
    _flags: u64,
) -> u32 {
    call("cuMemAddressReserve", |driver| {
        let device = driver.device()?;
        let first = base(device) + (1 << 40);
        let after = driver.ranges.range(first..base(device + 1)).next_back();
        let at = after.map_or(first, |(start, bytes)| start + bytes);
        driver.ranges.insert(at, bytes as u64);
        give(start, at);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(start: u64, bytes: usize) -> u32 {
    call("cuMemAddressFree", |driver| {
        if driver.ranges.remove(&start) == Some(bytes as u64) { Ok(()) } else { Err(code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemCreate(handle: *mut u64, bytes: usize, properties: *const c_void, _flags: u64) -> u32 {
    // SAFETY: callers pass a `CUmemAllocationProp`, whose fourth number of 32 bits is the device.
    let device = unsafe { properties.cast::<i32>().add(3).read() } as usize;
    call("cuMemCreate", |driver| {
        if bytes as u64 > driver.free_bytes(device) {
            return Err(code::OUT_OF_MEMORY);
        }
        let new = driver.handle();
        driver.loose.insert(new, (device, bytes as u64));
        give(handle, new);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: u64) -> u32 {
    // A mapping keeps the memory.
    call("cuMemRelease", |driver| {
        driver.loose.remove(&handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(start: u64, bytes: usize, _offset: usize, handle: u64, _flags: u64) -> u32 {
    call("cuMemMap", |driver| {
        let (device, _) = driver.loose.remove(&handle).ok_or(code::INVALID_VALUE)?;
        if driver.memory.find(start).is_some() {
            return Err(driver.misused(format!("{start:#x} is mapped twice")));
        }
        driver.memory.insert(start, bytes as u64, Some(device));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemSetAccess(_start: u64, _bytes: usize, _access: *const c_void, _count: usize) -> u32 {
    call("cuMemSetAccess", |_| Ok(()))
}

/// Unmaps memory. Unlike `cuMemFree`, it waits for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(start: u64, bytes: usize) -> u32 {
    call("cuMemUnmap", |driver| {
        if driver
            .memory
            .find(start)
            .is_none_or(|(first, region)| (first, region.bytes) != (start, bytes as u64))
        {
            return Err(driver.misused(format!("{start:#x} is unmapped, but is not mapped like that")));
        }
        driver.take_back(start);
        Ok(())
    })
}

fn queue(name: &str, stream: u64, accesses: Vec<Access>, effect: Effect) -> u32 {
    call(name, |driver| {
        let line = driver.line_for_work(stream)?;
        driver.queue(line, accesses, effect)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(start: u64, value: u8, bytes: usize, stream: u64) -> u32 {
    let effect = Effect::Fill { start, bytes: bytes as u64, value };
    queue("cuMemsetD8Async", stream, vec![Access::new(start, bytes, true, "memset")], effect)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: u64) -> u32 {
    // SAFETY: callers pass readable memory of this size.
    let values = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
    let mut accesses = vec![Access::new(to, bytes, true, "copy from the host")];
    if lock().memory.find(from as u64).is_some() {
        accesses.push(Access::new(from as u64, bytes, false, "read of pinned memory"));
    }
    queue("cuMemcpyHtoDAsync", stream, accesses, Effect::Write { to, values })
}

/// Copies to the host. The call returns when it is done, except for pinned memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: u64) -> u32 {
    let is_pinned = lock().memory.find(to as u64).is_some();
    let mut accesses = vec![Access::new(from, bytes, false, "copy to the host")];
    if is_pinned {
        accesses.push(Access::new(to as u64, bytes, true, "write of pinned memory"));
    }
    let answer = queue("cuMemcpyDtoHAsync", stream, accesses, Effect::None);
    if answer != 0 {
        return answer;
    }
    let (values, clock, is_captured) = {
        let mut driver = lock();
        let Ok(line) = driver.line(stream) else { return code::INVALID_HANDLE };
        let clock = driver.lines[line].clock.clone();
        (driver.memory.read(from, bytes), clock, driver.lines[line].capture.is_some())
    };
    if is_captured {
        return 0;
    }
    // SAFETY: callers pass writable memory of this size.
    unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), bytes) }.copy_from_slice(&values);
    if !is_pinned {
        finish(&clock);
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> u32 {
    let read = Access::new(from, bytes, false, "read of a copy");
    let write = Access::new(to, bytes, true, "write of a copy");
    queue("cuMemcpyDtoDAsync", stream, vec![read, write], Effect::Copy { to, from, bytes })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    _to_context: u64,
    from: u64,
    _from_context: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    let read = Access::new(from, bytes, false, "read of a copy between GPUs");
    let write = Access::new(to, bytes, true, "write of a copy between GPUs");
    call("cuMemcpyPeerAsync", |driver| {
        // Unlike other copies, it may be queued while another context than the stream's is current.
        let line = driver.line(stream)?;
        driver.queue(line, vec![read, write], Effect::Copy { to, from, bytes })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(start: u64, value: u8, bytes: usize) -> u32 {
    match cuMemsetD8Async(start, value, bytes, 0) {
        0 => super::calls_streams::cuStreamSynchronize(0),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32 {
    cuMemcpyDtoHAsync_v2(to, from, bytes, 0)
}
