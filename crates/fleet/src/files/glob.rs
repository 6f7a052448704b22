//! Patterns of paths: `*` and `?` within a name, `**` over folders, `[a-c]` for one character.

/// Returns the place of the first wildcard.
pub(super) fn first_wildcard(text: &str) -> Option<usize> {
    text.find(['*', '?', '['])
}

/// Returns whether a path matches a pattern.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    folders_match(&pattern, &path)
}

fn folders_match(pattern: &[&str], path: &[&str]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&"**", rest)) => (0..=path.len()).any(|skipped| folders_match(rest, &path[skipped..])),
        Some((name, rest)) => path.split_first().is_some_and(|(first, others)| {
            let (name, first): (Vec<char>, Vec<char>) = (name.chars().collect(), first.chars().collect());
            name_matches(&name, &first) && folders_match(rest, others)
        }),
    }
}

/// Matches one name. After a mismatch the last `*` takes one more character, so the time is at most the product of the lengths.
fn name_matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(after) = one_matches(pattern, p, name[n]) {
            (p, n) = (after, n + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns the place after the part of the pattern that matches one character.
fn one_matches(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => {
            let length = pattern[at + 1..].iter().skip(1).position(|c| *c == ']')? + 1;
            let set = &pattern[at + 1..at + 1 + length];
            let (is_negated, set) = match set.split_first() {
                Some(('!' | '^', rest)) => (true, rest),
                _ => (false, set),
            };
            (is_in(set, c) != is_negated).then_some(at + length + 2)
        }
        exact => (*exact == c).then_some(at + 1),
    }
}

fn is_in(set: &[char], c: char) -> bool {
    let mut rest = set;
    while let Some((first, after)) = rest.split_first() {
        match after {
            ['-', last, others @ ..] => {
                if (*first..=*last).contains(&c) {
                    return true;
                }
                rest = others;
            }
            _ if *first == c => return true,
            _ => rest = after,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, path, expected) in [
            ("*.pickle", "rank0.pickle", true),
            ("*.pickle", "a/rank0.pickle", false),
            ("**/*.pickle", "a/b/rank0.pickle", true),
            ("**/*.pickle", "rank0.pickle", true),
            ("*/rank?.pickle", "a/rank0.pickle", true),
            ("rank?.pickle", "rank10.pickle", false),
            ("rank[0-3].pickle", "rank2.pickle", true),
            ("rank[0-3].pickle", "rank4.pickle", false),
            ("rank[!0-3].pickle", "rank4.pickle", true),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
