//! Questions about snapshots of GPU memory, and their answers.
//!
//! A [`Question`] is asked about a [`Subject`], which is one device of a snapshot. Its answer is a struct that has every figure.
//! It serialises as the pairs of a line of `memreel COMMAND --json`; [`Line`] adds the file and the device. The text of the
//! program, and what its other front ends return, is made from the same struct.
//!
//! ```
//! use memreel::{DeviceId, Reel, recorder::Recording};
//! use memreel_answers::{Churn, ChurnQuestion, Question, Subject};
//!
//! let reel = Reel::builder().history(Recording::all()).build()?;
//! for _ in 0..3 {
//!     drop(reel.alloc(1000)?);
//! }
//! let snapshot = reel.snapshot();
//! let subject = Subject::new(&snapshot, DeviceId(0));
//! let answer: Churn<'_> = ChurnQuestion::default().ask(&subject)?;
//! assert_eq!(answer.cycles, 3);
//! assert!(serde_json::to_string(&answer)?.starts_with(r#"{"cycles":3,"sites":[{"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here prints, and nothing knows a command line.
#![forbid(unsafe_code)]

mod at;
mod churn;
mod fragmentation;
mod instant;
mod leaks;
mod line;
mod oom;
mod question;
mod refusal;
mod subject;
#[cfg(test)]
mod tests;
mod timeline;
mod top;

pub use at::{At, last_oom};
pub use churn::{Churn, ChurnQuestion};
pub use fragmentation::{FragmentationQuestion, Fragmented, Pinned, PinnedList, Waste};
pub use instant::Instant;
pub use leaks::{Between, BetweenQuestion, Leaks, LeaksQuestion, Older, OlderQuestion};
pub use line::Line;
pub use oom::{Failed, NotFailed, Oom, OomQuestion};
pub use question::Question;
pub use refusal::Refusal;
pub use subject::Subject;
pub use timeline::{Timeline, TimelinePoint, TimelineQuestion};
pub use top::{
    Allocated, AllocatedQuestion, Call, CallTree, Holders, NewBlocksAt, NewBlocksQuestion, Top, TopQuestion,
};
