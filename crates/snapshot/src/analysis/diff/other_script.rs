//! Matches sites of one library that two scripts call: they differ only in the file of the outermost call.

use crate::{
    analysis::{Group, ShownFrames, Site},
    model::StackIndex,
    words::{SeededMap, paths::base_name},
};

/// The calls inside the script, innermost first: names, files and lines.
type Inner<'a> = Box<[(&'a str, &'a str, u64)]>;

/// Returns which groups of the first snapshot are groups of the second, by their places: the only one in each with the
/// same calls inside its script. Otherwise like [`moved::pairs`](super::moved::pairs).
pub(super) fn pairs<'g>(
    alone: impl Iterator<Item = (usize, (usize, &'g Group))>,
    shown: &[ShownFrames<'_>; 2],
) -> Vec<[usize; 2]> {
    let mut of_calls: SeededMap<Inner<'_>, [Vec<(usize, &str)>; 2]> = SeededMap::default();
    for (place, (side, group)) in alone {
        let Site::Stack(stack) = group.site else { continue };
        if let Some((inner, script)) = inner(&shown[side], stack) {
            of_calls.entry(inner).or_default()[side].push((place, script));
        }
    }
    let only = of_calls.into_values().filter_map(|[before, after]| match (&before[..], &after[..]) {
        ([(gone, one)], [(added, other)]) if one != other => Some([*gone, *added]),
        _ => None,
    });
    only.collect()
}

/// Returns the calls inside the outermost file, and the name of that file; `None` if all calls are in it.
fn inner<'a>(shown: &ShownFrames<'a>, stack: StackIndex) -> Option<(Inner<'a>, &'a str)> {
    let script = &*shown.identifying_frames(stack).next_back()?.filename;
    let calls = shown.identifying_frames(stack).rev().skip_while(|frame| *frame.filename == *script);
    let mut inner: Vec<_> =
        calls.map(|frame| (&*frame.name, base_name(&frame.filename), frame.line)).collect();
    inner.reverse();
    (!inner.is_empty()).then(|| (inner.into(), base_name(script)))
}
