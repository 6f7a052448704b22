//! The hostile corpus, which the tests of the library and of the program share: files whose cost is out of proportion to
//! their size if a program is careless ([`CASES`], and [`PAIRS`] for comparisons), and files that are refused ([`refused`]).
//!
//! A case is a value, or the opcodes of a pickle, for a count of whatever it has many of; [`Case::of_bytes`] finds the count for
//! a length.
#![forbid(unsafe_code)]

mod all;
mod case;
mod cases;
mod document;
mod machine;
mod pairs;
mod records;
mod refused;

pub use all::check_all;
pub use case::Case;
pub use cases::CASES;
pub use document::{Form, written};
pub use pairs::{PAIRS, Pair};
pub use refused::{Refused, refused, with_value};
