//! Values that memreel preserves without interpreting them: settings, metadata, unknown keys.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeTuple},
};

/// A shared text. Thousands of entries hold the same few.
pub type Text = Arc<str>;

/// Anything that a snapshot may contain. Shared parts are also shared in memory.
///
/// Equality is that of the bytes: two NaNs of the same bits are equal, `0.0`
/// and `-0.0` are not. That makes values usable as keys of an interner.
#[derive(Clone, Debug)]
pub enum Value {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A larger integer: two's complement, least byte first, as pickles store it.
    Big(Arc<[u8]>),
    /// A double.
    Float(f64),
    /// A text.
    Text(Text),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<[Value]>),
    /// A tuple.
    Tuple(Arc<[Value]>),
    /// A dictionary in its own order.
    Dict(Arc<[(Value, Value)]>),
}

impl Value {
    /// Creates a text value.
    #[must_use]
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    /// Creates a dictionary with text keys, in the given order.
    #[must_use]
    pub fn dict<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
        Value::Dict(pairs.into_iter().map(|(key, value)| (Value::text(key), value)).collect())
    }

    /// Returns the integer, if it is one of at most 64 bits.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(int) = self { Some(*int) } else { None }
    }

    /// Returns the integer, if it is one of 0 to 2^64 - 1.
    #[must_use]
    pub fn as_unsigned(&self) -> Option<u64> {
        match self {
            Value::Int(int) => u64::try_from(*int).ok(),
            Value::Big(bytes) => {
                let (low, high) = bytes.split_first_chunk()?;
                // The byte after the eight is the sign; longer forms repeat it.
                let fits = !high.is_empty() && high.iter().all(|byte| *byte == 0);
                fits.then(|| u64::from_le_bytes(*low))
            }
            _ => None,
        }
    }

    /// Returns the text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the elements of a list or a tuple.
    #[must_use]
    pub fn as_elements(&self) -> Option<&[Value]> {
        if let Value::List(all) | Value::Tuple(all) = self { Some(all) } else { None }
    }

    /// Returns the value that a dictionary has for a text key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Dict(pairs) = self else { return None };
        pairs.iter().find(|(k, _)| k.as_text().is_some_and(|k| &**k == key)).map(|(_, v)| v)
    }

    /// Returns whether it holds other values.
    #[must_use]
    pub fn is_container(&self) -> bool {
        matches!(self, Value::List(_) | Value::Tuple(_) | Value::Dict(_))
    }

    /// Returns the name of its kind, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an int",
            Value::Big(_) => "an int wider than 64 bits",
            Value::Float(_) => "a float",
            Value::Text(_) => "a str",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "a list",
            Value::Tuple(_) => "a tuple",
            Value::Dict(_) => "a dict",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Big(a), Value::Big(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                Arc::ptr_eq(a, b) || a == b
            }
            (Value::Dict(a), Value::Dict(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// The whole value counts: a file chooses where its values differ. Readers count values that a file uses again and
/// again, so that all hashes together stay in proportion to the file.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::None => {}
            Value::Bool(bool) => bool.hash(state),
            Value::Int(int) => int.hash(state),
            Value::Float(float) => float.to_bits().hash(state),
            Value::Text(text) => text.hash(state),
            Value::Big(bytes) | Value::Bytes(bytes) => bytes.hash(state),
            Value::List(all) | Value::Tuple(all) => all.hash(state),
            Value::Dict(pairs) => pairs.hash(state),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => serializer.serialize_none(),
            Value::Bool(bool) => serializer.serialize_bool(*bool),
            Value::Int(int) => serializer.serialize_i64(*int),
            // JSON has no larger integer that every reader takes; the digits are kept as a text.
            Value::Big(bytes) => match self.as_unsigned() {
                Some(int) => serializer.serialize_u64(int),
                None => serializer.collect_str(&Hex(bytes)),
            },
            Value::Float(float) => serializer.serialize_f64(*float),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::List(all) => serializer.collect_seq(all.iter()),
            Value::Tuple(all) => {
                let mut tuple = serializer.serialize_tuple(all.len())?;
                all.iter().try_for_each(|value| tuple.serialize_element(value))?;
                tuple.end()
            }
            Value::Dict(pairs) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                pairs.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

/// A number of arbitrary size in hexadecimal, most significant byte first.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Value {
    /// Creates an integer that may need the 65th bit.
    #[must_use]
    pub fn unsigned(int: u64) -> Value {
        i64::try_from(int).map_or_else(
            |_| {
                let mut bytes = int.to_le_bytes().to_vec();
                bytes.push(0);
                Value::Big(bytes.into())
            },
            Value::Int,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use super::*;
    use crate::words::Seeded;

    /// Returns how many different hashes 1000 values have.
    fn n_hashes(value: impl Fn(i64) -> Value) -> usize {
        let hasher = Seeded::default();
        (0..1000).map(|at| hasher.hash_one(value(at))).collect::<HashSet<u64>>().len()
    }

    #[test]
    fn values_that_differ_late_have_hashes_of_their_own() {
        let late = |at| Value::List((0..16).chain([at]).map(Value::Int).collect());
        assert_eq!(n_hashes(late), 1000, "the seventeenth element");
        let deep = |at| (0..5).fold(Value::Int(at), |value, _| Value::Tuple([value].into()));
        assert_eq!(n_hashes(deep), 1000, "the fifth level");
        let middle = |at: i64| Value::text(&format!("{}{at:09}{}", "a".repeat(99), "b".repeat(99)));
        assert_eq!(n_hashes(middle), 1000, "the middle of a text");
        let bytes = |at: i64| Value::Bytes([[0; 99].as_slice(), &at.to_le_bytes(), &[0; 99]].concat().into());
        assert_eq!(n_hashes(bytes), 1000, "the middle of bytes");
    }

    /// As in the `history` of a block of PyTorch 2.0.
    #[test]
    fn histories_of_blocks_have_hashes_of_their_own() {
        let history = |address: i64| {
            Value::List([Value::dict([("addr", Value::Int(address)), ("real_size", Value::Int(512))])].into())
        };
        assert_eq!(n_hashes(history), 1000);
    }
}
