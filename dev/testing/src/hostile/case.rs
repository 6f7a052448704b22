//! A file of the corpus, which has as many records as are asked for.

use serde_json::Value;

use super::document::{Form, of_opcodes, written};

/// A file of the corpus.
#[derive(Debug)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    pub(super) made: Made,
}

/// How a case is made.
#[derive(Debug)]
pub(super) enum Made {
    /// A value that can be a pickle or JSON.
    Both(fn(u64) -> Value),
    /// A value that is small as a pickle only.
    Pickle(fn(u64) -> Value),
    Opcodes(fn(usize) -> Vec<u8>),
    Text(fn(usize) -> String),
}

impl Case {
    /// Returns the forms that it has.
    #[must_use]
    pub fn forms(&self) -> &'static [Form] {
        match self.made {
            Made::Both(_) => &[Form::Pickle, Form::Json],
            Made::Text(_) => &[Form::Json],
            _ => &[Form::Pickle],
        }
    }

    /// Returns the name of its file.
    #[must_use]
    pub fn file_name(&self, form: Form) -> String {
        let ending = if form == Form::Pickle { "pickle" } else { "json" };
        format!("{}.{ending}", self.name)
    }

    /// Returns a file of at most about this number of bytes.
    #[must_use]
    pub fn of_bytes(&self, form: Form, n_bytes: usize) -> Vec<u8> {
        let [few, more] = [100, 200].map(|n| self.of(form, n).len() as f64);
        let n = match (more - few) / 100.0 {
            0.0 => 1,
            bytes_each => ((n_bytes as f64 - few) / bytes_each + 100.0).max(1.0) as usize,
        };
        let file = self.of(form, n);
        // Later records may be longer than the first.
        if file.len() > n_bytes && n > 1 { self.of(form, (n * n_bytes / file.len()).max(1)) } else { file }
    }

    /// Returns the file for a count.
    #[must_use]
    pub fn of(&self, form: Form, n: usize) -> Vec<u8> {
        match self.made {
            Made::Both(value) | Made::Pickle(value) => written(form, &value(n as u64)),
            Made::Opcodes(opcodes) => of_opcodes(&opcodes(n)),
            Made::Text(text) => text(n).into(),
        }
    }
}
