//! The answers that a page in one file has: pictures of all of a history and finer ones around the moments that matter, the
//! states at these moments, and the largest blocks.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use flate2::{Compression, write::ZlibEncoder};
use memreel_snapshot::{Action, history::Moment};
use serde_json::{Map, Value, json};

use super::{
    block,
    device::Device,
    figures,
    groups::{COLOURS, Colour},
    list,
    refusal::Refusal,
    request::Request,
    route::Files,
    state,
};
use crate::progress::Progress;

/// The most bytes of the answers, so that the page, which has them as base64, has at most 20 MB.
pub(super) const MAX_BYTES: usize = 14_400_000;

/// The levels of the pictures of the whole history.
const N_LEVELS: u32 = 4;

/// The rows of a picture.
const N_ROWS: usize = 400;

/// The largest blocks that have all of their details.
const N_BLOCKS: usize = 1500;

/// The most frames of a block.
const MAX_FRAMES: usize = 40;

/// The moments around one that matters whose figures are exact.
const N_AROUND: usize = 500;

/// The most failed requests whose states are kept.
const N_OOMS: usize = 4;

/// Answers, each deflated on its own, and their places.
#[derive(Default)]
struct Pack {
    index: Map<String, Value>,
    bytes: Vec<u8>,
    room_bytes: usize,
    /// The number of answers that found no room.
    n_left_out: usize,
}

impl Pack {
    /// Adds an answer, if there is room for it.
    fn add(&mut self, key: String, answer: &[u8]) -> io::Result<()> {
        let deflated = deflated(answer)?;
        if self.bytes.len() + deflated.len() > self.room_bytes {
            self.n_left_out += 1;
            return Ok(());
        }
        self.push(key, &deflated);
        Ok(())
    }

    /// Adds an answer that the page cannot be without.
    fn needed(&mut self, key: &str, answer: &Value) -> io::Result<()> {
        let deflated = deflated(answer.to_string().as_bytes())?;
        self.push(key.to_owned(), &deflated);
        Ok(())
    }

    fn push(&mut self, key: String, deflated: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(deflated);
        self.index.insert(key, json!([from, self.bytes.len()]));
    }

    fn json(&mut self, key: String, answer: &Value) -> io::Result<()> {
        self.add(key, answer.to_string().as_bytes())
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

/// Returns the answers about files that are read. The order is that of their importance: what comes last is left out first.
pub(super) fn pack(files: &Files<'_>, room_bytes: usize) -> io::Result<Vec<u8>> {
    let mut pack = Pack { room_bytes, ..Pack::default() };
    pack.needed("files", &files.describe())?;
    let recordings: Vec<_> =
        files.recordings.iter().enumerate().filter_map(|(at, one)| Some((at, one.get()?))).collect();
    let devices: Vec<(usize, &Device<'_>)> = recordings
        .iter()
        .flat_map(|(at, recording)| recording.devices.iter().map(|device| (*at, device)))
        .collect();
    let progress = Progress::new(devices.len() as u64 * 5);
    for (file, device) in &devices {
        let at = format!("{file}/{}", device.id);
        pack.needed(&format!("device/{at}"), &describe(device)?)?;
        for (name, _) in COLOURS {
            let request = Request::new("groups", Some(&format!("colour={name}")));
            pack.json(
                format!("groups/{at}/{name}"),
                &super::route::groups(&request, device).map_err(failed)?,
            )?;
        }
        pictures(&mut pack, &at, device, 0..2)?;
        progress.add(1);
    }
    for (file, device) in &devices {
        states(&mut pack, &format!("{file}/{}", device.id), device)?;
        progress.add(1);
    }
    for (file, device) in &devices {
        around(&mut pack, &format!("{file}/{}", device.id), device)?;
        progress.add(1);
    }
    for (file, device) in &devices {
        pictures(&mut pack, &format!("{file}/{}", device.id), device, 2..N_LEVELS)?;
        progress.add(1);
    }
    differences(&mut pack, &recordings)?;
    for (file, device) in &devices {
        colours(&mut pack, &format!("{file}/{}", device.id), device)?;
        progress.add(1);
    }
    let note = note(&pack, &devices);
    pack.needed("note", &note.into())?;
    pack.into_bytes()
}

fn failed(refusal: Refusal) -> io::Error {
    io::Error::other(refusal.why)
}

/// Says what the file has and what it leaves out.
fn note(pack: &Pack, devices: &[(usize, &Device<'_>)]) -> String {
    let n_lives: usize = devices.iter().map(|(_, device)| device.history.lives().len()).sum();
    let n_kept: usize = devices.iter().map(|(_, device)| device.history.lives().len().min(N_BLOCKS)).sum();
    let blocks = if n_kept < n_lives {
        format!(" details of the {n_kept} largest of {n_lives} blocks;")
    } else {
        String::new()
    };
    let room = if pack.n_left_out > 0 {
        format!(" {} pictures and states found no room;", pack.n_left_out)
    } else {
        String::new()
    };
    format!(
        "Written by memreel view --html. Exact around the peak, failed requests and the end;{blocks}{room} the recording itself has the rest."
    )
}

/// Returns the moments that matter: the peak, the end, and the last failed requests.
fn moments(device: &Device<'_>) -> BTreeSet<u32> {
    let entries = device.history.entries().iter().enumerate();
    let ooms =
        entries.filter(|(_, entry)| entry.action == Some(Action::Oom)).map(|(at, _)| Moment::after(at).0);
    let mut last: Vec<u32> = ooms.collect();
    let n_earlier = last.len().saturating_sub(N_OOMS);
    last.drain(..n_earlier);
    // A state that failed is that before the event, and after it.
    let before = last.clone().into_iter().map(|moment| moment.saturating_sub(1));
    let ends = [device.peak.moment.0, device.history.end().0];
    before.chain(last).chain(ends).collect()
}

/// Returns what the answers of one device share.
fn describe(device: &Device<'_>) -> io::Result<Value> {
    let rows = Request::new("list", Some(&format!("sort=bytes&count={N_BLOCKS}")));
    let rows = list::answer(&rows, device).map_err(failed)?["rows"].take();
    let mut blocks = Map::new();
    let mut kept: BTreeSet<u32> = rows.as_array().into_iter().flatten().filter_map(number).collect();
    kept.extend(shown(device));
    for life in &kept {
        if let Some(found) = device.life(*life) {
            blocks.insert(life.to_string(), block::block(device, found, *life, MAX_FRAMES));
        }
    }
    let groups = |life: &u32| {
        let found = device.life(*life)?;
        let of = |(_, colour): &(&str, Colour)| device.groups(*colour).number(found, *life);
        Some((life.to_string(), COLOURS.iter().map(of).collect::<Vec<_>>().into()))
    };
    let lives: Map<String, Value> = kept.iter().filter_map(groups).collect();
    Ok(json!({
        "rows": rows,
        "blocks": blocks,
        "groups": { "colours": COLOURS.map(|(name, _)| name), "lives": lives },
        "moments": moments(device),
        "curve": curve(device),
        "stretches": moments(device).into_iter().map(|moment| stretch(device, moment)).collect::<Vec<_>>(),
        "marks": marks(device),
    }))
}

fn number(row: &Value) -> Option<u32> {
    row["life"].as_u64().and_then(|life| u32::try_from(life).ok())
}

/// Returns the blocks of the picture of the whole, the largest of them.
fn shown(device: &Device<'_>) -> Vec<u32> {
    let ends = [Moment::START, device.history.end()];
    device
        .sizes
        .shown(device.history.lives(), ends, device.top_bytes / 800, [N_BLOCKS, N_BLOCKS], |_| true)
        .lives
}

/// Returns figures of the whole history, the highest of each stretch.
fn curve(device: &Device<'_>) -> Vec<Value> {
    const N_POINTS: usize = 1500;
    let n_moments = device.figures.n_moments();
    let n_points = N_POINTS.min(n_moments);
    let point = |point: usize| {
        let (from, until) = (point * n_moments / n_points, (point + 1) * n_moments / n_points);
        let highest = device.figures.between(&device.history, from, until).highest;
        let mut totals = state::totals(device, device.figures.at(&device.history, highest));
        totals["until"] = (until - 1).into();
        totals
    };
    (0..n_points).map(point).collect()
}

/// Returns the figures of every moment around one.
fn stretch(device: &Device<'_>, moment: u32) -> Value {
    let from = (moment as usize).saturating_sub(N_AROUND);
    let start = device.figures.at(&device.history, figures::moment(from));
    let all = std::iter::once(start).chain(device.history.totals_after(start)).take(2 * N_AROUND);
    let totals: Vec<Value> = all.map(|totals| state::totals(device, totals)).collect();
    json!({ "from": from, "totals": totals })
}

/// Returns the moments that the keys for the next one of a kind go to: the first ones, and up to which there are all.
fn marks(device: &Device<'_>) -> Value {
    const MAX_MARKS: usize = 50_000;
    let of = |is_of_kind: fn(Action) -> bool| {
        let entries = device.history.entries().iter().enumerate();
        let found = entries.filter(|(_, entry)| entry.action.is_some_and(is_of_kind));
        let mut moments: Vec<u32> = found.take(MAX_MARKS + 1).map(|(at, _)| Moment::after(at).0).collect();
        let is_whole = moments.len() <= MAX_MARKS;
        moments.truncate(MAX_MARKS);
        let whole_until = moments.last().copied().filter(|_| !is_whole);
        json!({ "moments": moments, "whole_until": whole_until })
    };
    json!({
        "oom": of(|action| action == Action::Oom),
        "segment": of(|action| action.name().starts_with("segment_")),
        "peak": { "moments": [device.peak.moment.0], "whole_until": null },
    })
}

/// The window of a picture, and what its colours mean.
#[derive(Clone, Copy)]
struct Cut {
    axis: &'static str,
    level: u32,
    index: u64,
    colour: &'static str,
}

impl Cut {
    /// The picture of a window in the colours that every window has.
    fn stacks(axis: &'static str, level: u32, index: u64) -> Cut {
        Cut { axis, level, index, colour: COLOURS[0].0 }
    }
}

/// Adds the pictures of some levels, by events and by time.
fn pictures(pack: &mut Pack, at: &str, device: &Device<'_>, levels: std::ops::Range<u32>) -> io::Result<()> {
    for level in levels {
        for axis in ["events", "time"] {
            for index in 0..(2_u64 << level) - 1 {
                picture(pack, at, device, Cut::stacks(axis, level, index))?;
            }
        }
    }
    Ok(())
}

/// Adds the picture of the whole in each of the other colours.
fn colours(pack: &mut Pack, at: &str, device: &Device<'_>) -> io::Result<()> {
    for (colour, _) in &COLOURS[1..] {
        for axis in ["events", "time"] {
            picture(pack, at, device, Cut { axis, level: 0, index: 0, colour })?;
        }
    }
    Ok(())
}

fn picture(pack: &mut Pack, at: &str, device: &Device<'_>, cut: Cut) -> io::Result<()> {
    let Cut { axis, level, index, colour } = cut;
    let key = format!("picture/{at}/{axis}/{level}/{index}/0/0/{colour}");
    if pack.index.contains_key(&key) {
        return Ok(());
    }
    // The last bytes of the room are too few for a picture.
    if pack.bytes.len() + 10_000 >= pack.room_bytes {
        pack.n_left_out += 1;
        return Ok(());
    }
    let query = format!("axis={axis}&level={level}&index={index}&rows={N_ROWS}&colour={colour}");
    let picture = super::picture::answer(&Request::new("picture", Some(&query)), device).map_err(failed)?;
    pack.add(key, &picture)
}

/// Adds the pictures of the levels below the coarse ones that have a moment that matters in them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn around(pack: &mut Pack, at: &str, device: &Device<'_>) -> io::Result<()> {
    let span = device.figures.n_moments() as f64;
    // The finest window has a column for each of its moments.
    let finest = (span / 1024.0).max(1.0).log2().ceil() as u32;
    for level in 2..=finest {
        let half = span / f64::from(level + 1).exp2();
        for moment in moments(device) {
            let in_halves = (f64::from(moment) / half) as u64;
            let last = (2_u64 << level) - 2;
            for index in [in_halves.saturating_sub(1), in_halves] {
                picture(pack, at, device, Cut::stacks("events", level, index.min(last)))?;
            }
        }
    }
    Ok(())
}

/// Adds the states and the trees of calls at the moments that matter.
fn states(pack: &mut Pack, at: &str, device: &Device<'_>) -> io::Result<()> {
    for moment in moments(device) {
        let request = |path: &str| Request::new(path, Some(&format!("moment={moment}")));
        let found = state::answer(&request("state"), device).map_err(failed)?;
        pack.json(format!("state/{at}/{moment}"), &found)?;
        let found = super::icicle::answer(&request("icicle"), device).map_err(failed)?;
        pack.json(format!("icicle/{at}/{moment}"), &found)?;
    }
    Ok(())
}

/// Adds the difference between the first file and each other one.
fn differences(pack: &mut Pack, recordings: &[(usize, &super::recording::Recording<'_>)]) -> io::Result<()> {
    let Some(((first, before), others)) = recordings.split_first() else { return Ok(()) };
    for (other, after) in others {
        for device in &before.devices {
            // A rank often has a device of its own, as in `compare.js`.
            let Some(after) = after.device(Some(device.id.0)).ok().or(after.devices.first()) else {
                continue;
            };
            let found = super::compare::diff(&Request::new("diff", None), device, after).map_err(failed)?;
            pack.json(format!("diff/{first}/{}/{other}", device.id), &found)?;
        }
    }
    Ok(())
}
