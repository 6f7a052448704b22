//! Each address to its frames, once, when a snapshot is taken.

use std::{ffi::c_void, ptr, sync::Arc};

use rustc_hash::FxHashMap;

/// One call behind an address. An address has several where calls were inlined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Symbol {
    /// The function, demangled and without its hash.
    pub(crate) name: Arc<str>,
    /// The full path of its source, `"??"` when unknown.
    pub(crate) filename: Arc<str>,
    /// The line of the call, 0 when unknown.
    pub(crate) line: u32,
}

/// Names addresses and remembers them.
#[derive(Debug, Default)]
pub(crate) struct Symbolizer {
    known: FxHashMap<usize, Arc<[Symbol]>>,
}

impl Symbolizer {
    /// The frames of a stack, innermost first, without memreel's own at the top.
    pub(crate) fn frames(&mut self, addresses: &[usize]) -> Vec<Symbol> {
        let all: Vec<Symbol> = addresses.iter().flat_map(|address| self.resolve(*address).to_vec()).collect();
        let n_ours = all.iter().take_while(|symbol| is_ours(&symbol.name)).count();
        all[n_ours..].to_vec()
    }

    /// The frames behind one return address, innermost first.
    fn resolve(&mut self, address: usize) -> Arc<[Symbol]> {
        self.known.entry(address).or_insert_with(|| resolve(address)).clone()
    }
}

fn resolve(address: usize) -> Arc<[Symbol]> {
    let mut symbols = Vec::new();
    // `resolve` looks one byte before the address it is given, because a
    // return address may already belong to the next line or function.
    backtrace::resolve(ptr::without_provenance_mut::<c_void>(address), |symbol| {
        symbols.push(Symbol {
            name: symbol.name().map_or_else(|| unnamed(address), |name| format!("{name:#}")).into(),
            filename: symbol.filename().map_or("??".into(), |path| path.to_string_lossy()).into(),
            line: symbol.lineno().unwrap_or(0),
        });
    });
    if symbols.is_empty() {
        symbols.push(Symbol { name: unnamed(address).into(), filename: "??".into(), line: 0 });
    }
    symbols.into()
}

/// A failed name is an address.
fn unnamed(address: usize) -> String {
    format!("{address:#x}")
}

/// Whether a frame at the top of a stack is the recorder's own, or the
/// standard library working for it, such as the drop of a memreel handle.
fn is_ours(name: &str) -> bool {
    const LIBRARIES: [&str; 3] = ["core::", "alloc::", "std::"];
    let bare = name.trim_start_matches('<');
    let is = |root: &str| bare.starts_with(root);
    is("memreel::") || is("backtrace::") || (LIBRARIES.into_iter().any(is) && name.contains("memreel::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leading_frames_of_our_own_are_ours() {
        assert!(is_ours("memreel::allocator::CachingAllocator::alloc"));
        assert!(is_ours("<memreel::buffer::Buffer<f32> as core::clone::Clone>::clone"));
        assert!(is_ours("core::ptr::drop_in_place<memreel::allocator::Allocation>"));
        assert!(is_ours("backtrace::backtrace::trace_unsynchronized"));
        assert!(!is_ours("memreel_app::train"));
        assert!(!is_ours("train::forward"));
        assert!(!is_ours("core::ptr::drop_in_place<train::Model>"));
    }

    #[test]
    fn an_address_without_a_name_is_a_number() {
        let frames = Symbolizer::default().frames(&[0x10]);
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].name, &*frames[0].filename, frames[0].line), ("0x10", "??", 0));
    }
}
