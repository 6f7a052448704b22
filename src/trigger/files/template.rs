//! Paths with placeholders, such as `snap-{rank}-{pid}-{time}.pickle`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use crate::process::{host::host, rank::rank, time::time_text};
use crate::trigger::cause::Cause;
use memreel_snapshot::words::Error;

/// A part of a path that depends on the process, the time or the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placeholder {
    /// The name of the machine.
    Host,
    /// The rank of the process in a distributed run.
    Rank,
    /// The PID.
    Pid,
    /// The time in UTC, to the second.
    Time,
    /// The number of the snapshot, counted from 0.
    Number,
    /// What triggered the snapshot.
    Cause,
}

impl Placeholder {
    pub(in crate::trigger) const ALL: [Placeholder; 6] = [
        Placeholder::Host,
        Placeholder::Rank,
        Placeholder::Pid,
        Placeholder::Time,
        Placeholder::Number,
        Placeholder::Cause,
    ];

    /// Returns the word between the braces.
    pub(in crate::trigger) fn name(self) -> &'static str {
        match self {
            Placeholder::Host => "host",
            Placeholder::Rank => "rank",
            Placeholder::Pid => "pid",
            Placeholder::Time => "time",
            Placeholder::Number => "n",
            Placeholder::Cause => "cause",
        }
    }
}

/// The values that differ from one snapshot of a process to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) time: SystemTime,
    pub(crate) number: u64,
    pub(crate) cause: Cause,
}

/// A piece of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(OsString),
    Of(Placeholder),
}

/// A piece of a path after the placeholders of the process are replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::trigger) enum Part {
    Fixed(String),
    /// [`Placeholder::Time`], [`Placeholder::Number`] or [`Placeholder::Cause`].
    Varying(Placeholder),
}

/// A path with placeholders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

/// A brace that does not start a placeholder.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Unknown {
    /// Its byte position in the text.
    pub(crate) at: usize,
    /// The text from the brace to the closing one, or to the end.
    pub(crate) text: String,
}

impl Template {
    /// Reads a path in which every brace belongs to a placeholder; `{{` and `}}` stand for single braces.
    pub(crate) fn parse(text: &str) -> Result<Template, Unknown> {
        let of = |word: &str| Placeholder::ALL.into_iter().find(|of| word == braced(*of));
        let pieces = scan(text, of)?.into_iter().map(|scanned| match scanned {
            Scanned::Text(text) => Piece::Text(text.into()),
            Scanned::Of(of) => Piece::Of(of),
        });
        Ok(Template::of(pieces.collect()))
    }

    /// Reads a path in which only these placeholders count; other braces are part of the name. A path that is not
    /// UTF-8 has no placeholders.
    pub(crate) fn lenient(path: &Path, allowed: &[Placeholder]) -> Template {
        let Some(text) = path.to_str() else {
            return Template::of(vec![Piece::Text(path.into())]);
        };
        let (mut pieces, mut rest) = (Vec::new(), text);
        let first = |rest: &str| {
            let found = allowed.iter().filter_map(|of| Some((rest.find(&braced(*of))?, *of)));
            found.min_by_key(|(at, _)| *at)
        };
        while let Some((at, of)) = first(rest) {
            pieces.extend([Piece::Text(rest[..at].into()), Piece::Of(of)]);
            rest = &rest[at + braced(of).len()..];
        }
        pieces.push(Piece::Text(rest.into()));
        Template::of(pieces)
    }

    fn of(mut pieces: Vec<Piece>) -> Template {
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Template { pieces }
    }

    /// Returns the template with a relative path resolved against the current folder.
    pub(crate) fn absolute(mut self) -> Template {
        let first = match self.pieces.first() {
            Some(Piece::Text(text)) => Path::new(text),
            _ => Path::new(""),
        };
        if first.is_relative()
            && let Ok(folder) = std::env::current_dir()
        {
            self.pieces.insert(0, Piece::Text(folder.join("").into()));
        }
        self
    }

    /// Returns whether the path depends on a placeholder.
    pub(crate) fn has(&self, of: Placeholder) -> bool {
        self.pieces.contains(&Piece::Of(of))
    }

    /// Returns the path of a snapshot.
    pub(crate) fn path(&self, facts: &Facts) -> PathBuf {
        let mut path = OsString::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => path.push(text),
                Piece::Of(Placeholder::Time) => path.push(time_text(facts.time)),
                Piece::Of(Placeholder::Number) => path.push(facts.number.to_string()),
                Piece::Of(Placeholder::Cause) => path.push(facts.cause.name()),
                Piece::Of(of) => path.push(of_process(*of)),
            }
        }
        path.into()
    }

    /// Returns whether the path is the same for all snapshots of a process at one moment.
    pub(in crate::trigger) fn is_of_process(&self) -> bool {
        !self.has(Placeholder::Number) && !self.has(Placeholder::Cause)
    }

    /// Returns the path of a file that exists once per process.
    pub(in crate::trigger) fn of_process(&self) -> PathBuf {
        self.failure(0)
    }

    /// Returns the path of the snapshot of a failed request.
    pub(crate) fn failure(&self, number: u64) -> PathBuf {
        self.path(&Facts { time: SystemTime::now(), number, cause: Cause::Oom })
    }

    /// Returns the file name without folders, leaving open the parts that differ between snapshots of a process. `None`
    /// for a name that is not UTF-8.
    pub(in crate::trigger) fn file_name(&self) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Of(of @ (Placeholder::Time | Placeholder::Number | Placeholder::Cause)) => {
                    parts.push(Part::Varying(*of));
                }
                Piece::Of(of) => parts.push(Part::Fixed(of_process(*of))),
                Piece::Text(text) => match text.to_str()?.rsplit_once('/') {
                    Some((_, name)) => parts = vec![Part::Fixed(name.to_owned())],
                    None => parts.push(Part::Fixed(text.to_str()?.to_owned())),
                },
            }
        }
        Some(parts)
    }
}

/// A piece of a text: literal text, or a placeholder.
enum Scanned<T> {
    Text(String),
    Of(T),
}

/// Splits a text in which every brace belongs to a placeholder; `{{` and `}}` stand for single braces. `of` returns the
/// placeholder that a word in braces names.
fn scan<T>(text: &str, of: impl Fn(&str) -> Option<T>) -> Result<Vec<Scanned<T>>, Unknown> {
    let (mut pieces, mut plain, mut at) = (Vec::new(), String::new(), 0);
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            plain.push(next);
            at += 2;
        } else if next == '{' || next == '}' {
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            let of = of(&rest[..end]).ok_or_else(|| Unknown { at, text: rest[..end].to_owned() })?;
            pieces.push(Scanned::Text(std::mem::take(&mut plain)));
            pieces.push(Scanned::Of(of));
            at += end;
        } else {
            plain.push(next);
            at += next.len_utf8();
        }
    }
    pieces.push(Scanned::Text(plain));
    Ok(pieces)
}

/// Replaces placeholders in a path by the values given with their words. The rules are those of trigger files: `{{` and
/// `}}` stand for single braces.
///
/// ```
/// use memreel::trigger::fill;
///
/// assert_eq!(fill("run-{rank}.pickle", &[("rank", "3"), ("pid", "4711")])?, "run-3.pickle");
/// assert!(fill("run-{rnak}.pickle", &[("rank", "3")]).is_err());
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// [`Error::is_invalid_option`] for a brace that does not start a placeholder.
pub fn fill(text: &str, values: &[(&str, &str)]) -> Result<String, Error> {
    let of = |word: &str| {
        let word = word.strip_prefix('{')?.strip_suffix('}')?;
        values.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    };
    let pieces = scan(text, of).map_err(|Unknown { at, text: found }| {
        let known: Vec<String> = values.iter().map(|(name, _)| format!("{{{name}}}")).collect();
        let known = known.join(", ");
        let why = format!(
            "unknown placeholder {found:?} at character {at} of {text:?}; use {known}, and {{{{ or }}}} for a brace"
        );
        Error::invalid_settings("the path", why)
    })?;
    let filled = pieces.into_iter().map(|scanned| match scanned {
        Scanned::Text(text) => text,
        Scanned::Of(value) => value.to_owned(),
    });
    Ok(filled.collect())
}

fn braced(of: Placeholder) -> String {
    format!("{{{}}}", of.name())
}

/// Returns the text of a placeholder that depends only on the process.
fn of_process(of: Placeholder) -> String {
    match of {
        Placeholder::Rank => rank().unwrap_or(0).to_string(),
        Placeholder::Pid => process::id().to_string(),
        _ => host(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const FACTS: Facts = Facts { time: UNIX_EPOCH, number: 7, cause: Cause::Peak };

    #[test]
    fn placeholders_are_filled_in() {
        let pid = process::id();
        for (text, path) in [
            ("snap.pickle", "snap.pickle".to_owned()),
            ("{pid}/{n}-{cause}-{time}", format!("{pid}/7-peak-19700101T000000Z")),
            ("{{{n}}}", "{7}".to_owned()),
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!(template.path(&FACTS), PathBuf::from(path));
        }
        let of_host = Template::parse("{host}").unwrap().path(&FACTS);
        assert!(of_host.components().count() == 1, "{of_host:?}");
    }

    #[test]
    fn an_unknown_placeholder_has_a_position() {
        for (text, at, found) in
            [("a-{pidd}-b", 2, "{pidd}"), ("{n", 0, "{n"), ("x}", 1, "}"), ("é{ n}", 2, "{ n}")]
        {
            assert_eq!(Template::parse(text), Err(Unknown { at, text: found.to_owned() }), "{text}");
        }
    }

    #[test]
    fn a_lenient_template_keeps_other_braces() {
        let template = Template::lenient(Path::new("{{n}-{time}-{n}-{x}"), &[Placeholder::Number]);
        assert_eq!(template.path(&FACTS), PathBuf::from("{7-{time}-7-{x}"));
        assert!(template.has(Placeholder::Number) && !template.has(Placeholder::Time));
    }

    #[test]
    fn a_relative_path_is_that_of_the_folder_at_the_start() {
        let folder = std::env::current_dir().unwrap();
        for text in ["a/{n}", "{n}"] {
            let template = Template::parse(text).unwrap().absolute();
            assert_eq!(template.path(&FACTS), folder.join(text.replace("{n}", "7")));
        }
        let absolute = Template::parse("/a/{n}").unwrap();
        assert_eq!(absolute.clone().absolute(), absolute);
    }
}
