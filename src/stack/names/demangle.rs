//! Demangles names.
#![forbid(unsafe_code)]

use std::fmt::{self, Write};

/// The longest name. A name that would become longer remains mangled: a few bytes of C++ can become gigabytes.
const MAX_NAME_BYTES: usize = 64 << 10;

/// Returns the name of a function: in Rust (both manglings) without its hash, in C++ with its parameters, in other
/// languages unchanged.
pub(super) fn demangle(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    rust(&text).or_else(|| cplusplus(&text)).unwrap_or_else(|| text.into_owned())
}

fn rust(text: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(text).ok()?;
    let mut out = Bounded::default();
    write!(out, "{name:#}").ok()?;
    Some(out.0)
}

fn cplusplus(text: &str) -> Option<String> {
    // On macOS every symbol has one more underscore.
    let is_mangled = ["_Z", "__Z", "_GLOBAL_"].iter().any(|start| text.starts_with(start));
    let symbol = is_mangled.then(|| cpp_demangle::Symbol::new(text.as_bytes()).ok())??;
    let mut out = Bounded::default();
    symbol.structured_demangle(&mut out, &cpp_demangle::DemangleOptions::new()).ok()?;
    Some(out.0)
}

/// A text that does not grow beyond [`MAX_NAME_BYTES`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_NAME_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_has_its_names() {
        let cases = [
            ("_ZN5train7forward17h0123456789abcdefE", "train::forward"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
            ("_ZN5train7forward17h0123456789abcdefE.llvm.123456", "train::forward"),
            ("_ZN2at6native6conv2dEi", "at::native::conv2d(int)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_Z3foov.cold", "foo() [clone .cold]"),
            ("malloc", "malloc"),
            ("forward<f32>", "forward<f32>"),
            ("_Znot mangled", "_Znot mangled"),
            ("", ""),
        ];
        for (raw, name) in cases {
            assert_eq!(demangle(raw.as_bytes()), name);
        }
        assert_eq!(demangle(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_mangled() {
        // f(x, t<x, x>, t<t<x, x>, t<x, x>>, ...): each parameter doubles the previous one.
        let mut raw = String::from("_Z1f1x1tIS_S_E");
        for last in b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
            let last = char::from(*last);
            raw.push_str(&format!("S0_IS{last}_S{last}_E"));
        }
        assert_eq!(demangle(raw.as_bytes()), raw);
        let short = demangle(&raw.as_bytes()[..25]);
        assert_eq!(short, "f(x, t<x, x>, t<t<x, x>, t<x, x> >)", "the same name, but of three parameters");
    }
}
