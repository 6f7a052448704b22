//! The streams of requests, of which a replay has a bounded number.

use memreel_snapshot::words::{SeededSet, StreamId};

/// The most streams that a replay has; requests to further ones are served as those of the default stream. An
/// allocator has a kilobyte or two for each.
pub(super) const MOST: usize = 4096;

/// The streams that were met.
#[derive(Debug, Default)]
pub(super) struct Streams {
    known: SeededSet<StreamId>,
    shared: SeededSet<StreamId>,
}

impl Streams {
    /// Returns the stream that serves the requests of a stream.
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
