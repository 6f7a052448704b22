//! A record of a shape as bytes with gaps.

#![forbid(unsafe_code)]

use super::out::Short;
use crate::snapshot::Field;

/// A record of a shape, cut where the fields go.
pub(super) struct Template(Vec<(Short, Option<Field>)>);

impl Template {
    /// What stands before each field, and the field; a long stretch is several without one.
    pub(super) fn parts(&self) -> &[(Short, Option<Field>)] {
        &self.0
    }

    /// From the bytes without the fields, and the places where these go.
    pub(super) fn new(bytes: &[u8], fields: &[(usize, Field)]) -> Self {
        let mut cut = Vec::new();
        let mut from = 0;
        let ends = fields.iter().map(|(to, field)| (*to, Some(*field))).chain([(bytes.len(), None)]);
        for (to, field) in ends {
            cut.extend(bytes[from..to].chunks(16).map(|chunk| (Short::of(chunk), None)));
            match cut.last_mut() {
                Some((_, last)) if from < to => *last = field,
                _ => cut.push((Short::of(&[]), field)),
            }
            from = to;
        }
        Template(cut)
    }
}
