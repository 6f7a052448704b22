//! The bytes that all records of one shape share, with gaps for their fields.

#![forbid(unsafe_code)]

use super::out::Short;
use crate::model::Field;

/// A record of a shape, cut where its fields go.
pub(super) struct Template(Vec<(Short, Option<Field>)>);

impl Template {
    /// Cuts the bytes of a record without its fields; `fields` has the offset where each field goes.
    pub(super) fn new(bytes: &[u8], fields: &[(usize, Field)]) -> Self {
        let mut parts = Vec::new();
        let mut from = 0;
        let ends = fields.iter().map(|(to, field)| (*to, Some(*field))).chain([(bytes.len(), None)]);
        for (to, field) in ends {
            parts.extend(bytes[from..to].chunks(16).map(|chunk| (Short::of(chunk), None)));
            match parts.last_mut() {
                Some((_, last)) if from < to => *last = field,
                _ => parts.push((Short::of(&[]), field)),
            }
            from = to;
        }
        Template(parts)
    }

    /// Returns the bytes before each field, with the field. Bytes beyond 16 are several parts, all but the last
    /// without a field.
    pub(super) fn parts(&self) -> &[(Short, Option<Field>)] {
        &self.0
    }
}
