//! Stack walks of other libraries, over the same stack.

use std::{arch::asm, fs, ops::Range};

use framehop::{
    ExplicitModuleSectionInfo, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use object::{Object, ObjectSection, ObjectSegment};

const MAX_DEPTH: usize = 128;

/// Walks the stack with `backtrace::trace` and returns the number of addresses.
pub(crate) fn trace() -> usize {
    let mut addresses = [0_usize; MAX_DEPTH];
    let mut n = 0;
    backtrace::trace(|frame| {
        addresses[n] = frame.ip().addr();
        n += 1;
        n < MAX_DEPTH
    });
    std::hint::black_box(&addresses);
    n
}

/// framehop with all files that are loaded now.
pub(crate) struct Framehop {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Framehop {
    /// Returns `None` if the kernel does not list the mapped files.
    pub(crate) fn new() -> Option<Framehop> {
        let mut unwinder = UnwinderX86_64::new();
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let mut paths: Vec<(&str, Range<u64>)> = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" /")) {
            let path = &line[line.find(" /")? + 1..];
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
            match paths.iter_mut().find(|(known, _)| *known == path) {
                Some((_, range)) => range.end = end,
                None => paths.push((path, start..end)),
            }
        }
        for (path, range) in paths {
            if let Some(module) = module(path, range) {
                unwinder.add_module(module);
            }
        }
        Some(Framehop { unwinder, cache: CacheX86_64::new() })
    }

    /// Walks the stack and returns the number of addresses.
    #[inline(never)]
    pub(crate) fn walk(&mut self) -> usize {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: three registers are read.
        unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
        }
        let mut addresses = [0_u64; MAX_DEPTH];
        let mut n = 0;
        // SAFETY: framehop reads words of this thread's stack, from its stack pointer outward.
        let mut read = |address: u64| Ok(unsafe { (address as *const u64).read_volatile() });
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut frames = self.unwinder.iter_frames(ip, registers, &mut self.cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            addresses[n] = frame.address();
            n += 1;
            if n == MAX_DEPTH {
                break;
            }
        }
        std::hint::black_box(&addresses);
        n
    }
}

/// Converts a loaded file into framehop's module.
fn module(path: &str, range: Range<u64>) -> Option<Module<Vec<u8>>> {
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let base = file.segments().map(|segment| segment.address()).min()?;
    let section = |name: &str| -> Option<(Range<u64>, Vec<u8>)> {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address() + section.size();
        Some((range, section.data().ok()?.to_vec()))
    };
    let (text_svma, text) = section(".text")?;
    let (eh_frame_svma, eh_frame) = section(".eh_frame")?;
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr")?;
    let sections = ExplicitModuleSectionInfo {
        base_svma: base,
        text_svma: Some(text_svma),
        text: Some(text),
        got_svma: section(".got").map(|(range, _)| range),
        eh_frame_svma: Some(eh_frame_svma),
        eh_frame: Some(eh_frame),
        eh_frame_hdr_svma: Some(eh_frame_hdr_svma),
        eh_frame_hdr: Some(eh_frame_hdr),
        ..ExplicitModuleSectionInfo::default()
    };
    let start = range.start;
    Some(Module::new(path.to_owned(), range, start, sections))
}
