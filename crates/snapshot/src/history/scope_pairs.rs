//! Pairs the annotations that start and end a scope, by name.

use std::collections::BTreeMap;

use super::text_ids::TextIds;
use crate::{model::Annotation, words::DeviceId};

/// Annotations that belong together, by their places among all. One of the two is missing where a
/// ring lost it, or where the snapshot was taken inside the scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScopePair {
    pub(crate) start: Option<usize>,
    pub(crate) end: Option<usize>,
}

/// Pairs each START with the END of its name and device; of several that are open the newest ends
/// first. The pairs are in the order of their first annotation; annotations of another stage are in
/// none.
pub(crate) fn scope_pairs(annotations: &[Annotation]) -> Vec<ScopePair> {
    pairs_among(annotations, 0..annotations.len())
}

/// Pairs some of the annotations, given by their places.
pub(super) fn pairs_among(annotations: &[Annotation], places: impl Iterator<Item = usize>) -> Vec<ScopePair> {
    let mut names = TextIds::default();
    let mut open: BTreeMap<(u32, DeviceId), Vec<usize>> = BTreeMap::new();
    let mut pairs: Vec<ScopePair> = Vec::new();
    for at in places {
        let annotation = &annotations[at];
        let of_name = (names.id(&annotation.name), annotation.device);
        match &*annotation.stage {
            "START" => {
                open.entry(of_name).or_default().push(pairs.len());
                pairs.push(ScopePair { start: Some(at), end: None });
            }
            "END" => match open.get_mut(&of_name).and_then(Vec::pop) {
                Some(begun) => pairs[begun].end = Some(at),
                None => pairs.push(ScopePair { start: None, end: Some(at) }),
            },
            _ => {}
        }
    }
    pairs
}

impl ScopePair {
    /// Returns whether the scope has a name. If the ring lost its START, its END counts.
    pub(super) fn has_name(self, annotations: &[Annotation], name: &str) -> bool {
        let place = self.start.or(self.end);
        place.is_some_and(|place| is_scope(&annotations[place].name, name))
    }
}

/// Returns whether a path is that of a scope with a name, rather than of a scope inside it.
fn is_scope(path: &str, name: &str) -> bool {
    let before = path.strip_suffix(name).filter(|_| !name.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Splits `step#3` into a name and the number of an occurrence, unless there is a scope with the whole text as
/// its name.
pub(crate) fn scope_number(text: &str, is_name: impl Fn(&str) -> bool) -> (&str, Option<usize>) {
    let numbered = || {
        let (name, number) = text.rsplit_once('#')?;
        Some((name, number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??))
    };
    match numbered().filter(|(name, _)| !name.is_empty() && !is_name(text)) {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    }
}

/// Returns the annotations of the scopes with a name, of all devices, in the order in which they begin. If the
/// ring lost the START of a scope, its END counts.
pub(crate) fn scopes_named(annotations: &[Annotation], name: &str) -> impl Iterator<Item = ScopePair> {
    scope_pairs(annotations).into_iter().filter(move |pair| pair.has_name(annotations, name))
}
