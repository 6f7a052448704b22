//! Parses the variable `MEMREEL`: `all,ring=1000000,dump=oom+exit,file=snap-{pid}.pickle,keep=5`.
//!
//! `docs/triggers.md` has the grammar as a table.

use std::str::FromStr;

use crate::trigger::{
    files::template::{Template, Unknown},
    signal_number::Signal,
    when::{
        overlay::Overlay,
        triggers::{PLACEHOLDERS, Triggers},
    },
};
use crate::{
    process::time::duration,
    recorder::{Context, Enabled, StackKind},
};
use memreel_snapshot::words::{Bytes, Error, Result};

/// The options in a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) overlay: Overlay,
    pub(crate) triggers: Option<Triggers>,
}

impl FromStr for Triggers {
    type Err = Error;

    /// Parses `dump=oom+exit,file=snap-{pid}.pickle,keep=5`, the part of the variable `MEMREEL` that is about triggers
    /// (`docs/triggers.md`).
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] with the position in the text.
    fn from_str(text: &str) -> Result<Triggers> {
        let reader = Reader::read("the triggers", text)?;
        if let Some(other) = reader.seen.iter().find(|key| !OF_TRIGGERS.contains(&key.text)) {
            return Err(reader.error("expected dump, file or keep instead of", *other, ""));
        }
        reader.parsed.triggers.ok_or_else(|| {
            Error::invalid_settings("the triggers", format!("{text:?} has no dump={KNOWN_TRIGGERS}"))
        })
    }
}

/// Parses a value; `origin` names it in errors.
pub(crate) fn parse(origin: &'static str, text: &str) -> Result<Parsed> {
    Ok(Reader::read(origin, text)?.parsed)
}

const OF_TRIGGERS: [&str; 3] = ["dump", "file", "keep"];
const KEYS: [&str; 9] = ["stacks", "context", "ring", "min_size", "sample", "tape", "dump", "file", "keep"];
const KNOWN: &str = "all, state, off, stacks, context, ring, min_size, sample, tape, dump, file and keep";
const KNOWN_TRIGGERS: &str = "oom, exit, panic, signal, every:30s, every:10GiB and peak:10GiB";

/// A word of the text, with its byte position.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

impl<'a> Token<'a> {
    /// Returns the parts between separators, without the white space around them.
    fn split(self, separator: char) -> impl Iterator<Item = Token<'a>> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let word = Token { at, text }.trimmed();
            at += text.len() + separator.len_utf8();
            word
        })
    }

    /// Returns the parts before and after the first separator.
    fn cut(self, separator: char) -> (Token<'a>, Option<Token<'a>>) {
        match self.text.split_once(separator) {
            None => (self, None),
            Some((first, text)) => {
                let at = self.at + first.len() + separator.len_utf8();
                (Token { at: self.at, text: first }.trimmed(), Some(Token { at, text }.trimmed()))
            }
        }
    }

    fn trimmed(self) -> Token<'a> {
        let text = self.text.trim_start();
        Token { at: self.at + self.text.len() - text.len(), text: text.trim_end() }
    }
}

struct Reader<'a> {
    origin: &'static str,
    text: &'a str,
    /// The keys that were read; the words `all`, `state` and `off` are their own keys.
    seen: Vec<Token<'a>>,
    parsed: Parsed,
}

impl<'a> Reader<'a> {
    fn read(origin: &'static str, text: &'a str) -> Result<Reader<'a>> {
        let mut reader = Reader { origin, text, seen: Vec::new(), parsed: Parsed::default() };
        if !text.trim().is_empty() {
            for item in (Token { at: 0, text }).split(',') {
                reader.item(item)?;
            }
        }
        reader.refuse_contradictions()?;
        Ok(reader)
    }

    fn item(&mut self, item: Token<'a>) -> Result<()> {
        let (key, value) = item.cut('=');
        if self.seen(key.text).is_some() {
            return Err(self.error("a second", key, ""));
        }
        match value {
            None => self.mode(key)?,
            Some(value) => self.option(key, value)?,
        }
        self.seen.push(key);
        Ok(())
    }

    fn seen(&self, key: &str) -> Option<Token<'a>> {
        self.seen.iter().find(|seen| seen.text == key).copied()
    }

    fn mode(&mut self, word: Token<'a>) -> Result<()> {
        let enabled = match word.text {
            "all" => Enabled::All,
            "state" => Enabled::State,
            "off" => Enabled::Off,
            key if KEYS.contains(&key) => {
                return Err(self.error("expected = and a value after", word, ""));
            }
            _ => return Err(self.unknown(word)),
        };
        self.parsed.overlay.enabled = Some(enabled);
        Ok(())
    }

    fn option(&mut self, key: Token<'a>, value: Token<'a>) -> Result<()> {
        match key.text {
            "stacks" => self.parsed.overlay.stacks = Some(self.stacks(key, value)?),
            "context" => self.parsed.overlay.context = Some(self.context(key, value)?),
            "ring" => self.parsed.overlay.max_entries = Some(self.count(key, value)?),
            "min_size" => self.parsed.overlay.min_size_bytes = Some(self.size(key, value)?),
            "sample" => self.parsed.overlay.sample_bytes = Some(self.size(key, value)?),
            "tape" => self.parsed.overlay.tape = Some(self.tape(key, value)?),
            "dump" => {
                for trigger in value.split('+') {
                    self.trigger(trigger)?;
                }
            }
            "file" => {
                self.template(value)?;
                self.triggers().file = value.text.into();
            }
            "keep" => {
                let n = self.count(key, value)?;
                self.triggers().keep = Some(n);
            }
            "all" | "state" | "off" => return Err(self.error("expected a comma after", key, "")),
            _ => return Err(self.unknown(key)),
        }
        Ok(())
    }

    fn triggers(&mut self) -> &mut Triggers {
        self.parsed.triggers.get_or_insert_default()
    }

    fn trigger(&mut self, trigger: Token<'a>) -> Result<()> {
        let (name, argument) = trigger.cut(':');
        let before = self.triggers().clone();
        let after = match (name.text, argument) {
            ("oom", None) => before.clone().oom(),
            ("exit", None) => before.clone().exit(),
            ("panic", None) => before.clone().panic(),
            ("signal", None) => before.clone().signal(Signal::USR2),
            ("signal", Some(signal)) => {
                let named = Signal::named(signal.text);
                let wanted = "USR1, USR2 or a real-time signal's number";
                before.clone().signal(named.ok_or_else(|| self.wrong(name, signal, wanted))?)
            }
            ("every", Some(often)) => match (duration(often.text), size_not_time(often.text)) {
                (Some(time), _) if before.every.is_none() => before.clone().every(time),
                (_, Some(size)) if before.every_bytes.is_none() => before.clone().every_bytes(size),
                (None, None) => {
                    return Err(self.wrong(name, often, "a time such as 30s or a size such as 10GiB"));
                }
                _ => before.clone(),
            },
            ("peak", Some(size)) if before.peak_bytes.is_none() => {
                before.clone().peak_above(self.size(name, size)?)
            }
            ("peak", Some(_)) => before.clone(),
            ("every" | "peak", None) => {
                return Err(self.error(
                    "expected : and a value after",
                    name,
                    "; use for example every:30s or peak:10GiB",
                ));
            }
            ("oom" | "exit" | "panic", Some(_)) => {
                return Err(self.error("expected + or a comma after", name, ""));
            }
            _ => {
                return Err(self.error(
                    "unknown trigger",
                    name,
                    &format!("; the triggers are {KNOWN_TRIGGERS}"),
                ));
            }
        };
        if after == before {
            return Err(self.error("a second", trigger, ""));
        }
        *self.triggers() = after;
        Ok(())
    }

    fn stacks(&self, key: Token<'a>, value: Token<'a>) -> Result<StackKind> {
        value.text.parse().map_err(|_| self.wrong(key, value, "python, native, all or none"))
    }

    fn context(&self, key: Token<'a>, value: Token<'a>) -> Result<Context> {
        value.text.parse().map_err(|_| self.wrong(key, value, "none, state, alloc or all"))
    }

    fn count(&self, key: Token<'a>, value: Token<'a>) -> Result<usize> {
        let number = value.text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| self.wrong(key, value, "a number of at least 1"))
    }

    fn size(&self, key: Token<'a>, value: Token<'a>) -> Result<u64> {
        Bytes::parse(value.text)
            .map(|bytes| bytes.0)
            .ok_or_else(|| self.wrong(key, value, "a size such as 512KiB or 10GiB"))
    }

    /// A tape is one file of the whole run.
    fn tape(&self, key: Token<'a>, value: Token<'a>) -> Result<Template> {
        let template = self.template(value)?;
        if template.is_of_process() {
            return Ok(template);
        }
        Err(self.wrong(key, value, "a path with {host}, {rank}, {pid} and {time} only"))
    }

    fn template(&self, value: Token<'a>) -> Result<Template> {
        if value.text.is_empty() || value.text.ends_with('/') {
            return Err(self.error("expected the name of a file instead of", self.or_end(value), ""));
        }
        Template::parse(value.text).map_err(|Unknown { at, text }| {
            let found = Token { at: value.at + at, text: &text };
            self.error("unknown placeholder", found, &format!("; {PLACEHOLDERS}"))
        })
    }

    /// Options that cannot both have an effect are a user's mistake.
    fn refuse_contradictions(&self) -> Result<()> {
        let pairs = [
            ("off", &["all", "state", "stacks", "context", "ring", "min_size", "sample", "tape"][..]),
            ("state", &["all", "ring", "tape"]),
        ];
        for (first, others) in pairs {
            let other = others.iter().find_map(|other| self.seen(other));
            if let (Some(_), Some(other)) = (self.seen(first), other) {
                return Err(self.error(&format!("{first} contradicts"), other, ""));
            }
        }
        let overlay = &self.parsed.overlay;
        let captures = overlay.context.is_some_and(|context| context != Context::None);
        if let Some(context) =
            self.seen("context").filter(|_| captures && overlay.stacks == Some(StackKind::None))
        {
            return Err(self.error("stacks=none contradicts", context, ""));
        }
        match ["file", "keep"].iter().find_map(|key| self.seen(key)) {
            Some(key) if self.seen("dump").is_none() => Err(self.error(
                "without dump=, nothing uses",
                key,
                &format!("; the triggers are {KNOWN_TRIGGERS}"),
            )),
            _ => Ok(()),
        }
    }

    #[cold]
    fn unknown(&self, found: Token<'_>) -> Error {
        let what = if found.text.is_empty() { "expected an option instead of" } else { "unknown option" };
        let found = self.or_end(found);
        self.error(what, found, &format!("; the options are {KNOWN}"))
    }

    #[cold]
    fn wrong(&self, key: Token<'_>, found: Token<'_>, wanted: &str) -> Error {
        self.error(&format!("{} takes {wanted} instead of", key.text), self.or_end(found), "")
    }

    fn or_end<'w>(&self, word: Token<'w>) -> Token<'w> {
        if word.text.is_empty() && word.at >= self.text.len() {
            Token { text: "the end", ..word }
        } else {
            word
        }
    }

    fn error(&self, what: &str, Token { at, text }: Token<'_>, then: &str) -> Error {
        let why = format!("{what} {text:?} at character {at} of {:?}{then}", self.text);
        Error::invalid_settings(self.origin, why)
    }
}

/// Parses a size whose unit names bytes: `1m` could be a minute, and `30` anything.
fn size_not_time(text: &str) -> Option<u64> {
    let bytes = Bytes::parse(text).filter(|_| text.ends_with(['b', 'B']))?;
    Some(bytes.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_whole_text_is_read() {
        let text = "all, stacks=native,ring=1000000,min_size=4KiB,sample=512KiB,context=alloc,tape=run.tape,\
                    dump=oom+exit + signal+signal:USR1+panic+every:30s+every:1GiB+peak:10GB,\
                    file=snap-{host}-{rank}-{pid}-{time}.pickle,keep=5";
        let Parsed { overlay, triggers } = parse("MEMREEL", text).unwrap();
        let wanted = Overlay {
            enabled: Some(Enabled::All),
            context: Some(Context::Alloc),
            stacks: Some(StackKind::Native),
            max_entries: Some(1_000_000),
            min_size_bytes: Some(4096),
            sample_bytes: Some(512 << 10),
            tape: Some(Template::parse("run.tape").unwrap()),
        };
        assert_eq!(overlay, wanted);
        let wanted = Triggers::to("snap-{host}-{rank}-{pid}-{time}.pickle").keep(5).oom().exit().panic();
        let wanted = wanted.signal(Signal::USR2).signal(Signal::USR1).every(Duration::from_secs(30));
        assert_eq!(triggers, Some(wanted.every_bytes(1 << 30).peak_above(10_000_000_000)));
        assert_eq!(parse("MEMREEL", "  ").unwrap(), Parsed::default());
        assert_eq!("dump=oom".parse::<Triggers>().unwrap(), Triggers::default().oom());
    }

    #[test]
    fn errors_have_positions() {
        for (text, wanted) in [
            ("everything", "unknown option \"everything\" at character 0"),
            ("all,,ring=1", "expected an option instead of \"\" at character 4"),
            ("all,", "expected an option instead of \"the end\" at character 4"),
            ("all, rong=5", "unknown option \"rong\" at character 5"),
            ("ring", "expected = and a value after \"ring\" at character 0"),
            ("all=1", "expected a comma after \"all\" at character 0"),
            ("ring=0", "ring takes a number of at least 1 instead of \"0\" at character 5"),
            ("ring=", "ring takes a number of at least 1 instead of \"the end\" at character 5"),
            ("all,all", "a second \"all\" at character 4"),
            ("all,state", "state contradicts \"all\" at character 0"),
            ("off,ring=5", "off contradicts \"ring\" at character 4"),
            ("state,tape=x", "state contradicts \"tape\" at character 6"),
            ("context=all,stacks=none", "stacks=none contradicts \"context\" at character 0"),
            ("file=a.pickle", "without dump=, nothing uses \"file\" at character 0"),
            ("all,keep=3", "without dump=, nothing uses \"keep\" at character 4"),
            ("dump=oom,keep=0", "keep takes a number of at least 1 instead of \"0\" at character 14"),
            ("dump=", "unknown trigger \"\" at character 5"),
            ("dump=oom+exot", "unknown trigger \"exot\" at character 9"),
            ("dump=oom+oom", "a second \"oom\" at character 9"),
            ("dump=every:1s+every:2s", "a second \"every:2s\" at character 14"),
            ("dump=peak:1B+peak:2B", "a second \"peak:2B\" at character 13"),
            ("dump=oom:5", "expected + or a comma after \"oom\" at character 5"),
            ("dump=every", "expected : and a value after \"every\" at character 5"),
            (
                "dump=every:5",
                "every takes a time such as 30s or a size such as 10GiB instead of \"5\" at character 11",
            ),
            (
                "dump=peak:lots",
                "peak takes a size such as 512KiB or 10GiB instead of \"lots\" at character 10",
            ),
            ("dump=signal:KILL", "real-time signal's number instead of \"KILL\" at character 12"),
            ("dump=oom,file=a-{pidd}.pickle", "unknown placeholder \"{pidd}\" at character 16"),
            (
                "all,tape={n}.tape",
                "tape takes a path with {host}, {rank}, {pid} and {time} only instead of \"{n}.tape\" at character 9",
            ),
            ("dump=oom,file=", "expected the name of a file instead of \"the end\" at character 14"),
            ("dump=oom,file=folder/", "expected the name of a file instead of \"folder/\" at character 14"),
        ] {
            let error = parse("MEMREEL", text).unwrap_err();
            assert!(error.is_invalid_option());
            let message = error.to_string();
            assert!(message.starts_with("MEMREEL: ") && message.contains(wanted), "{text}: {message}");
        }
        for text in ["all,dump=oom", "", "keep=1"] {
            let error = text.parse::<Triggers>().unwrap_err();
            assert!(error.is_invalid_option(), "{text}: {error}");
        }
    }
}
