//! The maximum depth of a stack, the number of stacks that are kept, and the address that marks a full table.
#![forbid(unsafe_code)]

/// The most frames of one stack; deeper stacks lose their outermost frames.
pub(in crate::stack) const MAX_DEPTH: usize = 128;

/// How many distinct stacks a recorder keeps by default.
///
/// Training programs have a few thousand stacks for GPU memory, and some hundred thousand for the heap. At 40 frames
/// per stack, this number of stacks takes 88 MB: the most that a recorder costs if it was left on and forgotten, in a
/// program whose stacks never repeat. The same number of shortened stacks comes in addition.
pub(super) const DEFAULT_STACKS: usize = 1 << 18;

/// How many innermost words of each kind are kept of a stack for which a full table has no room.
pub(super) const SHORT_DEPTH: usize = 3;

/// The most stacks that any table keeps complete: numbers have 32 bits, the shortened stacks come after them, and the
/// two highest numbers are special ([`StackId::NONE`](memreel_snapshot::words::StackId::NONE)).
pub(super) const MAX_STACKS: usize = 1 << 31;

/// The address of the only frame of the stack that a full table returns.
///
/// No code is at this address, so it means nothing else.
pub(in crate::stack) const TABLE_FULL: usize = 1;
