//! The list of blocks in an order: by size, life, waste and so on, with those that were chosen.

#![forbid(unsafe_code)]

use memreel_snapshot::history::{Life, Moment};
use serde_json::{Value, json};

use super::{
    choice::{Choice, FILTERS},
    device::{Device, Order},
    groups::Colour,
    refusal::Refusal,
    request::Request,
    words::site,
};

/// The most rows of an answer.
const MAX_ROWS: usize = 2000;

const KEYS: [&str; 7] = ["bytes", "requested", "life", "waste", "from", "until", "address"];

/// Returns the rows that were asked for.
pub(super) fn answer(request: &Request, device: &Device<'_>) -> Result<Value, Refusal> {
    let sort = request.text("sort").unwrap_or("bytes");
    if !KEYS.contains(&sort) {
        return Err(Refusal::usage(format!("{sort:?} is not an order; use one of {}", KEYS.join(", "))));
    }
    let is_descending = request.text("descending").is_none_or(|text| text == "1");
    let offset: usize = request.number("offset")?.unwrap_or(0);
    let count: usize = request.number("count")?.unwrap_or(200).min(MAX_ROWS);
    let choice = Choice::of(request, device, true)?;
    let key = FILTERS.iter().fold(format!("{sort} {is_descending}"), |key, name| {
        format!("{key}\u{1}{}", request.text(name).unwrap_or_default())
    });
    device.with_order(|kept| {
        if kept.as_ref().is_none_or(|order| order.key != key) {
            *kept = Some(Order { numbers: sorted(device, &choice, sort, is_descending), key });
        }
        let numbers = kept.as_ref().map_or(&[][..], |order| &order.numbers);
        let rows = numbers.iter().skip(offset).take(count).map(|number| row(device, *number));
        Ok(json!({ "n": numbers.len(), "rows": rows.collect::<Vec<_>>() }))
    })
}

fn sorted(device: &Device<'_>, choice: &Choice<'_>, sort: &str, is_descending: bool) -> Vec<u32> {
    let lives = device.history.lives();
    let end = device.history.end();
    let chosen = |number: &u32| choice.is_all() || choice.holds(&lives[*number as usize], *number);
    if sort == "address" {
        let mut numbers: Vec<u32> = device.by_address().iter().copied().filter(chosen).collect();
        if is_descending {
            numbers.reverse();
        }
        return numbers;
    }
    let mut numbers: Vec<u32> = (0..).take(lives.len()).filter(chosen).collect();
    let key = |number: &u32| {
        let life = &lives[*number as usize];
        match sort {
            "requested" => life.requested_bytes,
            "life" => events(life, end),
            "waste" => life.bytes.saturating_sub(life.requested_bytes),
            "from" => u64::from(life.from.0),
            "until" => u64::from(life.until.0),
            _ => life.bytes,
        }
    };
    if is_descending {
        numbers.sort_by_cached_key(|number| std::cmp::Reverse(key(number)));
    } else {
        numbers.sort_by_cached_key(key);
    }
    numbers
}

/// The number of events of a life.
fn events(life: &Life, end: Moment) -> u64 {
    u64::from(life.until.min(end).0.saturating_sub(life.from.0))
}

fn row(device: &Device<'_>, number: u32) -> Value {
    let Some(life) = device.life(number) else { return Value::Null };
    json!({
        "life": number,
        "address": life.address.to_string(),
        "bytes": life.bytes,
        "requested_bytes": life.requested_bytes,
        "from": life.from.0,
        "until": until(life.until),
        "stream": life.stream,
        "pool": device.groups(Colour::Pool).name(life, number),
        "scope": device.groups(Colour::Scope).name(life, number),
        "where": site(&device.history, life),
    })
}

/// A moment, or null if it is not within the history.
pub(super) fn until(moment: Moment) -> Option<u32> {
    (moment != Moment::NEVER).then_some(moment.0)
}
