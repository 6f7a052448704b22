//! What the kernel says of a process's resident memory at one time: the areas of its address space, and which pages of them
//! are in memory.

use std::ops::Range;

use serde::Serialize;

use crate::words::DeviceId;

/// What an area of an address space is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum AreaKind {
    /// Memory without a file and without a name. An allocator or the program mapped it.
    #[default]
    Anonymous,
    /// Memory that `malloc` of the C library got from the kernel: the heap that `brk` makes longer, and its arenas.
    Malloc,
    /// The stack of a thread.
    Stack,
    /// The code and the constants of a program or a library, as its file has them.
    Code,
    /// What a program or a library changes of its file: data, and pages that the loader relocated.
    Data,
    /// Another mapped file.
    File,
    /// Memory that processes share: of `shm_open`, `memfd_create`, System V, or `mmap` with `MAP_SHARED`.
    Shared,
    /// Memory of the recorder's own: its tape and its libraries.
    Recorder,
    /// What the kernel maps itself, such as `[vdso]`.
    Kernel,
}

impl AreaKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [AreaKind; 9] = [
        AreaKind::Anonymous,
        AreaKind::Malloc,
        AreaKind::Stack,
        AreaKind::Code,
        AreaKind::Data,
        AreaKind::File,
        AreaKind::Shared,
        AreaKind::Recorder,
        AreaKind::Kernel,
    ];

    /// Returns the name, as files have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AreaKind::Anonymous => "anonymous",
            AreaKind::Malloc => "malloc",
            AreaKind::Stack => "stack",
            AreaKind::Code => "code",
            AreaKind::Data => "data",
            AreaKind::File => "file",
            AreaKind::Shared => "shared",
            AreaKind::Recorder => "recorder",
            AreaKind::Kernel => "kernel",
        }
    }

    /// Returns the kind of a name; `None` if it is not one.
    #[must_use]
    pub fn of_name(name: &str) -> Option<AreaKind> {
        AreaKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What a stack has at most that is nothing but the stack of one thread: the usual limit.
const STACK_BYTES: u64 = 8 << 20;

/// An area of the address space, or several of one kind and one name together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResidentArea {
    /// What it is.
    pub kind: AreaKind,
    /// The path of its file, or the name that the program gave it; empty if there is none.
    pub name: String,
    /// Where it is; empty if it is several.
    pub range: Range<u64>,
    /// The bytes that are resident.
    pub resident_bytes: u64,
    /// The same, where a page that `n` processes share counts as an `n`th of a page.
    pub shared_out_bytes: u64,
    /// The resident bytes in huge pages.
    pub huge_bytes: u64,
    /// The ranges of [`ResidentArea::range`] that are not resident, rising; none if they are not known.
    pub holes: Vec<Range<u64>>,
}

impl ResidentArea {
    /// Returns whether blocks of `malloc` may be in it, and what a program mapped. The kernel may make one mapping of these and a
    /// thread's stack.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        match self.kind {
            AreaKind::Anonymous | AreaKind::Malloc | AreaKind::Shared => true,
            AreaKind::Stack => {
                self.name.is_empty() && self.range.end.saturating_sub(self.range.start) > STACK_BYTES
            }
            _ => false,
        }
    }

    /// Returns the bytes of a range that are resident, as far as the holes are known.
    #[must_use]
    pub fn resident_of(&self, range: &Range<u64>) -> u64 {
        let within = |part: &Range<u64>| {
            let (start, end) = (part.start.max(range.start), part.end.min(range.end));
            end.saturating_sub(start)
        };
        let first = self.holes.partition_point(|hole| hole.end <= range.start);
        let meeting = self.holes[first..].iter().take_while(|hole| hole.start < range.end);
        within(&self.range).saturating_sub(meeting.map(within).sum())
    }
}

/// What a group of processes (a cgroup) may have and has of the host's memory, as the kernel counts it: this is what its
/// killer looks at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize)]
pub struct GroupReport {
    /// The bytes that it has.
    pub used_bytes: u64,
    /// The most that it had so far; `None` where the kernel does not say.
    pub peak_bytes: Option<u64>,
    /// The most that it may have; `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// The bytes of files that are cached, which the kernel can give up.
    pub cache_bytes: u64,
    /// The bytes of shared memory, which it cannot.
    pub shared_bytes: u64,
    /// The bytes of the kernel's own: page tables, sockets, directory entries.
    pub kernel_bytes: u64,
    /// How many of its processes the kernel killed because of the limit.
    pub n_killed: u64,
}

/// What the kernel says of a process's resident memory at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResidentReport {
    /// The device that is the heap of the process.
    pub device: DeviceId,
    /// Microseconds since the Unix epoch, on the clock of the events.
    pub time_us: u64,
    /// The resident bytes: the sum over the areas.
    pub resident_bytes: u64,
    /// The most resident bytes so far.
    pub peak_bytes: u64,
    /// The bytes that are swapped out.
    pub swapped_bytes: u64,
    /// The bytes of the machine's memory.
    pub machine_bytes: u64,
    /// The bytes that the recorder has of the program's `malloc`, and those of freed blocks that `malloc` keeps.
    pub recorder_bytes: u64,
    /// What the process's group has; `None` without one.
    pub group: Option<GroupReport>,
    /// The areas, rising; those without a place come last.
    pub areas: Vec<ResidentArea>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_resident() {
        let area =
            ResidentArea { range: 100..200, holes: vec![110..120, 150..160], ..ResidentArea::default() };
        let of = |range| area.resident_of(&range);
        assert_eq!((of(0..1000), of(100..110), of(105..115), of(110..120)), (80, 10, 5, 0));
        assert_eq!((of(119..151), of(155..165), of(200..300), of(0..50)), (30, 5, 0, 0));
    }

    #[test]
    fn names_come_back() {
        assert!(AreaKind::ALL.into_iter().all(|kind| AreaKind::of_name(kind.name()) == Some(kind)));
        assert_eq!(AreaKind::of_name("heap"), None);
    }
}
