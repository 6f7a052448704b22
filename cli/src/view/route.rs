//! Which answer a request gets.

#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::{
    asked::Asked, block, compare, device::Device, groups::Colour, icicle, order, picture, reading::Source,
    recording::Recording, refusal::Refusal, state,
};
use std::sync::OnceLock;

/// What the page asks about: the files of the command line, and those that are read.
pub(super) struct Files<'a> {
    pub(super) sources: &'a [Source],
    pub(super) recordings: &'a [OnceLock<Recording<'a>>],
}

/// An answer: a status of HTTP, a content type, and the bytes.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    fn json(value: &Value) -> Answer {
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

impl<'a> Files<'a> {
    /// Answers a request.
    pub(super) fn answer(&self, asked: &Asked) -> Answer {
        self.find(asked).unwrap_or_else(Answer::from)
    }

    fn find(&self, asked: &Asked) -> Result<Answer, Refusal> {
        if asked.path == "files" {
            return Ok(Answer::json(&self.describe()));
        }
        let recording = self.recording(asked.number("file")?.unwrap_or(0))?;
        let number = asked.number("device")?;
        let device = recording.device(number)?;
        let value = match &*asked.path {
            "picture" => {
                let bytes = picture::answer(asked, device)?;
                return Ok(Answer { status: 200, kind: "application/octet-stream", bytes });
            }
            "groups" => groups(asked, device)?,
            "block" => block::answer(asked, device)?,
            "totals" => state::figures(asked, device)?,
            "moment" => {
                let time_us: i64 = asked.required("time_us")?;
                let since_us = time_us.saturating_sub(device.first_us().unwrap_or(0));
                json!({ "moment": device.moment_at(since_us) })
            }
            "next" => state::next(asked, device)?,
            "state" => state::answer(asked, device)?,
            "icicle" => icicle::answer(asked, device)?,
            "list" => order::answer(asked, device)?,
            "curve" => compare::curve(asked, device)?,
            "whatif" => compare::whatif(asked, device)?,
            "diff" => {
                let other = self.recording(asked.required("other")?)?;
                // A rank often has a device of its own.
                compare::diff(asked, device, other.device(asked.number("other_device")?.or(number))?)?
            }
            other => return Err(Refusal::missing(format!("there is nothing at {other:?}"))),
        };
        Ok(Answer::json(&value))
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

/// The most groups of a legend.
const MAX_GROUPS: usize = 200;

/// Returns the groups of a colour with the bytes that they hold at the peak, the largest first.
pub(super) fn groups(asked: &Asked, device: &Device<'_>) -> Result<Value, Refusal> {
    let groups = device.groups(Colour::parse(asked.text("colour"))?);
    let moment = asked.moment("moment")?.unwrap_or(device.peak.moment);
    let choice = super::choice::Choice::asked(asked, device, true)?;
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
