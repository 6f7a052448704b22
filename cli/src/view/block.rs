//! A block and all that is known about it.

#![forbid(unsafe_code)]

use memreel::{
    Address,
    analysis::MarkedFrame,
    history::{Life, Moment},
};
use serde_json::{Value, json};

use super::{asked::Asked, device::Device, groups::Colour, order::until, refusal::Refusal, words};

/// The most frames of a stack in an answer.
const MAX_FRAMES: usize = 200;

/// The most names of a block in an answer.
const MAX_NAMES: usize = 20;

/// Returns the block of a number, or the one at an address at a moment.
pub(super) fn answer(asked: &Asked, device: &Device<'_>) -> Result<Value, Refusal> {
    let number = match asked.text("address") {
        Some(address) => at_address(asked, device, address)?,
        None => asked.required("life")?,
    };
    let life = device.life(number).ok_or_else(|| Refusal::missing(format!("there is no block {number}")))?;
    Ok(block(device, life, number, MAX_FRAMES))
}

fn at_address(asked: &Asked, device: &Device<'_>, text: &str) -> Result<u32, Refusal> {
    let digits = text.strip_prefix("0x");
    let read = digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    let address = Address(read.ok_or_else(|| {
        Refusal::usage(format!("{text:?} is not an address; use for example 0x7f12000000"))
    })?);
    let moment = asked.moment("moment")?.unwrap_or_else(|| device.history.end());
    let (lives, sorted) = (device.history.lives(), device.by_address());
    let life = |number: &u32| &lives[*number as usize];
    let until = sorted.partition_point(|number| life(number).address <= address);
    // A block that begins before the address may have it inside; blocks of one segment do not overlap.
    let holds = |number: &&u32| {
        let life = life(number);
        life.is_active_at(moment) && address < life.address.saturating_add(life.bytes.max(1))
    };
    let found = sorted[..until].iter().rev().take(N_NEAR).find(holds);
    found.copied().ok_or_else(|| Refusal::missing(format!("no block is at {text} then")))
}

/// The most uses of addresses at and below one that are looked at.
const N_NEAR: usize = 100_000;

/// Returns all that is known about a block.
pub(super) fn block(device: &Device<'_>, life: &Life, number: u32, max_frames: usize) -> Value {
    let history = &device.history;
    let group = |colour| device.groups(colour).name(life, number);
    let shown = history.shown_frames();
    let frames = life.stack.into_iter().flat_map(|stack| shown.marked(stack));
    let n_frames = life.stack.map_or(0, |stack| history.snapshot().stacks.members(stack).len());
    let frame = |marked: MarkedFrame<'_>| {
        let frame = marked.frame;
        json!({
            "name": words::cut(&frame.name), "filename": words::cut(&frame.filename), "line": frame.line,
            "is_shown": marked.is_shown,
        })
    };
    let names: Vec<_> = history.names_of(life).into_iter().take(MAX_NAMES).map(words::cut).collect();
    let known = |moment: Moment| until(moment).and_then(|_| device.time_us(moment));
    json!({
        "life": number,
        "address": life.address.to_string(),
        "use": nth_use(device, life),
        "requested_bytes": life.requested_bytes,
        "bytes": life.bytes,
        "from": life.from.0,
        "requested": until(life.requested),
        "until": until(life.until),
        "is_from_before": life.is_from_before(),
        "from_us": if life.is_from_before() { None } else { known(life.from) },
        "until_us": known(life.until),
        "stream": life.stream,
        "pool": group(Colour::Pool),
        "owner": group(Colour::Owner),
        "scope": group(Colour::Scope),
        "names": names,
        "where": words::site(history, life),
        "n_frames": n_frames,
        "frames": frames.take(max_frames).map(frame).collect::<Vec<_>>(),
    })
}

/// Returns how many blocks were at the address before.
fn nth_use(device: &Device<'_>, life: &Life) -> usize {
    let (lives, sorted) = (device.history.lives(), device.by_address());
    let of = |number: &u32| &lives[*number as usize];
    let first = sorted.partition_point(|number| of(number).address < life.address);
    sorted[first..]
        .partition_point(|number| of(number).address == life.address && of(number).from < life.from)
}
