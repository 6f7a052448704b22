//! The name of a compiled function, within the text that a demangler makes of it.

/// The name of a function with its namespaces, without the type that it returns and without arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FunctionName<'a>(pub(super) &'a str);

impl<'a> FunctionName<'a> {
    /// Finds the name in a text: `at::native::empty` in `at::Tensor at::native::empty(long) const`.
    pub(super) fn of(text: &'a str) -> FunctionName<'a> {
        if text.starts_with("operator ") {
            return FunctionName(text.split('(').next().unwrap_or(text));
        }
        let (mut first, mut found) = (None, None);
        for word in Words(text) {
            first = first.or(Some(word));
            if let Some(end) = arguments(word) {
                found = Some(&word[..end]);
            }
        }
        FunctionName(found.or(first).unwrap_or_default())
    }

    /// Returns whether the function is in one of these namespaces, given as beginnings of its name. A method
    /// of a trait, `<train::Net as core::ops::Drop>::drop`, is in one if both the type and the trait are.
    pub(super) fn begins_with(self, texts: &[&str]) -> bool {
        let begins = |path: &str| texts.iter().any(|text| path.starts_with(text));
        let Some(inside) = self.0.strip_prefix('<') else { return begins(self.0) };
        let mut depth = 0_usize;
        let end = inside.char_indices().find(|(at, c)| {
            let is_end = depth == 0 && *c == '>' && !inside[..*at].ends_with('-');
            depth = deeper(depth, *c, &inside[..*at]);
            is_end
        });
        let inside = &inside[..end.map_or(inside.len(), |(at, _)| at)];
        // A parameter such as `F` has no namespace.
        let mut paths = Words(inside).map(head).filter(|path| path.contains("::")).peekable();
        paths.peek().is_some() && paths.all(begins)
    }
}

/// The parts of a text between the spaces that are in no brackets.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let mut depth = 0_usize;
        let end = text.char_indices().find(|(at, c)| {
            depth = deeper(depth, *c, &text[..*at]);
            depth == 0 && *c == ' '
        });
        let end = end.map_or(text.len(), |(at, _)| at);
        self.0 = &text[end..];
        (end > 0).then(|| &text[..end])
    }
}

/// Returns where the arguments of a function begin; `(anonymous namespace)` and `operator()` are names.
fn arguments(word: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let found = word.char_indices().find(|(at, c)| {
        let before = &word[..*at];
        let is_name =
            before.is_empty() || before.ends_with("operator") || word[*at..].starts_with("(anonymous");
        let is_found = depth == 0 && *c == '(' && !is_name;
        depth = deeper(depth, *c, before);
        is_found
    });
    found.map(|(at, _)| at)
}

/// Returns the depth of brackets behind a character.
fn deeper(depth: usize, c: char, before: &str) -> usize {
    match c {
        '<' | '(' | '[' | '{' => depth + 1,
        // `->` is an arrow.
        '>' if before.ends_with('-') => depth,
        '>' | ')' | ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// Returns the namespaces and the name of a type: `core::ops::Fn` of `&dyn core::ops::Fn<()>`.
fn head(of_type: &str) -> &str {
    let path = of_type.trim_start_matches(['<', '&', '*', '[', '(']);
    path.split(['<', '(', ']', ',']).next().unwrap_or(path)
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
            ("f(int)::{lambda(int)#1}::operator()(int) const", "f"),
            ("train::run::<fn(usize) -> (u8, u8)>", "train::run::<fn(usize) -> (u8, u8)>"),
            ("std::rt::lang_start::{{closure}}", "std::rt::lang_start::{{closure}}"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(FunctionName::of(text).0, expected, "{text}");
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
