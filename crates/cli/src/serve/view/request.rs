//! A request of the page: a path and its parameters.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, str::FromStr};

use memreel_snapshot::history::Moment;
use percent_encoding::percent_decode_str;

use super::{figures, refusal::Refusal};

/// A path without the token, and the parameters after it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) path: String,
    parameters: BTreeMap<String, String>,
}

impl Request {
    pub(super) fn new(path: &str, query: Option<&str>) -> Request {
        let decoded =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Request { path: path.to_owned(), parameters: parameters.collect() }
    }

    /// Returns a parameter that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let read = |text: &str| text.parse().map_err(|_| wrong(name, text));
        self.text(name).map(read).transpose()
    }

    pub(super) fn required<T: FromStr>(&self, name: &str) -> Result<T, Refusal> {
        self.number(name)?.ok_or_else(|| Refusal::usage(format!("{name} is missing")))
    }

    pub(super) fn moment(&self, name: &str) -> Result<Option<Moment>, Refusal> {
        Ok(self.number::<u32>(name)?.map(|n| figures::moment(n as usize)))
    }
}

fn wrong(name: &str, text: &str) -> Refusal {
    let shown: String = text.chars().take(60).collect();
    Refusal::usage(format!("{shown:?} is not a {name}"))
}
