//! Deserialises a value, with a bound on its memory where the text is a stranger's.

use std::{cell::Cell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use super::value::Value;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Within(&Budget::unlimited()).deserialize(deserializer)
    }
}

/// The memory that values may take, in proportion to their text.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

/// The memory in bytes that the values of any text may take.
const FREE_BYTES: usize = 24 << 20;

/// The memory in bytes that they may take besides for each byte of the text.
const BYTES_OF_BYTE: usize = 3;

impl Budget {
    pub(super) fn unlimited() -> Budget {
        Budget(Cell::new(usize::MAX))
    }

    /// Takes the memory of a value whose text has at least this number of bytes.
    pub(super) fn take<E: de::Error>(&self, n_bytes: usize, of_text: usize) -> Result<(), E> {
        let left = self.0.get().saturating_add(of_text.saturating_mul(BYTES_OF_BYTE)).checked_sub(n_bytes);
        let what = "the values up to here take far more memory than their text";
        self.0.set(left.ok_or_else(|| E::custom(what))?);
        Ok(())
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(FREE_BYTES))
    }
}

/// Deserialises a value within a budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within<'b>(pub(super) &'b Budget);

/// What a container takes beside its items: the counts of its references, and what the allocator adds.
const BYTES_OF_CONTAINER: usize = 32;

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
        Ok(Value::Int(int))
    }

    fn visit_u64<E: de::Error>(self, int: u64) -> Result<Value, E> {
        Ok(i64::try_from(int).map_or_else(|_| Value::unsigned(int), Value::Int))
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<Value, E> {
        Ok(Value::Float(float))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.take(BYTES_OF_CONTAINER, text.len())?;
        Ok(Value::text(text))
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
            self.0.take(size_of::<(Value, Value)>(), 4)?;
            pairs.push(pair);
        }
        Ok(Value::Dict(pairs.into()))
    }
}
