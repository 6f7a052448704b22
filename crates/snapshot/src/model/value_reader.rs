//! Deserialises a value, with a bound on its memory if the text is untrusted.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use super::value::{Text, Value};
use crate::words::SeededSet;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Within(&Budget::unlimited()).deserialize(deserializer)
    }
}

/// The memory that the values of one text may take, proportional to the text, and the texts that its values share.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
    /// What the values since the last mark have taken.
    taken: Cell<usize>,
    /// Keys, actions and files are in a text again and again.
    texts: RefCell<SeededSet<Text>>,
}

/// The memory in bytes that the values of any text may take.
const FREE_BYTES: usize = 24 << 20;

/// The memory in bytes that they may take besides for each byte of the text.
const BYTES_OF_BYTE: usize = 3;

/// The most texts that values share, and the longest of them in bytes.
const MAX_SHARED: (usize, usize) = (1 << 16, 256);

impl Budget {
    pub(super) fn unlimited() -> Budget {
        Budget { left: Cell::new(usize::MAX), taken: Cell::default(), texts: RefCell::default() }
    }

    /// Takes the memory of a value whose text has at least this number of bytes.
    pub(super) fn take<E: de::Error>(&self, n_bytes: usize, of_text: usize) -> Result<(), E> {
        let left = self.left.get().saturating_add(of_text.saturating_mul(BYTES_OF_BYTE)).checked_sub(n_bytes);
        let what = "the values up to here take far more memory than their text";
        self.left.set(left.ok_or_else(|| E::custom(what))?);
        self.taken.set(self.taken.get().saturating_add(n_bytes));
        Ok(())
    }

    /// Starts to count what the next values take.
    pub(super) fn mark(&self) {
        self.taken.set(0);
    }

    /// Returns what the values since the mark have taken, because they were dropped.
    pub(super) fn give_back(&self) {
        self.left.set(self.left.get().saturating_add(self.taken.take()));
    }

    /// Returns a text, shared with an earlier one where it is short.
    fn text<E: de::Error>(&self, text: &str) -> Result<Value, E> {
        let (most, longest) = MAX_SHARED;
        let mut texts = self.texts.borrow_mut();
        if let Some(known) = texts.get(text) {
            self.take(0, text.len() + 2)?;
            return Ok(Value::Text(known.clone()));
        }
        self.take(BYTES_OF_CONTAINER + text.len(), text.len() + 2)?;
        let new = Text::from(text);
        if text.len() <= longest && texts.len() < most {
            // A shared text is kept when its value is dropped.
            self.taken.set(self.taken.get().saturating_sub(BYTES_OF_CONTAINER + text.len()));
            texts.insert(new.clone());
        }
        Ok(Value::Text(new))
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget { left: Cell::new(FREE_BYTES), ..Budget::unlimited() }
    }
}

/// Deserialises a value within a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within<'b>(pub(super) &'b Budget);

/// What a container takes in addition to its items: its reference counts, and the allocator's overhead.
pub(super) const BYTES_OF_CONTAINER: usize = 32;

/// Returns the number of digits after the first.
fn n_further_digits(int: u64) -> usize {
    int.checked_ilog10().unwrap_or(0) as usize
}

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a snapshot")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_bool<E: de::Error>(self, bool: bool) -> Result<Value, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E: de::Error>(self, int: i64) -> Result<Value, E> {
        self.0.take(0, n_further_digits(int.unsigned_abs()))?;
        Ok(Value::Int(int))
    }

    fn visit_u64<E: de::Error>(self, int: u64) -> Result<Value, E> {
        self.0.take(0, n_further_digits(int))?;
        Ok(i64::try_from(int).map_or_else(|_| Value::unsigned(int), Value::Int))
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<Value, E> {
        Ok(Value::Float(float))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.text(text)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.0.take(BYTES_OF_CONTAINER, 2)?;
        let mut all = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            self.0.take(size_of::<Value>(), 1)?;
            all.push(value);
        }
        Ok(Value::List(all.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.0.take(BYTES_OF_CONTAINER, 2)?;
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry_seed(self, self)? {
            self.0.take(size_of::<(Value, Value)>(), 2)?;
            pairs.push(pair);
        }
        Ok(Value::Dict(pairs.into()))
    }
}
