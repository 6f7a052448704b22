//! Text that copies PyTorch's `_memory_viz.py` byte for byte: sizes, and entries as Python's `repr` prints them.

#![forbid(unsafe_code)]

use std::fmt::{self, Write};

use memreel_snapshot::{
    Snapshot,
    model::{
        TraceEntry, Value,
        raw::{FieldRef, Record, Slot},
    },
};

/// Prints a size with one decimal, as PyTorch's tool does (docs/snapshot-format.md 4.1).
///
/// `memreel stats`, `trace` and `trace --pytorch` print sizes this way.
pub(crate) struct TorchSize(pub(crate) f64);

impl TorchSize {
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn new(bytes: u64) -> TorchSize {
        TorchSize(bytes as f64)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn from_sum(bytes: i128) -> TorchSize {
        TorchSize(bytes as f64)
    }
}

impl fmt::Display for TorchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.0;
        for unit in ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi"] {
            if number.abs() < 1024.0 {
                return write!(f, "{number:.1}{unit}B");
            }
            number /= 1024.0;
        }
        write!(f, "{number:.1}YiB")
    }
}

/// Returns an entry as Python prints its dictionary.
pub(crate) fn repr_entry(snapshot: &Snapshot, entry: &TraceEntry) -> String {
    let mut text = String::new();
    repr_record(snapshot, entry, &mut text);
    text
}

/// Prints a record as Python prints its dictionary, in the order of its file.
fn repr_record(snapshot: &Snapshot, record: &impl Record, text: &mut String) {
    text.push('{');
    for (at, (key, slot)) in snapshot.shapes.get(record.shape()).slots.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        repr_text(key, text);
        text.push_str(": ");
        match slot {
            Slot::Value(value) => repr(value, text),
            Slot::Field(field) => repr_field(snapshot, record.field(*field), text),
        }
    }
    text.push('}');
}

fn repr_field(snapshot: &Snapshot, field: FieldRef<'_>, text: &mut String) {
    match field {
        FieldRef::Uint(int) => put(text, int),
        FieldRef::Int(int) => put(text, int),
        FieldRef::Bool(bool) => put(text, if bool { "True" } else { "False" }),
        FieldRef::Word(word) => repr_text(word.name(), text),
        FieldRef::Pool(pool) => put(text, format_args!("({}, {})", pool.graph, pool.user)),
        FieldRef::Text(string) => repr_text(string, text),
        FieldRef::Stack(stack) => repr_list(snapshot, snapshot.frames(stack), text),
        FieldRef::Blocks(blocks) => repr_list(snapshot, blocks.iter(), text),
        // A field of a kind that this release does not have.
        _ => text.push_str("None"),
    }
}

fn repr_list<'a, R: Record + 'a>(snapshot: &Snapshot, all: impl Iterator<Item = &'a R>, text: &mut String) {
    text.push('[');
    for (at, record) in all.enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        repr_record(snapshot, record, text);
    }
    text.push(']');
}

fn put(text: &mut String, what: impl fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{what}");
}

/// Recursion is bounded, because the reader bounds the nesting of values.
fn repr(value: &Value, text: &mut String) {
    match value {
        Value::None => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        Value::Int(int) => put(text, int),
        Value::Big(bytes) => put(text, Hexadecimal(bytes)),
        Value::Float(float) => repr_float(*float, text),
        Value::Text(string) => repr_text(string, text),
        Value::Bytes(bytes) => put(text, format_args!("b'{}'", bytes.escape_ascii())),
        Value::List(all) => repr_all(all, ["[", "]"], text),
        Value::Tuple(all) => repr_all(all, ["(", if all.len() == 1 { ",)" } else { ")" }], text),
        Value::Dict(pairs) => {
            text.push('{');
            for (at, (key, value)) in pairs.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                repr(key, text);
                text.push_str(": ");
                repr(value, text);
            }
            text.push('}');
        }
    }
}

fn repr_all(all: &[Value], [open, close]: [&str; 2], text: &mut String) {
    text.push_str(open);
    for (at, value) in all.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        repr(value, text);
    }
    text.push_str(close);
}

/// Prints an integer beyond 64 bits in hexadecimal. No snapshot of PyTorch has one.
struct Hexadecimal<'a>(&'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Prints the shortest digits that read back as the same number, laid out as Python does.
fn repr_float(float: f64, text: &mut String) {
    if !float.is_finite() {
        let sign = if float < 0.0 { "-" } else { "" };
        return put(text, format_args!("{sign}{}", if float.is_nan() { "nan" } else { "inf" }));
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        put(text, format_args!("{digits}e{sign}{:02}", exponent.abs()));
    } else {
        put(text, format_args!("{float:?}"));
    }
}

/// Quotes a text: with single quotes, unless it has single and no double ones.
fn repr_text(string: &str, text: &mut String) {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for c in string.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == quote => put(text, format_args!("\\{c}")),
            c if is_printable(c) => text.push(c),
            c if u32::from(c) < 0x100 => put(text, format_args!("\\x{:02x}", u32::from(c))),
            c if u32::from(c) < 0x1_0000 => put(text, format_args!("\\u{:04x}", u32::from(c))),
            c => put(text, format_args!("\\U{:08x}", u32::from(c))),
        }
    }
    text.push(quote);
}

/// Whether Python prints a character as itself. `escape_debug` would escape a combining character at the
/// beginning of a text, so one is put before it.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let two = format!("a{c}");
    two.escape_debug().to_string() == two
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_tool() {
        let cases = [
            (0.0, "0.0B"),
            (1023.96, "1024.0B"),
            (1_048_575.0, "1024.0KiB"),
            (-2048.0, "-2.0KiB"),
            (999_999_999_999_999.0, "909.5TiB"),
            (1_208_925_819_614_629_174_706_176.0, "1.0YiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(TorchSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let int = |n| Value::Int(n);
        let cases = [
            (Value::None, "None"),
            (Value::Bool(true), "True"),
            (Value::Float(1.0), "1.0"),
            (Value::Float(-0.0), "-0.0"),
            (Value::Float(0.1), "0.1"),
            (Value::Float(1e16), "1e+16"),
            (Value::Float(123_456_789.125), "123456789.125"),
            (Value::Float(9_999_999_999_999_998.0), "9999999999999998.0"),
            (Value::Float(1.5e-5), "1.5e-05"),
            (Value::Float(0.0001), "0.0001"),
            (Value::Float(f64::NAN), "nan"),
            (Value::text("it's"), "\"it's\""),
            (Value::text("it's \"so\""), "'it\\'s \"so\"'"),
            (Value::text("a\n\u{1b}\\é\u{200b}"), "'a\\n\\x1b\\\\é\\u200b'"),
            (Value::Tuple(vec![int(1)].into()), "(1,)"),
            (Value::List(vec![int(1), int(-2)].into()), "[1, -2]"),
            (
                Value::dict([("a", int(0)), ("b", Value::Tuple(vec![int(0), int(1)].into()))]),
                "{'a': 0, 'b': (0, 1)}",
            ),
        ];
        for (value, expected) in cases {
            let mut text = String::new();
            repr(&value, &mut text);
            assert_eq!(text, expected);
        }
    }
}
