//! The events of a recording: chunks that one thread fills, the ring of a device's chunks, and the switch.
#![forbid(unsafe_code)]

mod chunk;
mod cut;
mod lines;
mod open;
mod order;
mod ring;
mod source;
mod store;
mod switch;
mod tape;
mod writer;

pub use chunk::{Chunk, FullChunk};
pub use cut::{Cut, Events, in_chunks};
pub use lines::{Line, Lines, Memory, N_IN_LINE, N_LINES, N_WORDS, Place, Words, on_heap};
pub use open::{OpenChunk, Opener};
pub use order::{ACTION_BITS, order_limit, order_word, ticks_of};
pub use ring::Ring;
pub use source::{AfterNewest, ByLock, ByTime, TickSource, WithLast, WithNewest};
pub use store::Store;
pub use switch::{OFF, Switch, Tapes};
pub use tape::{Tape, TapeState};
pub use writer::Writer;
