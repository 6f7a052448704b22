//! Decides which answer a request gets, and which threads compute it.

#![forbid(unsafe_code)]

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{
    answer, block, compare, device::Device, groups::Colour, icicle, list, picture, reading::Source,
    recording::Recording, refusal::Refusal, request::Request, state,
};
use crate::{input::NamedSnapshot, row::Maker};

/// What the page asks about: the files of the command line, and those that are read.
pub(super) struct Files<'a> {
    pub(super) sources: &'a [Source],
    pub(super) recordings: &'a [OnceLock<Recording<'a>>],
    /// Makes the program whose commands answer.
    pub(super) make: Maker,
}

/// An answer: a status of HTTP, a content type, and the bytes.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    pub(super) fn json(value: &Value) -> Answer {
        Answer { status: 200, kind: JSON, bytes: value.to_string().into_bytes() }
    }
}

const JSON: &str = "application/json";

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let why = json!({ "error": refusal.why });
        Answer { status: refusal.status, ..Answer::json(&why) }
    }
}

/// How long an answer takes. A slow one does not keep a quick one waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Quick,
    Slow,
}

/// A path below the token.
struct Route {
    path: &'static str,
    pace: Pace,
    answer: fn(&Files<'_>, &Request) -> Result<Answer, Refusal>,
}

/// A route whose answer is about a device.
macro_rules! of_device {
    ($path:literal, $pace:ident, $answer:path) => {
        Route {
            path: $path,
            pace: Pace::$pace,
            answer: |files, request| Ok(Answer::json(&$answer(request, files.device(request)?)?)),
        }
    };
}

const ROUTES: &[Route] = &[
    Route { path: "files", pace: Pace::Quick, answer: |files, _| Ok(Answer::json(&files.describe())) },
    Route {
        path: "picture",
        pace: Pace::Quick,
        answer: |files, request| drawn(request, files.device(request)?),
    },
    of_device!("groups", Slow, groups),
    of_device!("block", Quick, block::answer),
    of_device!("totals", Quick, state::figures),
    of_device!("moment", Quick, moment),
    of_device!("next", Quick, state::next),
    of_device!("state", Quick, state::answer),
    of_device!("icicle", Slow, icicle::answer),
    of_device!("list", Slow, list::answer),
    of_device!("curve", Quick, compare::curve),
    of_device!("whatif", Slow, compare::whatif),
    Route {
        path: "answer",
        pace: Pace::Slow,
        answer: |files, request| {
            let asked = answer::PageFiles { named: &|file| files.named(file), make: files.make };
            Ok(Answer::json(&answer::answer(request, files.device(request)?, &asked)?))
        },
    },
    Route { path: "diff", pace: Pace::Slow, answer: compared },
];

fn route(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}

/// Returns whether the answer to a request takes long.
pub(super) fn is_slow(request: &Request) -> bool {
    route(&request.path).is_some_and(|route| route.pace == Pace::Slow)
}

impl<'a> Files<'a> {
    /// Answers a request.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        self.find(request).unwrap_or_else(Answer::from)
    }

    fn find(&self, request: &Request) -> Result<Answer, Refusal> {
        let missing = || Refusal::missing(format!("there is nothing at {:?}", request.path));
        (route(&request.path).ok_or_else(missing)?.answer)(self, request)
    }

    /// Returns the device that a request is about.
    fn device(&self, request: &Request) -> Result<&Device<'a>, Refusal> {
        self.recording(request.number("file")?.unwrap_or(0))?.device(request.number("device")?)
    }

    /// Returns the device that [`Files::device`] is compared with. A rank often has a device of its own.
    fn other_device(&self, request: &Request) -> Result<&Device<'a>, Refusal> {
        let number = request.number("other_device")?.or(request.number("device")?);
        self.recording(request.required("other")?)?.device(number)
    }

    fn recording(&self, file: usize) -> Result<&Recording<'a>, Refusal> {
        let source =
            self.sources.get(file).ok_or_else(|| Refusal::missing(format!("there is no file {file}")))?;
        match source.failure() {
            Some(why) => Err(Refusal::missing(why.clone())),
            None => {
                self.recordings[file].get().ok_or_else(|| Refusal::missing("the file is still being read"))
            }
        }
    }

    /// Returns a file that is read, for questions about it.
    fn named(&self, file: usize) -> Result<NamedSnapshot, Refusal> {
        self.recording(file)?;
        let source = &self.sources[file];
        match source.snapshot.get() {
            Some(Ok(snapshot)) => Ok(NamedSnapshot { name: source.name.clone(), snapshot: snapshot.clone() }),
            _ => Err(Refusal::missing("the file is still being read")),
        }
    }

    /// Returns the files, each with its devices or with how much of it is read.
    pub(super) fn describe(&self) -> Value {
        let files = self.sources.iter().zip(self.recordings).map(|(source, recording)| {
            let mut file = json!({ "name": source.name });
            match (source.failure(), recording.get()) {
                (Some(why), _) => {
                    file["state"] = "failed".into();
                    file["error"] = why.clone().into();
                }
                (_, Some(recording)) => {
                    file["state"] = "ready".into();
                    file["devices"] = recording.described().into();
                }
                _ => {
                    file["state"] = "reading".into();
                    file["read"] = source.part().into();
                    file["coarse"] = source.coarse();
                }
            }
            file
        });
        json!({ "files": files.collect::<Vec<_>>(), "version": env!("CARGO_PKG_VERSION") })
    }
}

fn drawn(request: &Request, device: &Device<'_>) -> Result<Answer, Refusal> {
    let bytes = picture::answer(request, device)?;
    Ok(Answer { status: 200, kind: "application/octet-stream", bytes })
}

fn compared(files: &Files<'_>, request: &Request) -> Result<Answer, Refusal> {
    let diff = compare::diff(request, files.device(request)?, files.other_device(request)?)?;
    Ok(Answer::json(&diff))
}

/// Returns the moment of a time.
fn moment(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let time_us: i64 = request.required("time_us")?;
    let since_us = time_us.saturating_sub(device.first_us().unwrap_or(0));
    Ok(json!({ "moment": device.moment_at(since_us) }))
}

/// The most groups of a legend.
const MAX_GROUPS: usize = 200;

/// Returns the groups of a colour with the bytes that they hold at the peak, the largest first.
fn groups(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let groups = device.groups(Colour::parse(request.text("colour"))?);
    let moment = request.moment("moment")?.unwrap_or(device.peak.moment);
    let choice = super::choice::Choice::of(request, device, true)?;
    let mut bytes = vec![0_u64; groups.names.len()];
    for (number, life) in (0..).zip(device.history.lives()) {
        if life.is_active_at(moment)
            && (choice.is_all() || choice.holds(life, number))
            && let Some(sum) = bytes.get_mut(groups.number(life, number) as usize)
        {
            *sum = sum.saturating_add(life.represented_bytes);
        }
    }
    let mut largest: Vec<(usize, u64)> =
        bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0).collect();
    largest.sort_by_key(|(group, bytes)| (std::cmp::Reverse(*bytes), *group));
    let row = |(group, bytes): &(usize, u64)| json!({ "group": group, "name": groups.names[*group], "bytes": bytes });
    let rows: Vec<Value> = largest.iter().take(MAX_GROUPS).map(row).collect();
    Ok(json!({ "n_groups": largest.len(), "groups": rows }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_path_that_the_page_asks_is_a_route() {
        let page = include_str!("../../../viewer/source.js");
        let names = page.split("json(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let paths: BTreeSet<&str> = names.chain(["picture"]).collect();
        assert_eq!(paths.len(), ROUTES.len(), "{paths:?}");
        assert!(paths.iter().all(|path| route(path).is_some()), "{paths:?}");
    }

    #[test]
    fn an_answer_over_all_blocks_is_slow() {
        let is_slow = |path| is_slow(&Request::new(path, None));
        assert!(["answer", "diff", "groups", "icicle", "list", "whatif"].into_iter().all(is_slow));
        assert!(!["files", "picture", "state", "nothing"].into_iter().any(is_slow));
    }
}
