//! Parses a compiled function's name, as a C++ or Rust demangler prints it.
//!
//! A name may be as long as its file: each character is read only a few times, whatever the name.

use std::iter;

/// A function's name without arguments.
///
/// ```
/// use memreel::analysis::FunctionName;
///
/// let name = FunctionName::of("at::Tensor at::empty(long)::{lambda(int)#1}::operator()(int) const");
/// assert_eq!(name.path, "at::empty");
/// assert_eq!(name.text, "at::Tensor at::empty::{lambda#1}::operator()");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FunctionName {
    /// The whole name, with the return type.
    pub text: String,
    /// The namespaces and the name, without the return type and anything after the first arguments.
    pub path: String,
}

impl FunctionName {
    /// Finds the name in the text of a frame.
    #[must_use]
    pub fn of(frame: &str) -> FunctionName {
        let (mut text, mut end) = (String::new(), None);
        let mut pieces = Pieces::of(frame);
        while let Some(piece) = pieces.next() {
            let is_type = || text.is_empty() || text.trim_end().ends_with("decltype");
            if piece.text != "(" || is_type() || piece.depth != usize::from(text.ends_with("{lambda")) {
                text += piece.text;
                continue;
            }
            pieces.find(|close| close.depth == piece.depth && close.text == ")");
            let rest = frame[pieces.at..].trim_start_matches(" const").trim_start_matches([' ', '&']);
            if piece.depth == 0 {
                end.get_or_insert(text.len());
            }
            // `f(int)::{lambda(int)#1}`: the arguments of the enclosing function, and those of a lambda.
            if !rest.starts_with("::") && !rest.starts_with('#') {
                break;
            }
            pieces.at = frame.len() - rest.len();
        }
        text.truncate(text.trim_end().len());
        let path = match end {
            Some(end) => words(&text[..end.min(text.len())]).last(),
            None => words(&text).find(|word| !word.is_empty()),
        };
        FunctionName { path: path.unwrap_or_default().to_owned(), text }
    }

    /// Returns the text if it fits; otherwise without the namespaces in its brackets, and then without type parameters.
    #[must_use]
    pub fn shortened(self, fits: impl Fn(&str) -> bool) -> String {
        let shorten = |name: String, by: fn(&str) -> String| if fits(&name) { name } else { by(&name) };
        shorten(shorten(self.text, without_inner_namespaces), without_type_parameters)
    }

    /// Returns the parts of a name after its namespaces: `::b<c::d>::e` and `::e` of `a::b<c::d>::e`.
    pub fn endings(name: &str) -> impl Iterator<Item = &str> {
        Pieces::of(name).filter(|piece| piece.is("::")).map(|piece| &name[piece.at..])
    }

    /// Returns whether the function is in one of these namespaces, given as prefixes of its path. A trait method,
    /// `<train::Net as core::ops::Drop>::drop`, is in one if both the type and the trait are.
    pub(super) fn begins_with(&self, texts: &[&str]) -> bool {
        let begins = |path: &str| texts.iter().any(|text| path.starts_with(text));
        let Some(inside) = self.path.strip_prefix('<') else { return begins(&self.path) };
        let close = Pieces::of(&self.path).find(|piece| piece.is(">"));
        let inside = close.map_or(inside, |close| &self.path[1..close.at]);
        // A parameter such as `F` has no namespace.
        let mut paths = words(inside).map(head).filter(|path| path.contains("::")).peekable();
        paths.peek().is_some() && paths.all(begins)
    }
}

/// Turns `<core::iter::Map<I, F> as core::iter::Iterator>::next` into `<Map<I, F> as Iterator>::next`.
fn without_inner_namespaces(name: &str) -> String {
    let (mut kept, mut word) = (String::new(), 0);
    for Piece { text, depth, .. } in Pieces::of(name) {
        if depth > 0 && text == "::" {
            kept.truncate(word);
            continue;
        }
        kept += text;
        if text.len() == 1 && !text.contains(|c: char| c.is_alphanumeric() || "_{}#$".contains(c)) {
            word = kept.len();
        }
    }
    kept
}

/// Turns `f<int, float>` into `f<…>`; keeps the brackets of `<T as Trait>::f`, which follow no name.
fn without_type_parameters(name: &str) -> String {
    let mut kept = String::new();
    let mut pieces = Pieces::of(name);
    while let Some(Piece { text, depth, .. }) = pieces.next() {
        let are_types = text == "<" && kept.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
        kept += if are_types { "<…>" } else { text };
        if are_types {
            pieces.find(|piece| piece.depth == depth && piece.text == ">");
        }
    }
    kept
}

/// Returns the parts of a text between the spaces outside brackets; `operator bool` is one word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let (mut from, mut is_operator) = (0, false);
    let spaces = Pieces::of(text).filter(move |piece| {
        is_operator |= piece.depth == 0 && piece.text.starts_with(OPERATOR);
        piece.is(" ") && !is_operator
    });
    spaces.map(|space| space.at).chain(iter::once(text.len())).map(move |end| {
        let word = &text[from..end];
        from = end + 1;
        word
    })
}

/// Returns the namespaces and the name of a type: `core::ops::Fn` of `&dyn core::ops::Fn<()>`.
fn head(of_type: &str) -> &str {
    let path = of_type.trim_start_matches(['<', '&', '*', '[', '(']);
    path.split(['<', '(', ']', ',']).next().unwrap_or(path)
}

/// A character of a name, or several that belong together: `::`, `->`, `operator()`, `(anonymous namespace)`.
struct Piece<'a> {
    at: usize,
    text: &'a str,
    /// The number of brackets around it.
    depth: usize,
}

impl Piece<'_> {
    /// Returns whether it has this text and is in no brackets.
    fn is(&self, text: &str) -> bool {
        self.depth == 0 && self.text == text
    }
}

struct Pieces<'a> {
    name: &'a str,
    at: usize,
    depth: usize,
    /// The position of the last `)`, after which none is searched for.
    last_close: usize,
}

impl<'a> Pieces<'a> {
    fn of(name: &'a str) -> Pieces<'a> {
        Pieces { name, at: 0, depth: 0, last_close: name.rfind(')').unwrap_or(0) }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let (at, rest) = (self.at, &self.name[self.at..]);
        let whole = whole(rest, &self.name[..at], at < self.last_close);
        let length = whole.or_else(|| Some(rest.chars().next()?.len_utf8()))?;
        let text = &rest[..length];
        self.at += length;
        self.depth -= usize::from(self.depth > 0 && matches!(text, ">" | ")" | "]" | "}"));
        let piece = Piece { at, text, depth: self.depth };
        self.depth += usize::from(matches!(text, "<" | "(" | "[" | "{"));
        Some(piece)
    }
}

const OPERATOR: &str = "operator";

/// Returns the length of a piece of several characters; `has_close` is whether the rest contains a `)`.
fn whole(rest: &str, before: &str, has_close: bool) -> Option<usize> {
    if rest.starts_with("::") || rest.starts_with("->") {
        return Some(2);
    }
    if has_close && rest.starts_with("(anonymous") {
        return rest.find(')').map(|end| end + 1);
    }
    let is_inside_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let symbol = rest.strip_prefix(OPERATOR).filter(|_| !is_inside_word)?;
    let n = symbol.find(|c: char| !"<>=-+*/%&|^!~,".contains(c)).unwrap_or(symbol.len());
    let length = match &symbol[..n] {
        "" if symbol.starts_with("()") || symbol.starts_with("[]") => 2,
        "<" | "<<" => n,
        // `operator+<int>`
        text => text.strip_suffix('<').unwrap_or(text).len(),
    };
    Some(OPERATOR.len() + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_types_and_no_arguments() {
        let cases = [
            ("main", "main"),
            ("_start", "_start"),
            ("operator new(unsigned long)", "operator new"),
            ("at::detail::empty_cuda(c10::ArrayRef<long>, bool)", "at::detail::empty_cuda"),
            (
                "std::vector<at::Tensor> at::native::each<float>(c10::ArrayRef<long>)",
                "at::native::each<float>",
            ),
            ("decltype(auto) c10::call(int) const", "c10::call"),
            ("bool at::gemm<float>(char) [clone .cold]", "at::gemm<float>"),
            ("at::(anonymous namespace)::wrapper_empty(int)", "at::(anonymous namespace)::wrapper_empty"),
            ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()"),
            ("A::operator bool() const", "A::operator bool"),
            ("S& std::operator<< <char>(S&, char)", "std::operator<< <char>"),
            ("S std::operator+<char>(S, char)", "std::operator+<char>"),
            ("f(int)::{lambda(int)#1}::operator()(int) const", "f"),
            ("train::run::<fn(usize) -> (u8, u8)>", "train::run::<fn(usize) -> (u8, u8)>"),
            ("std::rt::lang_start::{{closure}}", "std::rt::lang_start::{{closure}}"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(FunctionName::of(text).path, expected, "{text}");
        }
    }

    #[test]
    fn a_method_is_of_its_type_and_its_trait() {
        let is_standard = |name| FunctionName::of(name).begins_with(&["core::", "alloc::", "std::"]);
        for name in [
            "core::ops::function::FnOnce::call_once",
            "<F as core::ops::function::FnOnce<()>>::call_once",
            "<fn() -> core::result::Result<(), E> as core::ops::function::FnOnce<()>>::call_once",
            "<&dyn core::ops::function::Fn<(), Output = i32> + core::marker::Sync as core::ops::FnOnce<()>>::call",
            "<std::sys::thread::unix::Thread>::new::thread_start",
            "<alloc::vec::Vec<train::Net> as core::ops::drop::Drop>::drop",
        ] {
            assert!(is_standard(name), "{name}");
        }
        for name in [
            "train::core::run",
            "<train::Net as core::ops::drop::Drop>::drop",
            "<alloc::vec::Vec<u8> as train::Layer>::forward",
            "<T as Layer>::forward",
            "<",
        ] {
            assert!(!is_standard(name), "{name}");
        }
    }
}
