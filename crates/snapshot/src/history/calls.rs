//! The calls from one frame: which requests in a row one of them makes, and where the next begins.

use std::{mem, ops::Range};

use crate::{model::FrameIndex, words::SeededMap};

/// The paths that lead from a frame to requests, each with a number.
#[derive(Default, Debug)]
pub struct CallPaths<'a>(SeededMap<&'a [FrameIndex], u32>);

impl<'a> CallPaths<'a> {
    /// Returns the number of a path.
    pub fn number(&mut self, path: &'a [FrameIndex]) -> u32 {
        // A snapshot in memory has fewer than 2^32 stacks.
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(path).or_insert(next)
    }
}

/// The call from a frame that makes the newest requests, if there is one.
#[derive(Default, Debug)]
pub struct OpenCall {
    /// The places of its requests among all of the program.
    places: Range<usize>,
    /// The numbers of the paths to the first of them and to the last.
    first: u32,
    last: u32,
}

impl OpenCall {
    /// Adds the next request below the frame, with its place and the number of its path, and returns the places of the call
    /// that was over before it.
    pub fn add(&mut self, place: usize, path: u32) -> Option<Range<usize>> {
        // A request that is made again ends the call, but for those that one line makes in a row.
        if self.places.end == place && place > 0 && (self.first != path || self.last == path) {
            (self.places.end, self.last) = (place + 1, path);
            return None;
        }
        mem::replace(self, OpenCall { places: place..place + 1, first: path, last: path }).end()
    }

    /// Returns the places of the call, which is over.
    #[must_use]
    pub fn end(self) -> Option<Range<usize>> {
        Some(self.places).filter(|places| !places.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that requests two blocks in a row is in one call; made again later, it begins the next one.
    #[test]
    fn a_call_begins_where_its_first_request_is_made_again() {
        let mut open = OpenCall::default();
        let paths = [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 1), (7, 0), (8, 1)];
        let mut calls: Vec<_> = paths.into_iter().filter_map(|(place, path)| open.add(place, path)).collect();
        calls.extend(open.end());
        assert_eq!(calls, [0..3, 3..6, 7..9]);
    }
}
