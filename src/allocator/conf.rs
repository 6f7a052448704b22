//! Reads a settings text: `key:value,key:[1:8,>:4],…` (`docs/caching-allocator.md` 8).
//!
//! Keys, values and their limits are PyTorch 2.11's. Its parser accepts some
//! malformed texts (a comma for a colon, `30;x` for 30, two options without a
//! comma); this one rejects them and reports the position.
#![forbid(unsafe_code)]

use std::str::FromStr;

use super::settings::Settings;
use crate::process::{environment, notice};
use memreel_snapshot::words::{Error, Result, torch::MIB};

impl FromStr for Settings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Settings> {
        Settings::default().updated(text)
    }
}

impl Settings {
    /// Reads `MEMREEL_ALLOC_CONF` or, if it is not set, PyTorch's `PYTORCH_ALLOC_CONF`, whose deprecated name
    /// `PYTORCH_CUDA_ALLOC_CONF` wins if both are set. Only one variable is read; the others are ignored entirely.
    /// Unknown options in PyTorch's variables are ignored, with a line on standard error, because each PyTorch release
    /// adds some.
    ///
    /// # Errors
    /// [`is_invalid_option`](Error::is_invalid_option) for an invalid text; the message names the variable.
    pub fn from_env() -> Result<Settings> {
        Settings::from_variables(|name| environment::text(name).ok())
    }

    /// Reads the same variables as [`Settings::from_env`] from another source.
    ///
    /// # Errors
    /// [`is_invalid_option`](Error::is_invalid_option) for an invalid text; the message names the variable.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let names = ["MEMREEL_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];
        let Some((name, text)) = names.into_iter().find_map(|name| Some((name, variable(name)?))) else {
            return Ok(Settings::default());
        };
        if name == names[0] {
            return parse(name, &Settings::default(), &text, None);
        }
        let mut unknown = Vec::new();
        let settings = parse(name, &Settings::default(), &text, Some(&mut unknown))?;
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            notice::print(&format!("{name}: left out settings that memreel does not know: {unknown}"));
        }
        Ok(settings)
    }

    /// Returns these settings after a change at run time by `text`.
    ///
    /// As in PyTorch, every change first resets splitting, rounding and garbage
    /// collection to their defaults; other options keep their values unless
    /// `text` names them.
    ///
    /// # Errors
    /// [`is_invalid_option`](Error::is_invalid_option) with the position in the text.
    pub fn updated(&self, text: &str) -> Result<Settings> {
        parse("the allocator's settings", self, text, None)
    }
}

/// Returns the settings `before` after the changes in `text`; `origin` names the source in errors. The names of unknown
/// options go to `unknown`; without it they are errors.
fn parse(
    origin: &'static str,
    before: &Settings,
    text: &str,
    mut unknown: Option<&mut Vec<String>>,
) -> Result<Settings> {
    let mut reader = Reader { origin, text, tokens: tokens(text).into_iter().peekable() };
    let options = reader.options()?;
    let mut settings = Settings {
        conf: text.to_owned(),
        max_split_bytes: None,
        roundup_power2_divisions: [0; 16],
        garbage_collection_threshold: 0.0,
        ..before.clone()
    };
    // The size of large segments bounds two other options, so it is applied first.
    let first = |option: &&Parsed| option.key.text == "large_segment_size_mb";
    for option in options.iter().filter(first) {
        settings.large_segment_bytes = reader.mebibytes(option, |mb| mb > 10, "a number above 10")?;
    }
    settings.max_non_split_rounding_bytes = settings.large_segment_bytes;
    for option in options.iter().filter(|option| !first(option)) {
        if !reader.apply(option, &mut settings)? {
            let Some(unknown) = &mut unknown else { return Err(reader.unknown(option.key)) };
            unknown.push(option.key.text.to_owned());
        }
    }
    Ok(settings)
}

/// The settings that an error message may suggest; those without effect are not among them.
const KNOWN: [&str; 8] = [
    "expandable_segments",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "large_segment_size_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "per_process_memory_fraction",
    "release_lock_on_cudamalloc",
];

/// A word or a separator, with its byte position in the text.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

/// One `key:value`.
#[derive(Debug)]
struct Parsed<'a> {
    key: Token<'a>,
    value: Value<'a>,
}

#[derive(Debug)]
enum Value<'a> {
    Word(Token<'a>),
    /// `[key:value,…]`, with the position of the bracket.
    List(usize, Vec<(Token<'a>, Token<'a>)>),
}

/// Splits a text into separators and the words between them, without white space.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for (at, separator) in text.match_indices([',', ':', '[', ']']).chain([(text.len(), "")]) {
        let word = &text[start..at];
        let trimmed = word.trim();
        if !trimmed.is_empty() {
            tokens.push(Token { at: start + word.find(trimmed).unwrap_or(0), text: trimmed });
        }
        if !separator.is_empty() {
            tokens.push(Token { at, text: separator });
        }
        start = at + separator.len();
    }
    tokens
}

struct Reader<'a> {
    origin: &'static str,
    text: &'a str,
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
}

impl<'a> Reader<'a> {
    fn options(&mut self) -> Result<Vec<Parsed<'a>>> {
        let mut options = Vec::new();
        while self.tokens.peek().is_some() {
            let key = self.word("an option's name")?;
            self.separator(":")?;
            let value = if self.tokens.next_if(|token| token.text == "[").is_some() {
                Value::List(key.at, self.list()?)
            } else {
                Value::Word(self.word("a value")?)
            };
            options.push(Parsed { key, value });
            if self.tokens.peek().is_some() {
                self.separator(",")?;
            }
        }
        Ok(options)
    }

    fn list(&mut self) -> Result<Vec<(Token<'a>, Token<'a>)>> {
        let mut pairs = Vec::new();
        loop {
            let key = self.word("a size in MiB or >")?;
            self.separator(":")?;
            pairs.push((key, self.word("a number of divisions")?));
            if self.tokens.next_if(|token| token.text == "]").is_some() {
                return Ok(pairs);
            }
            self.separator(",")?;
        }
    }

    fn word(&mut self, wanted: &str) -> Result<Token<'a>> {
        match self.tokens.next() {
            Some(token) if !",:[]".contains(token.text) => Ok(token),
            other => Err(self.refuse(other, wanted)),
        }
    }

    fn separator(&mut self, wanted: &str) -> Result<()> {
        match self.tokens.next() {
            Some(token) if token.text == wanted => Ok(()),
            other => Err(self.refuse(other, wanted)),
        }
    }

    /// Returns the error for a text that does not continue as it must.
    #[cold]
    fn refuse(&self, found: Option<Token<'_>>, wanted: &str) -> Error {
        let found = found.unwrap_or(Token { at: self.text.len(), text: "the end" });
        self.error(&format!("expected {wanted} instead of"), found, "")
    }

    /// Returns the error for a value that a setting does not accept.
    #[cold]
    fn wrong(&self, setting: Token<'_>, found: Token<'_>, wanted: &str) -> Error {
        self.error(&format!("{} takes {wanted} instead of", setting.text), found, "")
    }

    #[cold]
    fn unknown(&self, found: Token<'_>) -> Error {
        self.error("unknown setting", found, &format!("; the settings are {}", KNOWN.join(", ")))
    }

    fn error(&self, what: &str, Token { at, text }: Token<'_>, then: &str) -> Error {
        let why = format!("{what} {text:?} at character {at} of {:?}{then}", self.text);
        Error::invalid_settings(self.origin, why)
    }

    /// Returns false for an unknown option.
    fn apply(&self, option: &Parsed<'a>, settings: &mut Settings) -> Result<bool> {
        let least = settings.large_segment_bytes;
        let at_least = format!("a number from {} on", least / MIB);
        match option.key.text {
            "expandable_segments" => settings.expandable_segments = self.boolean(option)?,
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
                settings.release_lock_on_device_alloc = self.boolean(option)?;
            }
            "max_split_size_mb" => {
                let bytes = self.mebibytes(option, |mb| mb >= least / MIB, &at_least)?;
                settings.max_split_bytes = Some(bytes);
            }
            "max_non_split_rounding_mb" => {
                let bytes = self.mebibytes(option, |mb| mb >= least / MIB, &at_least)?;
                settings.max_non_split_rounding_bytes = bytes;
            }
            "garbage_collection_threshold" => {
                let within = |t: f64| t > 0.0 && t < 1.0;
                settings.garbage_collection_threshold =
                    self.fraction(option, within, "a number between 0.0 and 1.0")?;
            }
            "per_process_memory_fraction" => {
                let within = |f: f64| (0.0..=1.0).contains(&f);
                settings.per_process_memory_fraction =
                    self.fraction(option, within, "a number from 0.0 to 1.0")?;
            }
            "roundup_power2_divisions" => settings.roundup_power2_divisions = self.divisions(option)?,
            "backend" => self.one_of(option, &["native"])?,
            // These are about graph capture and pinned memory, which memreel lacks: checked, but without effect.
            "graph_capture_record_stream_reuse"
            | "pinned_use_cuda_host_register"
            | "pinned_use_background_threads" => self.one_of(option, &["True", "False"])?,
            "pinned_num_register_threads" => {
                self.number(option, |n: u64| n.is_power_of_two() && n <= 128, "a power of two up to 128")?;
            }
            "pinned_reserve_segment_size_mb" => {
                self.number(option, |n: u64| n > 0, "a number above 0")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the value of an option that must be a word.
    fn value(&self, option: &Parsed<'a>, wanted: &str) -> Result<Token<'a>> {
        match option.value {
            Value::Word(word) => Ok(word),
            Value::List(at, _) => Err(self.wrong(option.key, Token { at, text: "a list" }, wanted)),
        }
    }

    fn boolean(&self, option: &Parsed<'a>) -> Result<bool> {
        self.one_of(option, &["True", "False"])?;
        Ok(self.value(option, "")?.text == "True")
    }

    fn one_of(&self, option: &Parsed<'a>, words: &[&str]) -> Result<()> {
        let wanted = words.join(" or ");
        let word = self.value(option, &wanted)?;
        if words.contains(&word.text) { Ok(()) } else { Err(self.wrong(option.key, word, &wanted)) }
    }

    fn number<N: std::str::FromStr + Copy>(
        &self,
        option: &Parsed<'a>,
        fits: impl Fn(N) -> bool,
        wanted: &str,
    ) -> Result<N> {
        let word = self.value(option, wanted)?;
        let number = word.text.parse().ok().filter(|number| fits(*number));
        number.ok_or_else(|| self.wrong(option.key, word, wanted))
    }

    fn fraction(&self, option: &Parsed<'a>, fits: impl Fn(f64) -> bool, wanted: &str) -> Result<f64> {
        self.number(option, fits, wanted)
    }

    /// Reads a number of MiB and returns it in bytes.
    fn mebibytes(&self, option: &Parsed<'a>, fits: impl Fn(u64) -> bool, wanted: &str) -> Result<u64> {
        let countable = |mb: u64| mb <= u64::MAX / MIB && fits(mb);
        Ok(self.number(option, countable, wanted)? * MIB)
    }

    /// Reads one number for all intervals, or a list of intervals: its first
    /// entry also fills the intervals below, `>` those above the last entry.
    fn divisions(&self, option: &Parsed<'a>) -> Result<[u32; 16]> {
        const WANTED: &str = "a power of two";
        let Value::List(_, pairs) = &option.value else {
            return Ok([self.number(option, u32::is_power_of_two, WANTED)?; 16]);
        };
        let (mut table, mut last) = ([0; 16], None);
        for (key, value) in pairs {
            let fits = |n: &u32| *n == 0 || n.is_power_of_two();
            let divisions = value.text.parse().ok().filter(fits);
            let divisions =
                divisions.ok_or_else(|| self.wrong(option.key, *value, "a power of two, or 0"))?;
            if key.text == ">" {
                table[last.map_or(0, |last: usize| last + 1)..].fill(divisions);
                continue;
            }
            let mb = key.text.parse().ok().filter(|mb: &u64| mb.is_power_of_two());
            let mb = mb.ok_or_else(|| self.wrong(option.key, *key, "a power of two in MiB, or >"))?;
            let index = (mb.trailing_zeros() as usize).min(15);
            let from = if last.is_none() { 0 } else { index };
            table[from..=index].fill(divisions);
            last = Some(index);
        }
        Ok(table)
    }
}
