//! The answers in a single-file page: those of the server to a list of requests. They are pictures of all of a history
//! and finer ones around the moments that matter, the states at these moments, and what is kept of the largest blocks.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    io::{self, Write},
    ops::Range,
};

use flate2::{Compression, write::ZlibEncoder};
use memreel_snapshot::{Action, history::Moment};
use serde_json::{Map, Value, json};

use super::{block, device::Device, figures, groups::COLOURS, request::Request, route::Files, state};
use crate::text::Progress;

/// The most bytes of the answers, so that the page, which has them as base64, has at most 20 MB.
pub(super) const MAX_BYTES: usize = 14_400_000;

/// The last bytes of the room are too few for an answer.
const LEAST_BYTES: usize = 10_000;

/// The levels of the pictures of the whole history.
const N_LEVELS: u32 = 4;

/// The largest blocks that have all of their details.
const N_BLOCKS: usize = 1500;

/// The most frames of a block.
const MAX_FRAMES: usize = 40;

/// The stretches of the history of which the highest figures are kept.
const N_STRETCHES: usize = 1500;

/// The moments around one that matters whose figures are exact.
const N_AROUND: usize = 500;

/// The most failed requests whose states are kept.
const N_OOMS: usize = 4;

/// The most moments of a kind that the keys go to.
const MAX_MARKS: usize = 50_000;

/// Answers, each deflated on its own, and their places by the address that was requested.
#[derive(Default)]
struct Pack {
    index: Map<String, Value>,
    bytes: Vec<u8>,
    room_bytes: usize,
    /// The number of answers that found no room.
    n_left_out: usize,
}

impl Pack {
    /// Adds the server's answer to a request, if there is room for it.
    fn request(&mut self, files: &Files<'_>, url: String) -> io::Result<()> {
        if self.index.contains_key(&url) {
            return Ok(());
        }
        if self.bytes.len() + LEAST_BYTES < self.room_bytes {
            let (path, query) = url.split_once('?').unwrap_or((&url, ""));
            let answer = files.answer(&Request::new(path, Some(query)));
            if answer.status != 200 {
                return Err(io::Error::other(String::from_utf8_lossy(&answer.bytes)));
            }
            let deflated = deflated(&answer.bytes)?;
            if self.bytes.len() + deflated.len() <= self.room_bytes {
                self.push(url, &deflated);
                return Ok(());
            }
        }
        self.n_left_out += 1;
        Ok(())
    }

    /// Adds what the page cannot be without.
    fn needed(&mut self, key: String, answer: &Value) -> io::Result<()> {
        self.push(key, &deflated(answer.to_string().as_bytes())?);
        Ok(())
    }

    fn push(&mut self, key: String, deflated: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(deflated);
        self.index.insert(key, json!([from, self.bytes.len()]));
    }

    fn into_bytes(self) -> io::Result<Vec<u8>> {
        let index = deflated(Value::Object(self.index).to_string().as_bytes())?;
        let length = u32::try_from(index.len()).map_err(io::Error::other)?;
        Ok([&length.to_le_bytes()[..], &index, &self.bytes].concat())
    }
}

fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// A device, and the parameters that name it in a request. The page sorts the parameters of a request by their names.
struct Of<'d> {
    device: &'d Device<'d>,
    url: String,
}

/// Returns the answers about files that are read.
pub(super) fn pack(files: &Files<'_>, room_bytes: usize) -> io::Result<Vec<u8>> {
    let mut pack = Pack { room_bytes, ..Pack::default() };
    pack.needed("files".to_owned(), &files.describe())?;
    let recordings = files.recordings.iter().enumerate().filter_map(|(at, one)| Some((at, one.get()?)));
    let devices: Vec<Of<'_>> = recordings
        .flat_map(|(file, recording)| recording.devices.iter().map(move |device| (file, device)))
        .map(|(file, device)| Of { device, url: format!("device={}&file={file}", device.id) })
        .collect();
    for of in &devices {
        pack.needed(format!("kept?{}", of.url), &kept(of.device))?;
    }
    let requests = requests(files, &devices);
    let progress = Progress::new(requests.len() as u64);
    for url in requests {
        pack.request(files, url)?;
        progress.add(1);
    }
    let note = note(&pack, &devices);
    pack.needed("note".to_owned(), &note.into())?;
    pack.into_bytes()
}

/// Says what the file has and what it leaves out.
fn note(pack: &Pack, devices: &[Of<'_>]) -> String {
    let n_lives = |of: &Of<'_>| of.device.history.lives().len();
    let n_all: usize = devices.iter().map(n_lives).sum();
    let n_kept: usize = devices.iter().map(|of| n_lives(of).min(N_BLOCKS)).sum();
    let mut left_out = String::new();
    if n_kept < n_all {
        left_out += &format!(" details of the {n_kept} largest of {n_all} blocks;");
    }
    if pack.n_left_out > 0 {
        left_out += &format!(" {} drawings and states did not fit;", pack.n_left_out);
    }
    format!(
        "Written by memreel view --html. Exact around the peak, failed requests and the end;{left_out} see \
         the recording itself for the rest."
    )
}

/// Returns the moments that matter: the peak, the end, and the last failed requests.
fn moments(device: &Device<'_>) -> BTreeSet<u32> {
    let ooms = marks(device, |action| action == Action::Oom);
    let last = &ooms[ooms.len().saturating_sub(N_OOMS)..];
    // A state that failed is that before the event, and after it.
    let of_ooms = last.iter().flat_map(|moment| [moment.saturating_sub(1), *moment]);
    of_ooms.chain([device.peak.moment.0, device.history.end().0]).collect()
}

/// Returns the moments of the events of a kind.
fn marks(device: &Device<'_>, is_of_kind: impl Fn(Action) -> bool) -> Vec<u32> {
    let entries = device.history.entries().iter().enumerate();
    let found = entries.filter(|(_, entry)| entry.action.is_some_and(&is_of_kind));
    found.map(|(at, _)| Moment::after(at).0).collect()
}

/// Returns what the page looks up in a device: its largest blocks, the figures of moments, and where the keys go.
fn kept(device: &Device<'_>) -> Value {
    let until = |mut moments: Vec<u32>| {
        let is_whole = moments.len() <= MAX_MARKS;
        moments.truncate(MAX_MARKS);
        let until = moments.last().copied().filter(|_| !is_whole);
        json!({ "moments": moments, "until": until.unwrap_or(u32::MAX) })
    };
    json!({
        "blocks": blocks(device),
        "moments": moments(device),
        "totals": totals(device),
        "marks": {
            "oom": until(marks(device, |action| action == Action::Oom)),
            "segment": until(marks(device, |action| action.name().starts_with("segment_"))),
            "peak": until(vec![device.peak.moment.0]),
        },
    })
}

/// Returns the largest blocks by their numbers, with their group in each colour.
fn blocks(device: &Device<'_>) -> Map<String, Value> {
    let all = [Moment::START, device.history.end()];
    let largest = device.sizes.shown(device.history.lives(), all, 0, [N_BLOCKS; 2], |_| true).lives;
    let block = |number: u32| {
        let life = device.life(number)?;
        let mut block = block::block(device, life, number, MAX_FRAMES);
        for (name, colour) in COLOURS {
            block["groups"][name] = device.groups(colour).number(life, number).into();
        }
        Some((number.to_string(), block))
    };
    largest.into_iter().filter_map(block).collect()
}

/// Returns the figures of the highest moment of each stretch of the history, and of every moment around those that matter.
fn totals(device: &Device<'_>) -> Vec<Value> {
    let (history, n_moments) = (&device.history, device.figures.n_moments());
    let n_stretches = N_STRETCHES.min(n_moments);
    let edge = |stretch: usize| stretch * n_moments / n_stretches;
    let highest = |stretch| device.figures.between(history, edge(stretch), edge(stretch + 1)).highest;
    let mut all: BTreeSet<usize> = (0..n_stretches).map(|stretch| highest(stretch).n_entries()).collect();
    for moment in moments(device) {
        let moment = moment as usize;
        all.extend(moment.saturating_sub(N_AROUND)..(moment + N_AROUND).min(n_moments));
    }
    let at = |moment| state::totals(device, device.figures.at(history, figures::moment(moment)));
    all.into_iter().map(at).collect()
}

/// Returns the requests whose answers the page has. The order is that of their importance: what comes last is left out first.
fn requests(files: &Files<'_>, devices: &[Of<'_>]) -> Vec<String> {
    let overview = devices.iter().flat_map(|Of { url, .. }| {
        let groups = COLOURS.iter().map(move |(colour, _)| format!("groups?colour={colour}&{url}"));
        groups
            .chain([format!("answer?{url}"), format!("curve?{url}")])
            .chain(["leaks", "oom"].map(|question| format!("answer?{url}&question={question}")))
            .chain(pictures(url, 0..2))
    });
    let states = devices.iter().flat_map(|Of { device, url }| {
        let of =
            move |at| [format!("state?{url}&moment={at}"), format!("icicle?{url}&moment={at}&what=live")];
        moments(device).into_iter().flat_map(of)
    });
    let finer = devices.iter().flat_map(|Of { url, .. }| pictures(url, 2..N_LEVELS));
    let colours = devices.iter().flat_map(|Of { url, .. }| {
        let others = COLOURS[1..].iter().map(|(colour, _)| colour);
        others.flat_map(move |colour| ["events", "time"].map(|axis| picture(url, axis, 0, 0, colour)))
    });
    let around = devices.iter().flat_map(around);
    overview.chain(states).chain(around).chain(finer).chain(differences(files)).chain(colours).collect()
}

fn picture(url: &str, axis: &str, level: u32, index: u64, colour: &str) -> String {
    format!("picture?axis={axis}&colour={colour}&{url}&index={index}&level={level}&rise=0&shelf=0")
}

/// Returns the pictures of some levels, by events and by time, in the colours that every window has.
fn pictures(url: &str, levels: Range<u32>) -> impl Iterator<Item = String> {
    let windows = levels.flat_map(|level| (0..(2_u64 << level) - 1).map(move |index| (level, index)));
    windows.flat_map(move |(level, index)| {
        ["events", "time"].map(|axis| picture(url, axis, level, index, COLOURS[0].0))
    })
}

/// Returns the pictures of the levels below the coarse ones that have a moment that matters in them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn around(Of { device, url }: &Of<'_>) -> impl Iterator<Item = String> {
    let span = device.figures.n_moments() as f64;
    // The finest window has a column for each of its moments.
    let finest = (span / 1024.0).max(1.0).log2().ceil() as u32;
    let moments = moments(device);
    let windows = (2..=finest).flat_map(move |level| {
        let half = span / f64::from(level + 1).exp2();
        let last = (2_u64 << level) - 2;
        let in_halves = move |moment: u32| (f64::from(moment) / half) as u64;
        let of = move |moment| {
            [in_halves(moment).saturating_sub(1), in_halves(moment)].map(|at| (level, at.min(last)))
        };
        moments.clone().into_iter().flat_map(of)
    });
    windows.map(move |(level, index)| picture(url, "events", level, index, COLOURS[0].0))
}

/// Returns the differences between the first file and each other one.
fn differences(files: &Files<'_>) -> Vec<String> {
    let mut recordings = files.recordings.iter().enumerate().filter_map(|(at, one)| Some((at, one.get()?)));
    let Some((first, before)) = recordings.next() else { return Vec::new() };
    let of = |(other, after): (usize, &super::recording::Recording<'_>)| {
        let url = |device: &Device<'_>| {
            // A rank often has a device of its own, as in `compare.js`.
            let there = after.device(Some(device.id.0)).ok().or(after.devices.first())?.id;
            Some(format!("diff?device={}&file={first}&other={other}&other_device={there}", device.id))
        };
        before.devices.iter().filter_map(url).collect::<Vec<_>>()
    };
    recordings.flat_map(of).collect()
}
