//! Shortens C++ and Rust names for a column, without arguments.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::FunctionName;

use super::{
    clean,
    fit::{columns, ending, fits, shortened},
};

/// Returns a name without its arguments and at most `room` columns wide. If [`plain`] is too long, a path loses its
/// beginning, and a word its middle.
pub(crate) fn short(name: &str, room: usize) -> String {
    let name = plain(name, room);
    if name.contains("::") { ending(&name, room) } else { shortened(&name, room) }
}

/// Returns a name without its arguments, and without what matters little if it is wider than `room` columns.
///
/// A name that is too long loses the paths of its types, then the parameters of its types, then its beginning:
/// the end of a name matters more, as in `<T as Trait>::method`.
pub(crate) fn plain(name: &str, room: usize) -> String {
    let name = FunctionName::of(&clean(name)).shortened(|name| fits(name, room));
    if fits(&name, room) {
        return name;
    }
    match rest(&name, room, columns) {
        Some(rest) => format!("…{rest}"),
        None => name,
    }
}

/// Returns the longest ending of a name that has fewer than `room` columns, if that is enough of the name.
fn rest(name: &str, room: usize, columns: impl Fn(&str) -> usize) -> Option<&str> {
    let endings: Vec<&str> = FunctionName::endings(name).collect();
    // Each is shorter than the one before, and a long name has too many to measure all.
    let rest = endings.get(endings.partition_point(|rest| columns(rest) >= room))?;
    (columns(rest) >= room / 2).then_some(rest)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::rest;

    const WIDTH: usize = 60;

    fn short(name: &str) -> String {
        super::short(name, WIDTH)
    }

    #[test]
    fn names_lose_their_arguments() {
        let cases = [
            ("forward", "forward"),
            ("<module>", "<module>"),
            ("<lambda>", "<lambda>"),
            ("Net.forward.<locals>.<listcomp>", "Net.forward.<locals>.<listcomp>"),
            ("(anonymous)", "(anonymous)"),
            ("a\u{1b}[2J", "a\u{fffd}[2J"),
            // C++
            ("at::native::empty(c10::ArrayRef<long>, bool)", "at::native::empty"),
            ("at::(anonymous namespace)::gemm(int)", "at::(anonymous namespace)::gemm"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("Functor::operator()(int) const", "Functor::operator()"),
            ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()"),
            ("Array::operator[](unsigned long)", "Array::operator[]"),
            ("operator<<(std::ostream&, int)", "operator<<"),
            ("Pointer::operator->() const", "Pointer::operator->"),
            ("Flag::operator bool() const", "Flag::operator bool"),
            ("my_operator(int)", "my_operator"),
            ("decltype(nullptr) call(int)", "decltype(nullptr) call"),
            ("f(int)::{lambda(float)#1}::operator()(float) const", "f::{lambda#1}::operator()"),
            ("A::f(void (*)(int)) const::{lambda()#2}::operator()() const", "A::f::{lambda#2}::operator()"),
            ("f()::$_0::operator()(int) const", "f::$_0::operator()"),
            ("f(int)::'lambda'(float)::operator()(float) const", "f::'lambda'::operator()"),
            ("void launch<int, (anonymous namespace)::F>(int)", "void launch<int, (anonymous namespace)::F>"),
            // Rust
            ("train::forward::{{closure}}", "train::forward::{{closure}}"),
            ("<(A, B) as train::Layer>::forward", "<(A, B) as train::Layer>::forward"),
            ("<[T] as Layer>::forward", "<[T] as Layer>::forward"),
            ("<alloc::vec::Vec<u8> as Layer>::forward", "<alloc::vec::Vec<u8> as Layer>::forward"),
            ("<fn(A) -> B as Layer>::forward", "<fn(A) -> B as Layer>::forward"),
            ("train::run::<fn(usize) -> (u8, u8)>", "train::run::<fn(usize) -> (u8, u8)>"),
            (
                "<F as core::ops::function::FnOnce<(A, B)>>::call_once",
                "<F as core::ops::function::FnOnce<(A, B)>>::call_once",
            ),
        ];
        for (name, expected) in cases {
            assert_eq!(short(name), expected, "{name}");
        }
    }

    #[test]
    fn few_endings_of_a_name_are_measured() {
        let (name, n_measured) = ("a::".repeat(10_000), Cell::new(0));
        let columns = |rest: &str| {
            n_measured.set(n_measured.get() + 1);
            rest.len()
        };
        assert_eq!(rest(&name, WIDTH, columns).map(str::len), Some(WIDTH - 1));
        assert!(n_measured.get() < 20, "{n_measured:?}");
    }

    #[test]
    fn long_names_keep_their_ends() {
        let cases = [
            (
                "<core::iter::adapters::map::Map<I,F> as core::iter::traits::iterator::Iterator>::next",
                "<Map<I,F> as Iterator>::next",
            ),
            (
                "void at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float>, at::native::Another<float> >(int)",
                "void at::native::gpu_kernel_impl_nocast<…>",
            ),
            (
                "<alloc::boxed::Box<dyn core::ops::FnOnce<(a::Quite, an::Amount, of::Arguments)>> as x::CallOnce>::call",
                "<Box<…> as CallOnce>::call",
            ),
        ];
        for (name, expected) in cases {
            assert_eq!(short(name), expected, "{name}");
        }
        let of = "<fn() -> core::result::Result<(), memreel_snapshot::Error>, core::result::Result<(), memreel_snapshot::Error>>";
        for path in ["__rust_begin_short_backtrace", "__rust_begin_short_backtrace::"] {
            let entry = format!("std::sys::backtrace::{path}{of}");
            assert_eq!(short(&entry), format!("std::sys::backtrace::{path}<…>"));
        }
        assert_eq!(
            short(&format!("{}::{}::last", "x".repeat(80), "y".repeat(40))),
            format!("…::{}::last", "y".repeat(40))
        );
        // A path with a long part, and a word.
        assert_eq!(short(&format!("{}::a::last", "x".repeat(80))), format!("…{}::a::last", "x".repeat(50)));
        assert_eq!(short(&format!("a::{}", "x".repeat(80))), format!("…{}", "x".repeat(59)));
        let long = short(&format!("a{}b", "x".repeat(80)));
        assert_eq!((long.chars().count(), long.starts_with("ax"), long.ends_with("xb")), (WIDTH, true, true));
        // Any text that a file can hold is shortened.
        for odd in [
            "",
            "(",
            "((((",
            "<<<<(",
            ">>>>(x)",
            "operator",
            "operator(",
            "(anonymous",
            "f(::",
            "::<",
            "ä(ö)",
        ] {
            let name = short(&odd.repeat(30));
            assert!(name.chars().count() <= WIDTH, "{odd}: {name}");
        }
    }
}
