//! The most that each of several things had at any moment.

use std::collections::BTreeMap;

use crate::history::Moment;

/// Returns the most bytes of each key at any moment, and the first moment at which it had them, given the changes.
/// Changes at the same moment count together.
pub(crate) fn highest_levels<K: Ord + Clone>(
    mut changes: Vec<(Moment, i128, K)>,
) -> BTreeMap<K, (u64, Moment)> {
    changes.sort_by_key(|(moment, ..)| *moment);
    let mut levels: BTreeMap<K, (i128, (u64, Moment))> = BTreeMap::new();
    for of_moment in changes.chunk_by(|one, next| one.0 == next.0) {
        for (_, change, key) in of_moment {
            levels.entry(key.clone()).or_insert((0, (0, Moment::START))).0 += change;
        }
        for (moment, _, key) in of_moment {
            if let Some((level, peak)) = levels.get_mut(key)
                && *level > i128::from(peak.0)
            {
                *peak = (u64::try_from(*level).unwrap_or(u64::MAX), *moment);
            }
        }
    }
    levels.into_iter().map(|(key, (_, peak))| (key, peak)).collect()
}
