//! The positions of a view's elements in its storage, as pure arithmetic.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Shape, strides and offset, in elements.
///
/// All its positions are inside the storage that it was created for, because a view can only select and
/// reorder the elements of another view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl Layout {
    /// Creates the layout of a new storage; `None` if the number of elements overflows.
    pub(super) fn contiguous(shape: &[usize]) -> Option<Layout> {
        shape.iter().try_fold(1_usize, |len, n| len.checked_mul((*n).max(1)))?;
        let mut strides = vec![1_usize; shape.len()];
        for axis in (1..shape.len()).rev() {
            // An axis of length 0 counts as 1, because another axis may have any length.
            strides[axis - 1] = strides[axis].checked_mul(shape[axis].max(1))?;
        }
        Some(Layout { shape: shape.to_vec(), strides, offset: 0 })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn strides(&self) -> &[usize] {
        &self.strides
    }

    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the elements are adjacent in the order of their indices.
    pub(super) fn is_contiguous(&self) -> bool {
        let mut expected = 1_usize;
        self.len() == 0
            || self.shape.iter().zip(&self.strides).rev().all(|(n, stride)| {
                let fits = *n <= 1 || *stride == expected;
                expected *= n;
                fits
            })
    }

    /// Returns the positions of all elements, if they are one range in order.
    pub(super) fn contiguous_range(&self) -> Option<Range<usize>> {
        if self.len() == 0 {
            return Some(0..0);
        }
        self.is_contiguous().then(|| self.offset..self.offset + self.len())
    }

    /// Returns the position of the element at `index`; `None` if it is outside the shape.
    pub(super) fn place(&self, index: &[usize]) -> Option<usize> {
        let inside = index.len() == self.shape.len() && index.iter().zip(&self.shape).all(|(i, n)| i < n);
        inside.then(|| {
            self.offset + index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum::<usize>()
        })
    }

    /// Iterates over the positions of all elements, in the order of their indices.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|mut nth| {
            let mut place = self.offset;
            for (n, stride) in self.shape.iter().zip(&self.strides).rev() {
                place += nth % n * stride;
                nth /= n;
            }
            place
        })
    }

    pub(super) fn slice(&self, axis: usize, range: Range<usize>) -> Option<Layout> {
        let n = *self.shape.get(axis)?;
        if range.start > range.end || range.end > n {
            return None;
        }
        let mut view = self.clone();
        view.shape[axis] = range.len();
        // A view without elements has no positions. Its offset is unchanged, because it could otherwise point outside
        // the storage.
        if view.len() > 0 {
            view.offset += range.start * self.strides[axis];
        }
        Some(view)
    }

    pub(super) fn step_by(&self, axis: usize, step: usize) -> Option<Layout> {
        let n = *self.shape.get(axis)?;
        let mut view = self.clone();
        view.shape[axis] = if step == 0 { return None } else { n.div_ceil(step) };
        view.strides[axis] = self.strides[axis].saturating_mul(step);
        Some(view)
    }

    pub(super) fn transpose(&self, a: usize, b: usize) -> Option<Layout> {
        if a.max(b) >= self.shape.len() {
            return None;
        }
        let mut view = self.clone();
        view.shape.swap(a, b);
        view.strides.swap(a, b);
        Some(view)
    }

    pub(super) fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        let view = Layout::contiguous(shape)?;
        (self.is_contiguous() && view.len() == self.len()).then_some(Layout { offset: self.offset, ..view })
    }
}
