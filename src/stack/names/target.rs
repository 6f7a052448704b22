//! Addresses to be named, by module.
#![forbid(unsafe_code)]

use std::{
    borrow::Cow,
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustc_hash::FxHashMap;

use super::{
    super::{
        intern::limits::TABLE_FULL,
        modules::{Life, Module},
    },
    debug_file::Arena,
    demangle::demangle,
    image::{self, Call, Place, Probe},
    symbol::Symbol,
    texts::Texts,
};
use crate::process::guard::Guard;

/// The number of addresses per thread. Every thread reads the index of a module's debug information again, which pays
/// off from this number on.
const ADDRESSES_A_THREAD: usize = 500;

/// An address of a stack, and the module that it was in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    life: Option<Arc<Life>>,
    address: usize,
    /// Whether this is the instruction after a call, as all are except those that a signal interrupted.
    pub(super) is_return: bool,
}

/// The key of a target: the module's number, the address, and how it is looked up.
pub(super) type Key = (Option<u32>, usize, bool);

/// The frames of one target, innermost first: at least one.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) symbols: Arc<[Symbol]>,
    pub(super) is_trampoline: bool,
}

impl Target {
    pub(super) fn of_call((address, life): (usize, Option<Arc<Life>>)) -> Target {
        Target { life, address, is_return: true }
    }

    pub(super) fn key(&self) -> Key {
        (self.life.as_ref().map(|life| life.number), self.address, self.is_return)
    }

    pub(super) fn module(&self) -> Option<&Module> {
        self.life.as_ref().map(|life| &life.module)
    }

    pub(super) fn is_of_same_module(&self, other: &Target) -> bool {
        self.key().0 == other.key().0
    }

    /// Returns the file name of the program or library.
    pub(super) fn library(&self) -> Option<Cow<'_, str>> {
        Some(self.module()?.path.file_name()?.to_string_lossy())
    }

    /// Returns the byte to look up: for a return address the byte before, because the address itself may belong to the
    /// next line or function.
    pub(super) fn probe(&self, module: &Module) -> Probe {
        let address = self.address.wrapping_sub(usize::from(self.is_return));
        Probe { offset: address.wrapping_sub(module.bias) as u64, is_return: self.is_return }
    }

    /// Returns the text for an address without a name: `libfoo.so+0x1234`, which `addr2line` accepts, or the plain
    /// address of code without a file (generated at run time, or the kernel's).
    fn number(&self) -> String {
        // On Windows too, a path in a tape has a root, but no drive that would make it absolute there.
        let file = self.module().filter(|module| module.path.has_root());
        match file.and_then(|module| Some((module, module.path.file_name()?))) {
            Some((module, name)) => {
                format!("{}+{:#x}", name.to_string_lossy(), self.address.wrapping_sub(module.bias))
            }
            None => format!("{:#x}", self.address),
        }
    }

    fn unnamed(&self) -> Named {
        let name = if self.address == TABLE_FULL { "stack table full".into() } else { self.number().into() };
        let symbol = Symbol { name, filename: "??".into(), line: 0 };
        Named { symbols: [symbol].into(), is_trampoline: false }
    }
}

/// Names sorted targets, in order, on as many threads as pay off.
pub(super) fn name_all(targets: &[Target]) -> Vec<Named> {
    // Querying the number of processors takes longer than the names of a short process.
    let n_threads = match targets.len() / ADDRESSES_A_THREAD {
        0 | 1 => 1,
        most => thread::available_parallelism().map_or(1, NonZero::get).min(most),
    };
    let by_module = targets.chunk_by(Target::is_of_same_module);
    let at_once = targets.len().div_ceil(n_threads).max(1);
    let parts: Vec<&[Target]> = by_module.flat_map(|targets| targets.chunks(at_once)).collect();
    let named: Vec<OnceLock<Vec<Named>>> = parts.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            // Relaxed: the threads began after the parts were made, and are joined before the names are read.
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(index) else { break };
            // No other thread has this index, so its slot is empty.
            let _ = named[index].set(name_module(part));
        }
    };
    thread::scope(|scope| {
        for _ in 1..n_threads {
            // The process's heap may be recorded, and this is the recorder's own work; the caller marks its own thread.
            let own_work = || {
                let _guard = Guard::enter();
                work();
            };
            // If this thread cannot start, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, own_work);
        }
        work();
    });
    named.into_iter().flat_map(|named| named.into_inner().unwrap_or_default()).collect()
}

/// Names targets of one module.
///
/// The readers of debug information promise not to panic. A recorder must not rely on that: if one panics, the module's
/// addresses remain numbers.
fn name_module(targets: &[Target]) -> Vec<Named> {
    let Some(module) = targets.first().and_then(Target::module) else {
        return targets.iter().map(name_without_module).collect();
    };
    catch_unwind(AssertUnwindSafe(|| read(module, targets)))
        .unwrap_or_else(|_| targets.iter().map(Target::unnamed).collect())
}

fn read(module: &Module, targets: &[Target]) -> Vec<Named> {
    let (arena, mut texts) = (Arena::default(), Texts::default());
    let probes: Vec<Probe> = targets.iter().map(|target| target.probe(module)).collect();
    let places = image::look_up(module, &probes, &arena, &mut |text| texts.share(text));
    let mut names = Names { known: FxHashMap::default(), unknown_file: texts.share("??") };
    targets.iter().zip(places).map(|(target, place)| names.name(target, place)).collect()
}

/// The names of one module's functions; each is demangled once.
struct Names<'a> {
    known: FxHashMap<&'a [u8], Arc<str>>,
    unknown_file: Arc<str>,
}

impl<'a> Names<'a> {
    fn name(&mut self, target: &Target, place: Place<'a>) -> Named {
        if place.calls.is_empty() {
            return Named { is_trampoline: place.is_trampoline, ..target.unnamed() };
        }
        let symbols = place.calls.into_iter().map(|call| self.symbol(target, call)).collect();
        Named { symbols, is_trampoline: place.is_trampoline }
    }

    fn symbol(&mut self, target: &Target, call: Call<'a>) -> Symbol {
        let name = match call.function {
            Some(raw) => self.known.entry(raw).or_insert_with(|| demangle(raw).into()).clone(),
            None => target.number().into(),
        };
        let filename = call.filename.unwrap_or_else(|| self.unknown_file.clone());
        Symbol { name, filename, line: call.line }
    }
}

/// Names a target by the `backtrace` crate: the loader's list is only read on 64-bit Linux.
fn name_without_module(target: &Target) -> Named {
    let mut symbols = Vec::new();
    if cfg!(not(all(target_os = "linux", target_pointer_width = "64"))) && target.address != TABLE_FULL {
        let address = std::ptr::without_provenance_mut::<std::ffi::c_void>(target.address);
        backtrace::resolve(address, |symbol| {
            symbols.push(Symbol {
                name: symbol.name().map_or_else(|| target.number(), |name| demangle(name.as_bytes())).into(),
                filename: symbol.filename().map_or("??".into(), |path| path.to_string_lossy()).into(),
                line: symbol.lineno().unwrap_or(0),
            });
        });
    }
    if symbols.is_empty() {
        target.unnamed()
    } else {
        Named { symbols: symbols.into(), is_trampoline: false }
    }
}
