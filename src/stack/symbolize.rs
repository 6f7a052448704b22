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
        all[n_ours(&all)..].to_vec()
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

/// How many frames at the top are the recorder's own.
///
/// Between memreel's frames the standard library may stand (a closure handed
/// to `Option::map`), and behind them too (the drop of a memreel handle). So
/// the top ends with the last frame that names memreel before the first one
/// that is neither memreel's nor the library's, and with the `drop` that the
/// program called.
fn n_ours(frames: &[Symbol]) -> usize {
    let top = frames
        .iter()
        .take_while(|frame| is_of(&frame.name, &["memreel", "backtrace", "core", "alloc", "std"]));
    let ours = top.enumerate().filter(|(_, frame)| {
        is_of(&frame.name, &["memreel", "backtrace"]) || frame.name.contains("memreel::")
    });
    let n = ours.last().map_or(0, |(index, _)| index + 1);
    n + frames[n..].iter().take_while(|frame| n > 0 && &*frame.name == "core::mem::drop").count()
}

/// Whether a function, or the type it belongs to, is of one of these crates.
fn is_of(name: &str, crates: &[&str]) -> bool {
    let path =
        name.trim_start_matches(['<', '&', '*', '[']).trim_start_matches("mut ").trim_start_matches("const ");
    let path = path.trim_start_matches("dyn ");
    crates.iter().any(|root| path.strip_prefix(root).is_some_and(|rest| rest.starts_with("::")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_ours_of(names: &[&str]) -> usize {
        let symbol = |name: &&str| Symbol { name: (*name).into(), filename: "??".into(), line: 0 };
        n_ours(&names.iter().map(symbol).collect::<Vec<_>>())
    }

    #[test]
    fn the_top_ends_where_the_program_begins() {
        let alloc =
            ["backtrace::trace", "memreel::stack::capture", "memreel::alloc", "train::forward", "memreel::x"];
        assert_eq!(n_ours_of(&alloc), 3, "later frames of our own stay");
        let closure = ["memreel::a::{{closure}}", "core::option::Option<T>::map", "memreel::b", "app::main"];
        assert_eq!(n_ours_of(&closure), 3);
        let dropped = [
            "<memreel::allocator::Allocation as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<memreel::allocator::Allocation>",
            "<alloc::rc::Rc<T,A> as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place<memreel::buffer::Buffer<f32>>",
            "core::ptr::drop_in_place<train::Layer>",
            "train::backward",
        ];
        assert_eq!(n_ours_of(&dropped), 4, "the drop of the program's own type stays");
        assert_eq!(n_ours_of(&["memreel::free", "core::mem::drop", "app::main"]), 2);
        assert_eq!(n_ours_of(&["core::mem::drop", "app::main"]), 0);
        assert_eq!(n_ours_of(&["memreel_app::main", "memreel::alloc"]), 0, "another crate of a longer name");
        assert_eq!(n_ours_of(&["core::ops::call_once", "app::main"]), 0);
    }

    #[test]
    fn an_address_without_a_name_is_a_number() {
        let frames = Symbolizer::default().frames(&[0x10]);
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].name, &*frames[0].filename, frames[0].line), ("0x10", "??", 0));
    }
}
