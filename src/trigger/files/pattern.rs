//! Matches the file names that a template gives to the snapshots of one process.

use crate::process::time;
use crate::trigger::{
    cause::Cause,
    files::template::{Part, Placeholder, Template},
};

/// The names of a template's files: with any time, number and cause, and with the number that distinguishes two files.
#[derive(Debug)]
pub(in crate::trigger) struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Returns the pattern of a template; `None` if its name is not UTF-8.
    pub(in crate::trigger) fn new(template: &Template) -> Option<Pattern> {
        template.file_name().map(|parts| Pattern { parts })
    }

    /// Returns whether the template gave this name to a file, or could have.
    pub(in crate::trigger) fn matches(&self, name: &str) -> bool {
        fits(&self.parts, name) || without_number(name).is_some_and(|name| fits(&self.parts, &name))
    }
}

/// Returns the name with a number that distinguishes it from files of the same name: `snap-2.pickle`.
pub(in crate::trigger) fn numbered(name: &str, number: u64) -> String {
    let (stem, extension) = split(name);
    format!("{stem}-{number}{extension}")
}

/// Returns the name without the number that [`numbered`] added, if it has one.
fn without_number(name: &str) -> Option<String> {
    let (stem, extension) = split(name);
    let (stem, number) = stem.rsplit_once('-')?;
    is_number(number).then(|| format!("{stem}{extension}"))
}

/// Splits a name before its last dot, unless it starts with that dot.
fn split(name: &str) -> (&str, &str) {
    let at = name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    name.split_at(at)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn fits(parts: &[Part], name: &str) -> bool {
    let Some((first, rest)) = parts.split_first() else { return name.is_empty() };
    match first {
        Part::Fixed(text) => name.strip_prefix(text.as_str()).is_some_and(|name| fits(rest, name)),
        Part::Varying(Placeholder::Time) => {
            let time = name.get(..time::TEXT_BYTES);
            time.is_some_and(time::is_time) && fits(rest, &name[time::TEXT_BYTES..])
        }
        Part::Varying(Placeholder::Cause) => {
            let mut causes = Cause::ALL.into_iter().filter_map(|cause| name.strip_prefix(cause.name()));
            causes.any(|name| fits(rest, name))
        }
        Part::Varying(_) => {
            let n_digits = name.bytes().take_while(u8::is_ascii_digit).count();
            (1..=n_digits).any(|n| fits(rest, &name[n..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_template_match() {
        let pattern = |text| Pattern::new(&Template::parse(text).unwrap()).unwrap();
        let pid = std::process::id();
        let snap = pattern("folder-{n}/snap-{pid}-{time}-{n}.{cause}.pickle");
        let name = |rest: &str| format!("snap-{pid}-20240229T123456Z-{rest}");
        for rest in ["0.oom.pickle", "12.exit.pickle", "12.exit-3.pickle"] {
            assert!(snap.matches(&name(rest)), "{rest}");
        }
        for rest in ["0.what.pickle", "x.oom.pickle", "0.oom.pickle~", "0.oom-x.pickle", ".oom.pickle"] {
            assert!(!snap.matches(&name(rest)), "{rest}");
        }
        assert!(
            !snap.matches(&format!("snap-{}-20240229T123456Z-0.oom.pickle", pid + 1)),
            "another process's"
        );
        let plain = pattern("snap.pickle");
        assert!(plain.matches("snap.pickle") && plain.matches(&numbered("snap.pickle", 4)));
        assert!(!plain.matches("snap-4-5.pickle") && !plain.matches("snapshot.pickle"));
    }

    #[test]
    fn a_number_comes_before_the_extension() {
        let names = ["a.b.pickle", ".hidden", "plain"].map(|name| numbered(name, 2));
        assert_eq!(names, ["a.b-2.pickle", ".hidden-2", "plain-2"]);
    }
}
