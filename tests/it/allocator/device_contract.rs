//! What every device promises, asked of each of them.

use std::{ptr, sync::Arc};

use memreel::{
    Address, Result, StreamId,
    device::{Device, Host, Limit, Mark, Simulated},
};

const MIB: u64 = 1 << 20;

/// Whether a device supports ranges of addresses that are mapped in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ranges {
    Supported,
    Unsupported,
}

/// Runs the suite with stream 7. A new device is complete when it passes.
fn keeps_the_contract(device: &dyn Device, ranges: Ranges) {
    keeps_the_contract_on(device, StreamId(7), ranges);
}

/// Runs the suite; `stream` is a stream other than the default one.
pub(crate) fn keeps_the_contract_on(device: &dyn Device, stream: StreamId, ranges: Ranges) {
    says_what_it_is(device);
    gives_disjoint_segments(device);
    refuses_without_failing(device);
    passes_marks(device, stream);
    match ranges {
        Ranges::Supported => maps_parts_of_ranges(device),
        Ranges::Unsupported => {
            assert_eq!(device.range_reserve(40 * MIB, 2 * MIB).unwrap(), None, "no range, and no error");
        }
    }
}

fn says_what_it_is(device: &dyn Device) {
    assert!(!device.name().is_empty());
    assert!(device.total_bytes() > 0);
    assert!(device.free_bytes() <= device.total_bytes());
    assert_eq!(device.total_bytes(), device.total_bytes(), "the total does not change");
}

fn gives_disjoint_segments(device: &dyn Device) {
    let sizes = [2 * MIB, 20 * MIB, 2 * MIB, 10 * MIB];
    let give = |bytes: u64| (device.segment_alloc(bytes).unwrap().expect("room for 34 MiB"), bytes);
    let mut segments: Vec<(Address, u64)> = sizes.into_iter().map(give).collect();
    check_disjoint(&segments);
    for (index, (address, bytes)) in segments.iter().enumerate() {
        assert_eq!(address.0 % 512, 0);
        if device.is_host_visible() {
            write(*address, *bytes, u8::try_from(index + 1).unwrap());
        }
    }
    for (index, (address, bytes)) in segments.iter().enumerate().filter(|_| device.is_host_visible()) {
        let expected = u8::try_from(index + 1).unwrap();
        assert_eq!(read_ends(*address, *bytes), [expected; 2], "segment {index} was overwritten by another");
    }
    // One goes back, and another of another size comes: still disjoint.
    let (address, bytes) = segments.remove(1);
    // SAFETY: it came from this device with these bytes and is no longer in `segments`.
    unsafe { device.segment_free(address, bytes) };
    segments.push(give(12 * MIB));
    check_disjoint(&segments);
    for (address, bytes) in segments {
        // SAFETY: each came from this device with these bytes and is freed once.
        unsafe { device.segment_free(address, bytes) };
    }
}

fn check_disjoint(segments: &[(Address, u64)]) {
    let mut sorted: Vec<_> = segments.iter().map(|(address, bytes)| (address.0, address.0 + bytes)).collect();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{sorted:?} overlap");
}

fn write(address: Address, bytes: u64, pattern: u8) {
    let start = ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address.0).unwrap());
    // SAFETY: the contract: a live, writable segment of that many bytes.
    unsafe { ptr::write_bytes(start, pattern, usize::try_from(bytes).unwrap()) };
}

fn read_ends(address: Address, bytes: u64) -> [u8; 2] {
    let at = |address: u64| ptr::with_exposed_provenance::<u8>(usize::try_from(address).unwrap());
    // SAFETY: the contract: a live, initialised segment of that many bytes.
    unsafe { [at(address.0).read(), at(address.0 + bytes - 1).read()] }
}

fn refuses_without_failing(device: &dyn Device) {
    assert_eq!(device.segment_alloc(1 << 60).unwrap(), None, "being full is an answer, not an error");
    let again = device.segment_alloc(2 * MIB).unwrap().expect("a refusal uses nothing up");
    // SAFETY: it came from this device with these bytes.
    unsafe { device.segment_free(again, 2 * MIB) };
}

fn passes_marks(device: &dyn Device, other: StreamId) {
    for stream in [StreamId::DEFAULT, other] {
        let marks = [device.mark(stream).unwrap(), device.mark(stream).unwrap()];
        device.wait(marks[1]).unwrap();
        assert!(device.is_passed(marks[0]).unwrap(), "waiting for the second passes the first");
        assert!(device.is_passed(marks[1]).unwrap());
        // SAFETY: the marks came from this device, and each is used for the last time.
        marks.into_iter().for_each(|mark| unsafe { device.forget(mark) });
    }
    assert_eq!(device.stream_number(StreamId::DEFAULT), 0);
}

fn maps_parts_of_ranges(device: &dyn Device) {
    let base = device.range_reserve(40 * MIB, 2 * MIB).unwrap().expect("the device supports ranges");
    let free_before = device.free_bytes();
    let part = Address(base.0 + 2 * MIB);
    // SAFETY: the part lies in the range, at multiples of 2 MiB, and has no memory.
    assert!(unsafe { device.range_map(part, 20 * MIB) }.unwrap(), "room for 20 MiB");
    let segment = device.segment_alloc(2 * MIB).unwrap().expect("room for 2 MiB more");
    check_disjoint(&[(base, 40 * MIB), (segment, 2 * MIB)]);
    if device.is_host_visible() {
        assert_eq!(read_ends(part, 20 * MIB), [0; 2]);
        write(part, 20 * MIB, 7);
    }
    let half = Address(part.0 + 10 * MIB);
    // SAFETY: these pages were mapped above and nothing uses them.
    unsafe { device.range_unmap(half, 10 * MIB) };
    // SAFETY: they have just lost their memory.
    assert!(unsafe { device.range_map(half, 10 * MIB) }.unwrap());
    if device.is_host_visible() {
        assert_eq!(read_ends(part, 10 * MIB), [7; 2], "the other half is untouched");
        assert_eq!(read_ends(half, 10 * MIB), [0; 2], "memory that comes back is empty");
    }
    // SAFETY: all of it is mapped, and nothing uses it; then the range has no
    // memory and goes as it came; the segment goes once, with its bytes.
    unsafe {
        device.range_unmap(part, 20 * MIB);
        device.range_release(base, 40 * MIB);
        device.segment_free(segment, 2 * MIB);
    }
    assert!(device.is_host_visible() || device.free_bytes() == free_before, "all memory is back");
}

#[test]
fn host_keeps_the_contract() {
    keeps_the_contract(&Host::new(), Ranges::Supported);
}

/// A simulated device without ranges.
#[derive(Debug)]
struct WithoutRanges(Simulated);

// SAFETY: each method is that of the simulated device, which keeps the contract; ranges are optional.
unsafe impl Device for WithoutRanges {
    fn name(&self) -> String {
        self.0.name()
    }

    fn total_bytes(&self) -> u64 {
        self.0.total_bytes()
    }

    fn free_bytes(&self) -> u64 {
        self.0.free_bytes()
    }

    fn is_host_visible(&self) -> bool {
        self.0.is_host_visible()
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        self.0.segment_alloc(bytes)
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.0.segment_free(address, bytes) }
    }

    fn range_reserve(&self, _: u64, _: u64) -> Result<Option<Address>> {
        Ok(None)
    }

    unsafe fn range_release(&self, _: Address, _: u64) {
        unreachable!("no range was reserved")
    }

    unsafe fn range_map(&self, _: Address, _: u64) -> Result<bool> {
        unreachable!("no range was reserved")
    }

    unsafe fn range_unmap(&self, _: Address, _: u64) {
        unreachable!("no range was reserved")
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        self.0.mark(stream)
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        self.0.is_passed(mark)
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        self.0.wait(mark)
    }

    unsafe fn forget(&self, mark: Mark) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.0.forget(mark) }
    }
}

#[test]
fn a_device_without_ranges_keeps_the_contract() {
    keeps_the_contract(&WithoutRanges(Simulated::new(80 << 30)), Ranges::Unsupported);
    let limited = Limit::new(WithoutRanges(Simulated::new(80 << 30)), 40 * MIB);
    keeps_the_contract(&limited, Ranges::Unsupported);
}

#[test]
fn simulated_keeps_the_contract() {
    keeps_the_contract(&Simulated::new(80 << 30), Ranges::Supported);
    keeps_the_contract(&Arc::new(Simulated::new(80 << 30)), Ranges::Supported);
}

#[test]
fn limit_keeps_the_contract() {
    keeps_the_contract(&Limit::new(Host::new(), 40 * MIB), Ranges::Supported);
    keeps_the_contract(&Limit::new(Simulated::new(80 << 30), 40 * MIB), Ranges::Supported);
    let small = Arc::new(Simulated::new(40 * MIB)) as Arc<dyn Device>;
    keeps_the_contract(&Limit::new(small, 80 << 30), Ranges::Supported);
}

#[test]
fn host_segments_are_zero() {
    let address = Host::new().segment_alloc(2 * MIB).unwrap().unwrap();
    assert_eq!(read_ends(address, 2 * MIB), [0; 2]);
    // SAFETY: it came from the host with these bytes.
    unsafe { Host::new().segment_free(address, 2 * MIB) };
}

#[test]
fn a_limit_gives_back_what_was_freed() {
    let device = Limit::new(Simulated::new(80 << 30), 10 * MIB);
    let first = device.segment_alloc(10 * MIB).unwrap().unwrap();
    assert_eq!((device.free_bytes(), device.segment_alloc(512).unwrap()), (0, None));
    // SAFETY: it came from this device with these bytes.
    unsafe { device.segment_free(first, 10 * MIB) };
    assert_eq!(device.free_bytes(), 10 * MIB);
    assert!(device.segment_alloc(10 * MIB).unwrap().is_some());
}

#[test]
fn a_busy_stream_passes_its_marks_when_told() {
    let device = Simulated::new(80 << 30);
    let early = device.mark(StreamId(1)).unwrap();
    device.set_busy(StreamId(1));
    let late = device.mark(StreamId(1)).unwrap();
    let elsewhere = device.mark(StreamId(2)).unwrap();
    let passed = |mark| device.is_passed(mark).unwrap();
    assert_eq!([passed(early), passed(late), passed(elsewhere)], [true, false, true]);
    device.set_idle(StreamId(1));
    assert!(passed(late));
}

#[test]
fn a_script_is_followed_and_its_end_is_an_error() {
    let device = Simulated::new(80 << 30).scripted([0x1000_0000, 0x1010_0000]);
    assert_eq!(device.segment_alloc(2 * MIB).unwrap(), Some(Address(0x1000_0000)));
    let overlap = device.segment_alloc(2 * MIB).unwrap_err();
    assert!(overlap.is_device() && overlap.to_string().contains("in use"), "{overlap}");
    let end = device.segment_alloc(2 * MIB).unwrap_err();
    assert!(end.is_device() && end.to_string().contains("no more addresses"), "{end}");
}

#[test]
fn a_limit_counts_what_is_mapped_not_what_is_reserved() {
    let device = Limit::new(Simulated::new(80 << 30), 10 * MIB);
    let base = device.range_reserve(1 << 40, 2 * MIB).unwrap().expect("addresses cost nothing");
    // SAFETY: parts of the range, at multiples of 2 MiB, mapped and unmapped in turn.
    unsafe {
        assert!(device.range_map(base, 8 * MIB).unwrap());
        assert!(!device.range_map(Address(base.0 + 8 * MIB), 4 * MIB).unwrap());
        device.range_unmap(base, 8 * MIB);
        assert!(device.range_map(base, 10 * MIB).unwrap());
    }
}
