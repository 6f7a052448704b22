//! The streams of requests, whose number a replay bounds.

use memreel_snapshot::words::{SeededSet, StreamId};

/// The most streams of a replay; requests on further ones count as requests on the default stream. An allocator has one
/// or two kilobytes for each.
pub(super) const MOST: usize = 4096;

/// The streams seen so far.
#[derive(Debug, Default)]
pub(super) struct Streams {
    known: SeededSet<StreamId>,
    shared: SeededSet<StreamId>,
}

impl Streams {
    /// Returns the stream that represents a stream.
    pub(super) fn of(&mut self, stream: StreamId) -> StreamId {
        if stream == StreamId::DEFAULT || self.known.contains(&stream) {
            return stream;
        }
        if self.known.len() < MOST {
            self.known.insert(stream);
            return stream;
        }
        self.shared.insert(stream);
        StreamId::DEFAULT
    }

    /// Returns the number of streams that count as the default one.
    pub(super) fn n_shared(&self) -> usize {
        self.shared.len()
    }
}
