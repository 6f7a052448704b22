//! Numbers of texts: equal texts have equal numbers.
//!
//! A file can refer to one long text from every record. Each text in memory is therefore read once, and recognised by
//! its place afterwards.

use std::sync::Arc;

use crate::{model::Text, words::SeededMap};

/// The texts that have a number, from 0 on.
#[derive(Debug, Default)]
pub(crate) struct TextIds<'a> {
    by_place: SeededMap<usize, u32>,
    by_text: SeededMap<&'a str, u32>,
}

impl<'a> TextIds<'a> {
    /// Returns the number of a text; a new text has the next number.
    pub(crate) fn id(&mut self, text: &'a Text) -> u32 {
        let place = Arc::as_ptr(text).cast::<u8>() as usize;
        if let Some(id) = self.by_place.get(&place) {
            return *id;
        }
        // A snapshot in memory has fewer than 2^32 texts.
        let next = u32::try_from(self.by_text.len()).unwrap_or(u32::MAX);
        let id = *self.by_text.entry(text).or_insert(next);
        self.by_place.insert(place, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_wherever_they_are() {
        let texts: [Text; 4] = ["a", "b", "a", ""].map(Text::from);
        let again = texts[1].clone();
        let mut ids = TextIds::default();
        assert_eq!(texts.each_ref().map(|text| ids.id(text)), [0, 1, 0, 2]);
        assert_eq!(ids.id(&again), 1);
    }
}
