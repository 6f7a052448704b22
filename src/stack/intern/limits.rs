//! How deep a stack may be, how many stacks are kept, and the address that marks a full table.
#![forbid(unsafe_code)]

/// The most frames of one stack; deeper stacks lose their outermost frames.
pub(in crate::stack) const MAX_DEPTH: usize = 128;

/// How many distinct stacks a recorder keeps by default.
///
/// Training programs have a few thousand of the GPU's memory, and some hundred thousand of the heap. At 40 frames a stack,
/// this number of stacks takes 88 MB: the most that a recorder costs which was left on and forgotten in a program whose
/// stacks never repeat. As many short ones come to it.
pub(in crate::stack) const DEFAULT_STACKS: usize = 1 << 18;

/// How many innermost words of each kind a stack keeps that a full table has no room for.
pub(super) const SHORT_DEPTH: usize = 3;

/// The most stacks that any table keeps whole: numbers have 32 bits, the short ones come behind them, and the two highest
/// numbers are special ([`StackId::NONE`](memreel_snapshot::words::StackId::NONE)).
pub(super) const MAX_STACKS: usize = 1 << 31;

/// The address in the one frame of the stack that a full table returns.
///
/// No code is at this address, so it means nothing else.
pub(in crate::stack) const TABLE_FULL: usize = 1;
