//! The rank that the path of a file names.

/// Returns the number after the last `rank` in the name of a file, or otherwise in the nearest folder that has one.
///
/// ```
/// use memreel::analysis::ranks::rank_of;
///
/// assert_eq!(rank_of("/runs/oom-rank12-4711.pickle"), Some(12));
/// assert_eq!(rank_of("/runs/rank_3/snapshot.pickle"), Some(3));
/// assert_eq!(rank_of("/runs/franks.pickle"), None);
/// ```
#[must_use]
pub fn rank_of(path: &str) -> Option<u64> {
    path.split('/').rev().find_map(in_name)
}

fn in_name(name: &str) -> Option<u64> {
    let name = name.to_ascii_lowercase();
    name.rmatch_indices("rank").find_map(|(at, word)| {
        let rest = &name[at + word.len()..];
        let rest = rest.strip_prefix(['=', '-', '_', '.']).unwrap_or(rest);
        let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..n_digits].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_digits_behind_the_word() {
        for (path, expected) in [
            ("rank3.pickle", Some(3)),
            ("/run/RANK_007.pickle", Some(7)),
            ("/run/rank=3/x.parquet", Some(3)),
            ("/rank1/rank2.pickle", Some(2)),
            ("rank4-of-ranks.tape", Some(4)),
            ("/run/rank.pickle", None),
            ("rank99999999999999999999.pickle", None),
            ("/run/rank=__HIVE_DEFAULT_PARTITION__/x.parquet", None),
            ("", None),
        ] {
            assert_eq!(rank_of(path), expected, "{path}");
        }
    }
}
