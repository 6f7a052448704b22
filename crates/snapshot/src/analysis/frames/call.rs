//! Prints a call for people.

use std::fmt::{self, Write};

use super::function_name::FunctionName;
use crate::{model::Frame, words::paths::base_name};

/// The most characters of a name that are printed, because template names can fill a screen.
const NAME_CHARS: usize = 80;

/// Prints a frame in one line: the function without its arguments, its file without folders, and the line.
///
/// ```
/// use memreel::{analysis::Call, snapshot::Frame};
///
/// let mut frame = Frame { name: "net::forward(int)".into(), filename: "/src/net.cc".into(), ..Frame::default() };
/// frame.line = 7;
/// assert_eq!(Call(&frame).to_string(), "net::forward (net.cc:7)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Call<'a>(pub &'a Frame);

impl Call<'_> {
    /// Returns the file and the line in brackets; `None` if the frame has no file.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let file = base_name(&self.0.filename);
        match (file, self.0.line) {
            ("??" | "", _) => None,
            (_, 0) => Some(format!("({file})")),
            (_, line) => Some(format!("({file}:{line})")),
        }
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FunctionName::of(&self.0.name).path;
        // The end of a long name is printed, such as `…::Linear as Layer>::forward`.
        let n_left_out = name.chars().count().saturating_sub(NAME_CHARS);
        if n_left_out > 0 {
            f.write_char('…')?;
        }
        write_clean(name.chars().skip(n_left_out), f)?;
        match self.place() {
            Some(place) => {
                f.write_char(' ')?;
                write_clean(place.chars(), f)
            }
            None => Ok(()),
        }
    }
}

/// Writes text on one line: a control character could move a terminal's cursor.
fn write_clean(mut chars: impl Iterator<Item = char>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    chars.try_for_each(|c| f.write_char(if c.is_control() { '\u{fffd}' } else { c }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_one_line() {
        let frame = |name: &str, filename: &str, line| Frame {
            name: name.into(),
            filename: filename.into(),
            line,
            ..Frame::default()
        };
        for (name, filename, line, text) in [
            ("main", "/a/m.py", 3, "main (m.py:3)"),
            ("<module>", "/a/m.py", 0, "<module> (m.py)"),
            ("at::Tensor at::empty(long) const", "??", 0, "at::empty"),
            ("a\nb", "", 1, "a\u{fffd}b"),
        ] {
            assert_eq!(Call(&frame(name, filename, line)).to_string(), text);
        }
        let long = Call(&frame(&format!("{}::f", "a".repeat(200)), "", 0)).to_string();
        assert!(long.chars().count() == NAME_CHARS + 1 && long.ends_with("a::f"), "{long}");
    }
}
