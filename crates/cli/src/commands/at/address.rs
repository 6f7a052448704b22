//! The answer of `memreel at --address`: who had an address.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    ops::Range,
};

use memreel_snapshot::{
    Address, PoolId, StreamId,
    analysis::{
        AddressChange, AddressEvent, AddressHistory, DeviceHistory, PoolOf, SegmentRange, Site, SiteFrames,
    },
    history::{Life, Moment},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    input::each::DeviceOfFile,
    options::moment,
    text::{Bytes, Page, Sites, Table, bytes, clean, count, labels::stream, print_text, print_warnings},
};

/// Reads an address, `FIRST..END`, or an address and a size: `0x7f3a00000400+4KiB`.
pub(super) fn parse(text: &str) -> Result<Range<Address>, String> {
    let refuse = || {
        format!(
            "{text:?} is not an address; use for example 0x7f3a00000400, 0x7f3a00000400..0x7f3a00000800 or 0x7f3a00000400+4KiB"
        )
    };
    let address = |text: &str| {
        let text = text.trim();
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let number = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
        number.map(Address).map_err(|_| refuse())
    };
    let (start, end) = if let Some((start, end)) = text.split_once("..") {
        (address(start)?, address(end)?)
    } else if let Some((start, bytes)) = text.split_once('+') {
        let start = address(start)?;
        (start, start.saturating_add(bytes::parse_or_zero(bytes).map_err(|_| refuse())?))
    } else {
        let start = address(text)?;
        (start, start.saturating_add(1))
    };
    if start < end { Ok(start..end) } else { Err(format!("{text:?} is empty: it ends where it starts")) }
}

/// A question about a range of addresses.
pub(super) struct Question<'q> {
    pub(super) history: &'q DeviceHistory<'q>,
    pub(super) range: &'q Range<Address>,
    /// The moment at which to report what covers it.
    pub(super) moment: Moment,
    /// The most blocks that are listed.
    pub(super) n: usize,
}

impl<'q> Question<'q> {
    fn answer(&self) -> AddressHistory<'q> {
        self.history.at_address(self.range.clone(), self.moment)
    }

    /// Prints who had the addresses, and what covers them at the moment.
    pub(super) fn print(&self, out: &mut Page) -> Result<(), Failure> {
        let Question { history, range, moment, .. } = *self;
        let (found, n_bytes) = (self.answer(), range.end - range.start);
        let size =
            if n_bytes == 1 { String::new() } else { format!(" to {:#x} ({})", range.end, Bytes(n_bytes)) };
        let blocks = count(found.owners.len(), "block");
        print_text(format!("{:#x}{size}: {blocks} over time", range.start), out)?;
        print_warnings(history, out)?;
        if found.events.is_empty() {
            return Ok(print_text(format!("nothing was ever there{}", extent(history)), out)?);
        }
        writeln!(out)?;
        let n_left_out = self.n_left_out(&found);
        if n_left_out > 0 {
            writeln!(out, "{} before these; use -n to show more", count(n_left_out, "block"))?;
        }
        events(history, &found, n_left_out).print(out)?;
        writeln!(out)?;
        state(history, &found, moment).into_iter().try_for_each(|line| Ok(print_text(line, out)?))
    }

    fn n_left_out(&self, found: &AddressHistory<'_>) -> usize {
        found.owners.len().saturating_sub(self.n)
    }
}

/// Returns the extent of a device's blocks, for an address that is elsewhere.
fn extent(history: &DeviceHistory<'_>) -> String {
    let lives = || history.lives().iter();
    let first = lives().map(|life| life.address).min();
    let last = lives().map(|life| life.address.saturating_add(life.bytes)).max();
    let device = history.device();
    first.zip(last).map_or_else(String::new, |(first, last)| {
        format!("; the blocks of device {device} are between {first:#x} and {last:#x}")
    })
}

/// Returns the events as a table, without those of the first blocks.
fn events(history: &DeviceHistory<'_>, found: &AddressHistory<'_>, n_left_out: usize) -> Table {
    let (sites, scopes) = (Sites::new(history, 4), history.scopes());
    let mut table = Table::new(&["event", "what", "address", "bytes", "stream", "pool"]);
    for AddressEvent { moment, what, .. } in
        found.events.iter().filter(|event| is_shown(&event.what, n_left_out))
    {
        let event = moment.entry().map_or_else(|| "before".to_owned(), |entry| entry.to_string());
        let mut row = |what: &str, address: Address, bytes: u64, of: String, pool: String| {
            let cells =
                [event.clone(), what.to_owned(), format!("{address:#x}"), Bytes(bytes).to_string(), of, pool];
            table.row(cells.to_vec());
        };
        let of_block = |number: usize| {
            let (life, pool) = found.owners[number];
            (life, stream(life.stream), pool.map_or_else(|| "-".to_owned(), |pool| pool.to_string()))
        };
        match what {
            AddressChange::Held(held) => {
                let pool = held.pool.map_or_else(|| "-".to_owned(), |pool| pool.to_string());
                row("held", held.address, held.bytes, stream(held.stream), pool);
            }
            AddressChange::Memory(entry) => {
                let action = entry.action.map_or("", |action| action.name());
                row(action, entry.address, entry.size, stream(entry.stream), "-".to_owned());
            }
            AddressChange::Alloc(number) => {
                let (life, of, pool) = of_block(*number);
                let what = if life.is_from_before() { "in use" } else { "alloc" };
                row(what, life.address, life.requested_bytes, of, pool);
                let scope = scopes.of_life(life).filter(|scope| !scope.is_empty());
                let scope = scope.map(|scope| format!(", in scope {}", clean(&scope.to_string())));
                let names = history.names_of(life);
                let named = if names.is_empty() {
                    String::new()
                } else {
                    format!(", named {}", clean(&names.join(", ")))
                };
                let site = sites.plain(&Site::from_life(life));
                table.note(format!("by {site}{}{named}", scope.unwrap_or_default()));
            }
            AddressChange::FreeRequested(number) | AddressChange::FreeCompleted(number) => {
                let (life, of, pool) = of_block(*number);
                let is_requested = matches!(what, AddressChange::FreeRequested(_));
                row(
                    if is_requested { "free requested" } else { "free" },
                    life.address,
                    life.requested_bytes,
                    of,
                    pool,
                );
            }
            _ => {}
        }
    }
    table
}

/// Returns whether an event is about memory, or about a block after the first ones.
fn is_shown(what: &AddressChange<'_>, n_left_out: usize) -> bool {
    match what {
        AddressChange::Alloc(number)
        | AddressChange::FreeRequested(number)
        | AddressChange::FreeCompleted(number) => *number >= n_left_out,
        _ => true,
    }
}

/// Returns what covers the addresses at a moment, in lines.
fn state(history: &DeviceHistory<'_>, found: &AddressHistory<'_>, moment: Moment) -> Vec<String> {
    let when = moment::words(history, moment);
    let since = |moment: Moment| match moment.entry() {
        Some(entry) => format!("since event {entry}"),
        None => "since before the history".to_owned(),
    };
    let blocks = found.owners.iter().filter(|(life, _)| life.is_active_at(moment));
    let block = |(life, _): &(&Life, _)| {
        let bytes = Bytes(life.requested_bytes);
        match life.is_allocated_at(moment) {
            true => format!("{when}: in use {}, {bytes}", since(life.from)),
            false => format!("{when}: freed {}, and waiting for a stream, {bytes}", since(life.requested)),
        }
    };
    let mut lines: Vec<String> = blocks.map(block).collect();
    if lines.is_empty() {
        lines.push(format!("{when}: free"));
    }
    lines.extend(found.held.iter().map(held));
    if found.held.is_empty() {
        lines.push("held from the device: nothing".to_owned());
    }
    lines.extend(found.private_pools.iter().map(|pool| private(*pool)));
    lines
}

/// Returns who uses a private pool.
fn private(pool: PoolId) -> String {
    match PoolOf::id(pool) {
        PoolOf::Program => format!(
            "note: pool {pool} is private: a MemPool of the program, which is used only for requests \
             within torch.cuda.use_mem_pool"
        ),
        _ => format!(
            "note: pool {pool} is private: a captured graph that uses it reads and writes here on every \
             replay, even after its blocks are freed"
        ),
    }
}

fn held(held: &SegmentRange) -> String {
    let pool = held.pool.map_or_else(String::new, |pool| format!(", pool {pool}"));
    let kind = if held.is_expandable { "range of an expandable segment" } else { "segment" };
    format!("held from the device: {kind} of {} at {:#x}{pool}", Bytes(held.bytes), held.address)
}

/// A line of `--json`.
#[derive(Serialize)]
pub(super) struct Object<'a> {
    address: Address,
    end_address: Address,
    event: Moment,
    n_owners: usize,
    owners: Vec<Owner<'a>>,
    memory: Vec<Value>,
    held: Vec<Value>,
    private_pools: Vec<PoolId>,
    is_exact: bool,
}

/// A block that covered an address. Its stack is written frame by frame: it may be long.
#[derive(Serialize)]
struct Owner<'a> {
    address: Address,
    bytes: u64,
    requested_bytes: u64,
    stream: StreamId,
    pool_id: Option<PoolId>,
    allocated_by_event: Moment,
    free_requested_by_event: Moment,
    freed_by_event: Moment,
    is_active: bool,
    is_pending: bool,
    scope: Option<String>,
    names: Vec<&'a str>,
    site: SiteFrames<'a>,
}

impl Question<'_> {
    /// Prints the answer as a line of `--json`.
    pub(super) fn print_json(&self, asked: &DeviceOfFile<'_>, out: &mut Page) -> io::Result<()> {
        let Question { history, range, moment, .. } = *self;
        let (found, sites, scopes) = (self.answer(), Sites::new(history, 0), history.scopes());
        let shown = &found.owners[self.n_left_out(&found)..];
        let of_owners: Vec<Site> = shown.iter().map(|(life, _)| Site::from_life(life)).collect();
        let owner = |((life, pool), site): (&(&Life, _), _)| Owner {
            address: life.address,
            bytes: life.bytes,
            requested_bytes: life.requested_bytes,
            stream: life.stream,
            pool_id: *pool,
            allocated_by_event: life.from,
            free_requested_by_event: life.requested,
            freed_by_event: life.until,
            is_active: life.is_active_at(moment),
            is_pending: life.is_active_at(moment) && !life.is_allocated_at(moment),
            scope: scopes.of_life(life).map(ToString::to_string),
            names: history.names_of(life),
            site: sites.site_frames(site),
        };
        let object = Object {
            address: range.start,
            end_address: range.end,
            event: moment,
            n_owners: found.owners.len(),
            owners: shown.iter().zip(&of_owners).map(owner).collect(),
            memory: found.events.iter().filter_map(memory).collect(),
            held: found.held.iter().map(held_object).collect(),
            private_pools: found.private_pools.clone(),
            is_exact: history.trust().is_exact(),
        };
        asked.print_json(&object, out)
    }
}

fn memory(event: &AddressEvent<'_>) -> Option<Value> {
    let object = |action: &str, address: Address, bytes: u64, stream: StreamId| json!({"event": event.moment, "action": action, "address": address, "bytes": bytes, "stream": stream});
    match event.what {
        AddressChange::Held(held) => Some(object("held", held.address, held.bytes, held.stream)),
        AddressChange::Memory(entry) => {
            let action = entry.action.map_or("", |action| action.name());
            Some(object(action, entry.address, entry.size, entry.stream))
        }
        _ => None,
    }
}

fn held_object(held: &SegmentRange) -> Value {
    json!({
        "address": held.address,
        "bytes": held.bytes,
        "stream": held.stream,
        "is_expandable": held.is_expandable,
        "pool_id": held.pool,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_one_byte_or_a_range() {
        let range = |text: &str| parse(text).map(|range| (range.start.0, range.end.0));
        assert_eq!(range("0x7f00"), Ok((0x7f00, 0x7f01)));
        assert_eq!(range("4096"), Ok((4096, 4097)));
        assert_eq!(range("0x1000..0x2000"), Ok((0x1000, 0x2000)));
        assert_eq!(range("0x1000+4KiB"), Ok((0x1000, 0x2000)));
        for wrong in ["7f00", "", "0x", "0x2000..0x1000", "0x1000+0", "0x1000+x", "1..2..3", "-1"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
