//! Answers about a block with everything that is known about it.

#![forbid(unsafe_code)]

use memreel_snapshot::{
    Address,
    analysis::MarkedFrame,
    history::{Life, Moment},
};
use serde_json::{Value, json};

use super::{device::Device, groups::Colour, list::until, refusal::Refusal, request::Request, words};

/// The most frames of a stack in an answer.
const MAX_FRAMES: usize = 200;

/// The most names of a block in an answer.
const MAX_NAMES: usize = 20;

/// Returns the block of a number, or the one at an address at a moment or else nearest to it.
pub(super) fn answer(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let number = match request.text("address") {
        Some(address) => at_address(request, device, address)?,
        None => request.required("life")?,
    };
    let life = device.life(number).ok_or_else(|| Refusal::missing(format!("there is no block {number}")))?;
    Ok(block(device, life, number, MAX_FRAMES))
}

fn at_address(request: &Request, device: &Device<'_>, text: &str) -> Result<u32, Refusal> {
    let digits = text.strip_prefix("0x");
    let read = digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    let address = Address(read.ok_or_else(|| {
        Refusal::usage(format!("{text:?} is not an address; use for example 0x7f12000000"))
    })?);
    let moment = request.moment("moment")?.unwrap_or_else(|| device.history.end());
    let (lives, sorted) = (device.history.lives(), device.by_address());
    let life = |number: &u32| &lives[*number as usize];
    let until = sorted.partition_point(|number| life(number).address <= address);
    // A block that begins before the address may have it inside.
    let holds = |number: &&u32| address < life(number).address.saturating_add(life(number).bytes.max(1));
    let near = sorted[..until].iter().rev().take(N_NEAR).filter(holds);
    let found = near.min_by_key(|number| distance(life(number), moment));
    found.copied().ok_or_else(|| Refusal::missing(format!("no block was ever at {text}")))
}

/// The most uses of addresses at and below one that are looked at.
const N_NEAR: usize = 100_000;

/// Returns how many events there are between a block's life and a moment; none if it is in use then.
fn distance(life: &Life, moment: Moment) -> u32 {
    if life.is_active_at(moment) {
        return 0;
    }
    let (from, until) = (life.from.0.abs_diff(moment.0), life.until.0.abs_diff(moment.0));
    from.min(until).saturating_add(1)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::view::samples::{request, snapshot, with_device};

    #[test]
    fn blocks_are_found_at_any_of_their_addresses() {
        let snapshot = snapshot(11, 300);
        with_device(&snapshot, |device| {
            for (number, life) in device.history.lives().iter().enumerate().step_by(7) {
                let middle = life.address.0 + life.bytes / 2;
                let query = format!("block?address={middle:#x}&moment={}", life.from.0);
                let found = answer(&request(&query), device).unwrap();
                assert_eq!(found["life"], number, "{query}");
                let earlier = device
                    .history
                    .lives()
                    .iter()
                    .filter(|other| other.address == life.address && other.from < life.from);
                assert_eq!(found["use"], earlier.count());
            }
            let missing = answer(&request("block?address=0x10"), device).unwrap_err();
            assert_eq!((missing.status, missing.why.as_str()), (404, "no block was ever at 0x10"));
        });
    }

    #[test]
    fn an_address_finds_the_block_there_or_the_nearest_in_time() {
        for seed in 0..12 {
            let snapshot = snapshot(seed, 200);
            with_device(&snapshot, |device| {
                let lives = device.history.lives();
                for life in lives {
                    for moment in (0..device.history.end().0).step_by(7) {
                        let query = format!("block?address={}&moment={moment}", life.address);
                        let found = answer(&request(&query), device).unwrap();
                        let found = &lives[usize::try_from(found["life"].as_u64().unwrap()).unwrap()];
                        let distance = |of: &Life| match of.is_active_at(Moment(moment)) {
                            true => 0,
                            false => 1 + of.from.0.abs_diff(moment).min(of.until.0.abs_diff(moment)),
                        };
                        let holds = |of: &&Life| {
                            of.address <= life.address && life.address < Address(of.address.0 + of.bytes)
                        };
                        assert!(holds(&found), "{query}");
                        assert_eq!(
                            Some(distance(found)),
                            lives.iter().filter(holds).map(distance).min(),
                            "{query}"
                        );
                    }
                }
            });
        }
    }
}
