//! How deep a stack may be, how many stacks are kept, and the address that marks a full table.
#![forbid(unsafe_code)]

/// The most frames of one stack; deeper stacks lose their outermost frames.
pub(super) const MAX_DEPTH: usize = 128;

/// How many distinct stacks a recorder keeps by default.
///
/// Training programs have a few thousand. At 40 frames a stack, this number of stacks
/// takes 44 MB: the most that a recorder costs which was left on and forgotten
/// in a program whose stacks never repeat.
pub(super) const DEFAULT_STACKS: usize = 1 << 17;

/// The most stacks that any table keeps: numbers have 32 bits, and the two highest are special
/// ([`StackId::NONE`](memreel_snapshot::words::StackId::NONE)).
pub(super) const MAX_STACKS: usize = u32::MAX as usize - 2;

/// The address in the one frame of the stack that a full table returns.
///
/// No code is at this address, so it means nothing else.
pub(super) const TABLE_FULL: usize = 1;
