//! Builds a record from keys and values, one by one.
//!
//! A known key with a value of the wrong type is kept in the record's shape and leaves the field at its default, so
//! that nothing is lost, a rewritten file equals the original, and validation can report the error.

use std::hash::Hash;

use super::{
    field::Field,
    fields::{FieldMut, Fill},
    records::Block,
    schema,
    shape::{Shape, Shapes, Slot},
    stack_table::{Frame, FrameIndex, StackIndex, StackTable},
    value::{Text, Value},
};
use crate::words::SeededMap;

/// Collects the keys of one dictionary.
#[derive(Debug, Default)]
pub(crate) struct Builder<R> {
    record: R,
    shape: Shape,
}

impl<R: Fill> Builder<R> {
    /// Takes one key with its value. Each key comes once.
    pub(crate) fn set(&mut self, key: &Text, value: Value) {
        let field = schema::field_of(R::KEYS, key).filter(|field| !self.is_second_address(*field));
        let fits = |field: &Field| self.record.field_mut(*field).is_some_and(|into| into.set(&value));
        let slot = match field.filter(fits) {
            Some(field) => Slot::Field(field),
            None => Slot::Value(value),
        };
        self.shape.slots.push((key.clone(), slot));
    }

    /// Takes `frames`, already interned.
    pub(crate) fn set_stack(&mut self, key: &Text, stack: StackIndex) {
        if let Some(FieldMut::Stack(into)) = self.record.field_mut(Field::Frames) {
            *into = Some(stack);
            self.shape.slots.push((key.clone(), Slot::Field(Field::Frames)));
        }
    }

    /// Takes `blocks`, already built.
    pub(crate) fn set_blocks(&mut self, key: &Text, blocks: Vec<Block>) {
        if let Some(FieldMut::Blocks(into)) = self.record.field_mut(Field::Blocks) {
            *into = blocks;
            self.shape.slots.push((key.clone(), Slot::Field(Field::Blocks)));
        }
    }

    /// The record; its shape is interned.
    pub(crate) fn finish(self, shapes: &mut Shapes) -> R {
        let Builder { mut record, shape } = self;
        record.set_shape(shapes.intern(shape));
        record
    }

    /// `addr` and `device_free` share one field; the second of them is kept separately.
    fn is_second_address(&self, field: Field) -> bool {
        matches!(field, Field::Addr | Field::DeviceFree)
            && ["addr", "device_free"].iter().any(|key| self.shape.slot(key).is_some())
    }
}

/// A stack from a list of dictionaries; `None` if it is anything else.
pub(crate) fn stack(value: &Value, stacks: &mut StackTable, shapes: &mut Shapes) -> Option<StackIndex> {
    let Value::List(list) = value else { return None };
    let frames: Option<Vec<FrameIndex>> = list
        .iter()
        .map(|value| {
            let mut builder = Builder::<Frame>::default();
            text_pairs(value).ok()?.into_iter().for_each(|(key, value)| builder.set(key, value.clone()));
            Some(stacks.intern_frame(builder.finish(shapes)))
        })
        .collect();
    Some(stacks.intern_stack(&frames?))
}

/// The most keys of one record; PyTorch writes 12 at most.
pub(crate) const MAX_RECORD_KEYS: usize = 256;

/// Returns the pairs of a dictionary: of a repeated key, the last value at the first place, as in Python. `None` if
/// there are more than `at_most` keys.
pub(crate) fn last_of_each<K: Copy + Eq + Hash, V>(
    pairs: impl Iterator<Item = (K, V)>,
    at_most: usize,
) -> Option<Vec<(K, V)>> {
    let mut places = SeededMap::default();
    let mut last: Vec<(K, V)> = Vec::with_capacity(pairs.size_hint().0.min(at_most));
    for (key, value) in pairs {
        // A few keys are found faster without a map.
        let known = match last.len() {
            ..=FEW_KEYS => last.iter().position(|(other, _)| *other == key),
            _ => places.get(&key).copied(),
        };
        match known {
            Some(at) => last[at].1 = value,
            None if last.len() == at_most => return None,
            None => {
                last.push((key, value));
                match last.len() {
                    ..=FEW_KEYS => {}
                    // The map is needed from the next key on.
                    n if n == FEW_KEYS + 1 => {
                        places.extend(last.iter().enumerate().map(|(at, pair)| (pair.0, at)))
                    }
                    n => drop(places.insert(key, n - 1)),
                }
            }
        }
    }
    Some(last)
}

/// Up to this number of keys, each is compared with each.
const FEW_KEYS: usize = 16;

/// Returns the pairs of a dictionary whose keys are all texts, as [`last_of_each`] does.
///
/// # Errors
/// A text about the value that is not such a dictionary.
pub(crate) fn text_pairs(value: &Value) -> Result<Vec<(&Text, &Value)>, String> {
    let Value::Dict(pairs) = value else { return Err(value.kind().to_owned()) };
    if !pairs.iter().all(|(key, _)| key.as_text().is_some()) {
        return Err("a dict with keys that are not texts".to_owned());
    }
    let pairs = pairs.iter().filter_map(|(key, value)| Some((key.as_text()?, value)));
    last_of_each(pairs, MAX_RECORD_KEYS)
        .ok_or_else(|| format!("a dict with more than {MAX_RECORD_KEYS} keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_is_at_its_first_place() {
        for n in [3, 16, 17, 18, 200] {
            let twice = (0..n).chain(0..n).map(|key| key % n).zip(0..);
            let expected: Vec<(usize, usize)> = (0..n).map(|key| (key, n + key)).collect();
            assert_eq!(last_of_each(twice, 200), Some(expected));
        }
        assert_eq!(last_of_each((0..257).zip(0..), 256), None);
    }
}
