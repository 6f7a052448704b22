//! Names of C++ and Rust functions for a column: without arguments, and short.

#![forbid(unsafe_code)]

use crate::{
    fit::{char_columns, columns, ending, fits, shortened},
    text::clean,
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
    let mut name = without_arguments(&clean(name));
    for shorten in [without_inner_paths, without_inner_types] {
        if !fits(&name, room) {
            name = shorten(&name);
        }
    }
    if !fits(&name, room) {
        name = without_outer_path(&name, room);
    }
    name
}

/// Removes the arguments. Text inside other brackets is kept; `operator()` and `(anonymous namespace)` are names.
fn without_arguments(name: &str) -> String {
    let mut kept = String::new();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        if let Some(length) = word(rest, &kept) {
            kept += &rest[..length];
            at += length;
            continue;
        }
        if c == '(' && depth == 0 && !kept.is_empty() {
            // `f(int)::{lambda(int)#1}`: the arguments of the enclosing function.
            let Some(end) = after_arguments(rest) else { break };
            at += end;
            continue;
        }
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' if !kept.ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        kept.push(c);
        at += c.len_utf8();
    }
    // The whole name may be in brackets.
    if kept.trim().is_empty() { name.to_owned() } else { kept.trim_end().to_owned() }
}

/// Returns the length of a word that is kept whole although it has brackets in it.
fn word(rest: &str, before: &str) -> Option<usize> {
    const ANONYMOUS: &str = "(anonymous";
    if rest.starts_with(ANONYMOUS) {
        return rest.find(')').map(|end| end + 1);
    }
    let is_inside_a_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let symbol = rest.strip_prefix("operator").filter(|_| !is_inside_a_word)?;
    let length = match symbol {
        _ if symbol.starts_with("()") || symbol.starts_with("[]") => 2,
        _ => symbol.find(|c: char| !"<>=-+*/%&|^!~,".contains(c)).unwrap_or(symbol.len()),
    };
    Some("operator".len() + length)
}

/// Returns the length of arguments, if the name goes on after them.
fn after_arguments(rest: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth > 1 => depth -= 1,
            ')' => {
                let after = &rest[at + 1..];
                let next = after.trim_start_matches(" const").trim_start_matches([' ', '&']);
                let goes_on = next.starts_with("::") || next.starts_with('#');
                return goes_on.then(|| rest.len() - next.len());
            }
            _ => {}
        }
    }
    None
}

/// Turns `<core::iter::Map<I, F> as core::iter::Iterator>::next` into `<Map<I, F> as Iterator>::next`.
fn without_inner_paths(name: &str) -> String {
    let mut kept = String::new();
    let (mut depth, mut word_from) = (0_usize, 0);
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if c == ':' && depth > 0 && chars.peek() == Some(&':') {
            chars.next();
            kept.truncate(word_from);
            continue;
        }
        depth = deeper(depth, c, &kept);
        kept.push(c);
        if !c.is_alphanumeric() && !matches!(c, '_' | '{' | '}' | '#' | '$') {
            word_from = kept.len();
        }
    }
    kept
}

/// Turns `f<int, float>` into `f<…>`; keeps the brackets of `<T as Trait>::f`, which follow no name.
fn without_inner_types(name: &str) -> String {
    let (mut kept, mut seen) = (String::new(), String::new());
    // The depth inside brackets that are removed.
    let mut depth = 0_usize;
    for c in name.chars() {
        let is_of_a_name = kept.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':'));
        if depth > 0 || c == '<' && is_of_a_name && !kept.ends_with("operator") {
            let now = deeper(depth, c, &seen);
            if depth == 0 {
                kept += "<…>";
            }
            depth = now;
        } else {
            kept.push(c);
        }
        seen.push(c);
    }
    kept
}

fn deeper(depth: usize, c: char, before: &str) -> usize {
    match c {
        '<' => depth + 1,
        '>' if !before.ends_with('-') => depth.saturating_sub(1),
        _ => depth,
    }
}

/// Keeps as much of the end of a path as fits: `…::Caching::malloc`.
fn without_outer_path(name: &str, room: usize) -> String {
    let (mut depth, mut before) = (0_usize, "");
    let mut left = columns(name);
    for (at, c) in name.char_indices() {
        depth = deeper(depth, c, before);
        before = &name[..at + c.len_utf8()];
        // A rest that is much shorter has too little of the name.
        let rest = left;
        left = left.saturating_sub(char_columns(c));
        if depth == 0 && name[at..].starts_with("::") && (room / 2..room).contains(&rest) {
            return format!("…{}", &name[at..]);
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
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
