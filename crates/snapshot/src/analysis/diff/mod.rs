//! The differences between snapshots of one program.

mod stack_numbers;
mod series;
mod moved;
mod other_script;
mod group_change;

pub use group_change::GroupChange;
pub use series::{Series, SeriesSite};
pub use stack_numbers::StackNumbers;
