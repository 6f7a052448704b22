//! The size of a run: one number, such as its batch, or two, such as batch and length. Also the terms of laws.

use std::{fmt, num::NonZeroU64};

use memreel_snapshot::words::{Error, Result};

/// The size of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Size([NonZeroU64; 2]);

impl Size {
    /// Creates a size from one number, such as a batch.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) for 0.
    pub fn new(number: u64) -> Result<Size> {
        Size::of([number, 1])
    }

    /// Creates a size from two numbers, such as a batch and a length.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) for 0.
    pub fn of(numbers: [u64; 2]) -> Result<Size> {
        let [first, second] = numbers.map(NonZeroU64::new);
        let zero = || Error::misuse("a size is at least 1");
        Ok(Size([first.ok_or_else(zero)?, second.ok_or_else(zero)?]))
    }

    /// Returns its numbers; if it has only one, the second is 1.
    #[must_use]
    pub fn numbers(self) -> [u64; 2] {
        self.0.map(NonZeroU64::get)
    }

    /// Returns the ratio to `other`, of the products of their numbers.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn times(self, other: Size) -> f64 {
        Term([1, 1]).of(self) / Term([1, 1]).of(other)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numbers() {
            [first, 1] => write!(f, "{first}"),
            [first, second] => write!(f, "{first},{second}"),
        }
    }
}

/// A product of powers of a size's numbers, without a coefficient: 1, batch, batch·length².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term([i32; 2]);

impl Term {
    /// The term that does not depend on the size.
    pub(super) const ONE: Term = Term([0, 0]);

    /// The terms, lowest degree first. If the second number is always 1, its terms equal those of the first.
    pub(super) const ALL: [Term; 8] = [
        Term::ONE,
        Term([1, 0]),
        Term([0, 1]),
        Term([1, 1]),
        Term([2, 0]),
        Term([0, 2]),
        Term([1, 2]),
        Term([2, 1]),
    ];

    /// Returns whether it is one of the numbers itself.
    pub(super) fn is_linear(self) -> bool {
        self.0[0] + self.0[1] == 1
    }

    /// Returns the value at a size.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn of(self, size: Size) -> f64 {
        let [first, second] = size.numbers();
        (first as f64).powi(self.0[0]) * (second as f64).powi(self.0[1])
    }
}
