//! `allocations`: a row for each block that was ever in use, from its alloc to the end of its free.

use std::cell::OnceCell;

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    Snapshot,
    analysis::{DeviceHistory, Histories, Pools, devices},
    history::{Life, Moment, Scopes},
};
use serde::{Deserialize, Serialize};

use super::stack_text::StackTexts;
use crate::{
    columns::{Column, Kind, Rows, column, costly, integers, texts, unsigned},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device's number"),
    column("allocation", Kind::Unsigned, "the allocation's number on its device, from 0"),
    column("address", Kind::Unsigned, "the address of the block"),
    column(
        "size_bytes",
        Kind::Unsigned,
        "the size after rounding; for a block that is free at the end, the smallest possible size",
    ),
    column("requested_bytes", Kind::Unsigned, "the bytes that were requested"),
    column(
        "represented_bytes",
        Kind::Unsigned,
        "the bytes that it stands for in figures: those requested or, for a sampled heap, an estimate",
    ),
    column("begin_event", Kind::Unsigned, "its `alloc`; null if it was in use before the history"),
    column("begin_us", Kind::Integer, "the time of that event"),
    column("free_event", Kind::Unsigned, "its `free_requested`; null if not within the history"),
    column("free_us", Kind::Integer, "the time of that event"),
    column("end_event", Kind::Unsigned, "its `free_completed`; null if it is in use at the end"),
    column("end_us", Kind::Integer, "the time of that event"),
    column(
        "state",
        Kind::Text,
        "at the end, or at the moment of `live_at` and `peak`: `active_allocated`, `active_pending_free` or `inactive`",
    ),
    column("stream", Kind::Integer, "the stream on which it was allocated"),
    costly(
        "pool_graph",
        Kind::Unsigned,
        "the first number of its private pool; null if the pool is not known",
    ),
    costly("pool_user", Kind::Unsigned, "the second number of its private pool"),
    costly("scope", Kind::Text, "the scopes in which it was allocated, as a path"),
    costly("name", Kind::Text, "the names that the program gave it, with commas between them"),
    costly(
        "owner",
        Kind::Text,
        "the library or program that the block's stack names; null without a stack (docs/owners.md, which counts segments)",
    ),
    column("stack_id", Kind::Unsigned, "the number of its stack in the file"),
    costly("stack", Kind::Text, "the frames of its allocation, one per line, innermost first"),
    costly(
        "site",
        Kind::Text,
        "the frames that identify the code that allocated: what `memreel top` groups by",
    ),
];

/// The moment whose blocks `live_at` and `peak` return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum At {
    /// After the event with this number.
    Event(u64),
    /// The first moment with the most bytes in use.
    Peak,
}

struct Allocations<'h, 'a> {
    history: &'h DeviceHistory<'a>,
    stacks: &'h StackTexts<'a>,
    scopes: OnceCell<Scopes<'a>>,
    pools: OnceCell<Pools<'h, 'a>>,
    moment: Moment,
}

impl Allocations<'_, '_> {
    fn time_us(&self, moment: Moment) -> Option<i64> {
        self.history.entries().get(event(moment)? as usize).map(|entry| entry.time_us)
    }

    fn state(&self, life: &Life) -> &'static str {
        match (life.is_active_at(self.moment), life.is_allocated_at(self.moment)) {
            (_, true) => "active_allocated",
            (true, false) => "active_pending_free",
            (false, false) => "inactive",
        }
    }

    fn costly(&self, name: &str, rows: &[(u64, Life)]) -> Option<ArrayRef> {
        let pool = |life: &Life| self.pools.get_or_init(|| Pools::new(self.history)).of(life);
        Some(match name {
            "pool_graph" => unsigned(rows, |(_, life)| pool(life).map(|pool| pool.graph)),
            "pool_user" => unsigned(rows, |(_, life)| pool(life).map(|pool| pool.user)),
            "scope" => {
                let scopes = self.scopes.get_or_init(|| self.history.scopes());
                let path = |life: &Life| scopes.of_life(life).filter(|path| !path.is_empty());
                texts(rows, |(_, life)| path(life).map(ToString::to_string))
            }
            "name" => texts(rows, |(_, life)| {
                Some(self.history.names_of(life).join(", ")).filter(|names| !names.is_empty())
            }),
            _ => return self.stacks.column(name, rows, |(_, life)| life.stack),
        })
    }
}

/// The event after which a moment is; `None` outside the history.
fn event(moment: Moment) -> Option<u64> {
    moment.entry().filter(|_| moment != Moment::NEVER).map(|event| event as u64)
}

impl Rows for Allocations<'_, '_> {
    type Row = (u64, Life);

    fn column(&self, name: &str, rows: &[(u64, Life)]) -> ArrayRef {
        match name {
            "device" => integers(rows, |_| Some(self.history.device().0)),
            "allocation" => unsigned(rows, |(number, _)| Some(*number)),
            "address" => unsigned(rows, |(_, life)| Some(life.address.0)),
            "size_bytes" => unsigned(rows, |(_, life)| Some(life.bytes)),
            "requested_bytes" => unsigned(rows, |(_, life)| Some(life.requested_bytes)),
            "represented_bytes" => unsigned(rows, |(_, life)| Some(life.represented_bytes)),
            "begin_event" => unsigned(rows, |(_, life)| event(life.from)),
            "begin_us" => integers(rows, |(_, life)| self.time_us(life.from)),
            "free_event" => unsigned(rows, |(_, life)| event(life.requested)),
            "free_us" => integers(rows, |(_, life)| self.time_us(life.requested)),
            "end_event" => unsigned(rows, |(_, life)| event(life.until)),
            "end_us" => integers(rows, |(_, life)| self.time_us(life.until)),
            "state" => texts(rows, |(_, life)| Some(self.state(life))),
            "stream" => integers(rows, |(_, life)| Some(life.stream.0)),
            _ => self.costly(name, rows).expect("a column of allocations"),
        }
    }
}

/// Hands out the allocations of every device, those in use at a moment or all.
pub(super) fn read(snapshot: &Snapshot, at: Option<At>, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let histories = Histories::new(snapshot);
    let stacks = StackTexts::new(snapshot);
    for device in devices(snapshot).into_iter().filter(|device| device.index().is_some()) {
        let history = histories.of(device);
        sink.counters.events.add(history.entries().len());
        let moment = match at {
            None => history.end(),
            Some(At::Peak) => history.peak().moment,
            Some(At::Event(event)) => match usize::try_from(event) {
                Ok(event) if event < history.entries().len() => Moment::after(event),
                _ => continue,
            },
        };
        let (scopes, pools) = (OnceCell::new(), OnceCell::new());
        let rows = Allocations { history: &history, stacks: &stacks, scopes, pools, moment };
        let numbered = (0..).zip(history.lives().iter().copied());
        let wanted: Vec<(u64, Life)> =
            numbered.filter(|(_, life)| at.is_none() || life.is_active_at(moment)).collect();
        sink.take(&rows, wanted)?;
    }
    stacks.count(sink.counters);
    Ok(())
}
