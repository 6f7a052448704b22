//! A process of a run without memreel's libraries: what it is, and why it is not recorded.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    path::Path,
};

use crate::{input::run_file::NotRecorded, text::clean};

/// Why a process is not recorded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    /// Its environment has neither memreel's libraries nor the folder of the run.
    Cleared,
    /// Its environment has the folder of the run, and preloads nothing.
    NotPreloaded,
    /// Its environment preloads these instead of memreel's libraries.
    Replaced(String),
    /// Another allocator comes before memreel's, so its heap is not recorded.
    Behind,
    /// It runs as another user.
    OtherUser,
    /// It has another root or other mounts.
    OtherRoot,
    /// Nothing can be preloaded into its program, for the reason in this sentence.
    Program(String),
    /// Its loader ignored the libraries.
    LeftOut,
}

impl Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Cleared => f.write_str("its environment was cleared, including LD_PRELOAD"),
            Why::NotPreloaded => f.write_str("LD_PRELOAD was removed from its environment"),
            Why::Replaced(by) => {
                write!(f, "its LD_PRELOAD has {} in place of memreel's libraries", clean(by))
            }
            Why::Behind => {
                f.write_str("another library's malloc comes before memreel's, so its heap is missing")
            }
            Why::OtherUser => f.write_str("it runs as another user"),
            Why::OtherRoot => {
                f.write_str("it runs in another root or container, without memreel's libraries")
            }
            Why::Program(why) => f.write_str(why),
            Why::LeftOut => f.write_str("its loader skipped memreel's libraries"),
        }
    }
}

impl Why {
    /// Returns what an environment without memreel's libraries shows.
    pub(super) fn of_environment(preload: Option<&str>, has_run: bool) -> Why {
        let names: Vec<&str> = preload
            .unwrap_or_default()
            .split([':', ' '])
            .filter_map(|path| Path::new(path).file_name()?.to_str())
            .collect();
        match (names.is_empty(), has_run) {
            (false, _) => Why::Replaced(names.join(", ")),
            (true, true) => Why::NotPreloaded,
            (true, false) => Why::Cleared,
        }
    }
}

/// A process that is not recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bystander {
    /// Its number; 0 if it is not known.
    pub(super) process: u32,
    pub(super) name: String,
    pub(super) why: Why,
}

/// Tools of the system that are linked statically or have an environment of their own wherever they are started, and hold no memory
/// to speak of: Python looks for libraries with it.
const MINOR: [&str; 1] = ["ldconfig"];

/// The words at which the name of a program ends: what follows is the user's data.
const MAX_WORDS: usize = 3;

/// Returns the name of a program by its words: `python3 worker.py`, `python3 -m celery`, `ls`.
pub(super) fn name_of<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    let words: Vec<_> = words.into_iter().take(MAX_WORDS).map(String::from_utf8_lossy).collect();
    let base = |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let program = words.first().and_then(|word| base(word)).unwrap_or_default();
    let rest: Vec<&str> = words.iter().skip(1).map(|word| &**word).collect();
    match rest[..] {
        ["-m", module, ..] => format!("{program} -m {module}"),
        [script, ..] if !script.starts_with('-') && script.contains('.') => {
            format!("{program} {}", base(script).unwrap_or_default())
        }
        _ => program,
    }
}

/// Returns how many processes with each name ran unrecorded, and why, most first.
pub(super) fn grouped(bystanders: &[Bystander]) -> Vec<NotRecorded> {
    let mut groups = BTreeMap::<(&str, &Why), u64>::new();
    for Bystander { name, why, .. } in bystanders {
        *groups.entry((name, why)).or_default() += 1;
    }
    let group = |((name, why), n_processes): ((&str, &Why), u64)| NotRecorded {
        name: Some(name.to_owned()),
        n_processes,
        why: why.to_string(),
        is_minor: MINOR.contains(&name),
    };
    let mut all: Vec<NotRecorded> = groups.into_iter().map(group).collect();
    all.sort_by_key(|group| std::cmp::Reverse(group.n_processes));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_has_its_script_and_no_data() {
        let name = |words: &[&str]| name_of(words.iter().map(|word| word.as_bytes()));
        assert_eq!(name(&["/usr/bin/python3", "/srv/worker.py", "secret"]), "python3 worker.py");
        assert_eq!(name(&["python3", "-m", "celery", "-A", "x"]), "python3 -m celery");
        assert_eq!(
            (name(&["ls", "-l"]), name(&["sleep", "60"]), name(&[])),
            ("ls".into(), "sleep".into(), String::new())
        );
    }

    #[test]
    fn an_environment_shows_why() {
        assert_eq!(Why::of_environment(None, false), Why::Cleared);
        assert_eq!(Why::of_environment(Some(""), true), Why::NotPreloaded);
        assert_eq!(
            Why::of_environment(Some("/lib/libjemalloc.so.2:/x/b.so"), false),
            Why::Replaced("libjemalloc.so.2, b.so".into())
        );
    }

    #[test]
    fn processes_of_one_name_and_one_reason_are_one_line() {
        let of = |name: &str, why: Why| Bystander { process: 0, name: name.into(), why };
        let all = [
            of("a", Why::Cleared),
            of("b", Why::Cleared),
            of("b", Why::Cleared),
            of("ldconfig", Why::LeftOut),
        ];
        let lines: Vec<String> = grouped(&all).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines[0],
            "b ran unrecorded, 2 processes: its environment was cleared, including LD_PRELOAD"
        );
        assert_eq!(lines[1], "a ran unrecorded: its environment was cleared, including LD_PRELOAD");
        assert!(grouped(&all)[2].is_minor);
    }
}
