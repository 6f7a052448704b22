//! Typed memory in the caching allocator: views share the storage, copies allocate.

mod layout;
mod storage;

use std::{cell::Cell, fmt, ops::Range, rc::Rc};

pub use storage::Element;

use crate::{
    allocator::{Allocation, CachingAllocator},
    error::{Error, Result},
    event::StreamId,
};
use layout::Layout;
use storage::Storage;

/// An array of numbers of any dimension, in memory from a caching allocator.
///
/// A buffer is a view of a storage. [`Buffer::slice`], [`Buffer::transpose`]
/// and their like make further views, allocate nothing, and show each other's
/// writes; [`Buffer::try_clone`] and, unless the elements already lie in
/// order, [`Buffer::contiguous`] allocate. The storage is freed with its last
/// view. Because views share, a buffer stays on its thread, and its elements
/// are read and written through shared references, as in a [`Cell`].
///
/// ```
/// use memreel::{Buffer, Reel};
///
/// let reel = Reel::builder().build()?;
/// let a = Buffer::<f32>::zeros(reel.allocator(0)?, &[2, 3])?;
/// let t = a.transpose(0, 1)?;
/// t.set(&[2, 1], 5.0)?;
/// assert_eq!(a.get(&[1, 2])?, 5.0);
/// # Ok::<(), memreel::Error>(())
/// ```
pub struct Buffer<T> {
    storage: Rc<Storage<T>>,
    layout: Layout,
}

impl<T: Element> Buffer<T> {
    /// An array of that shape, every element zero.
    ///
    /// # Errors
    /// As [`CachingAllocator::alloc`] (a shape with a zero has no bytes), and
    /// [`Error::is_misuse`] on a device whose memory the host cannot write.
    pub fn zeros(allocator: &CachingAllocator, shape: &[usize]) -> Result<Buffer<T>> {
        Buffer::full(allocator, shape, T::ZERO)
    }

    /// An array of that shape, every element the same.
    ///
    /// # Errors
    /// As [`Buffer::zeros`].
    pub fn full(allocator: &CachingAllocator, shape: &[usize], element: T) -> Result<Buffer<T>> {
        let buffer = Buffer::uninit(allocator, shape)?;
        buffer.fill(element);
        Ok(buffer)
    }

    /// A copy of a slice, of one dimension.
    ///
    /// # Errors
    /// As [`Buffer::zeros`].
    pub fn from_slice(allocator: &CachingAllocator, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::uninit(allocator, &[elements.len()])?;
        buffer.cells_in_order().zip(elements).for_each(|(cell, element)| cell.set(*element));
        Ok(buffer)
    }

    /// An array with whatever the block held before.
    fn uninit(allocator: &CachingAllocator, shape: &[usize]) -> Result<Buffer<T>> {
        let layout = Layout::contiguous(shape).ok_or_else(|| Error::absurd_size(u64::MAX))?;
        let bytes = layout.len().checked_mul(size_of::<T>()).ok_or_else(|| Error::absurd_size(u64::MAX))?;
        let storage = Storage::new(allocator, bytes as u64)?;
        Ok(Buffer { storage: Rc::new(storage), layout })
    }

    /// The number of elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// How many elements the storage has between neighbours along each axis.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        self.layout.strides()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements, as in an empty slice of another buffer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements lie one after another in the order of their indices.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Whether two buffers are views of one storage.
    #[must_use]
    pub fn shares_storage(&self, other: &Buffer<T>) -> bool {
        Rc::ptr_eq(&self.storage, &other.storage)
    }

    /// The block that the storage is in.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        self.storage.allocation()
    }

    /// The element at an index, one number an axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] outside the shape.
    pub fn get(&self, index: &[usize]) -> Result<T> {
        self.cell(index).map(Cell::get)
    }

    /// Writes the element at an index.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] outside the shape.
    pub fn set(&self, index: &[usize], element: T) -> Result<()> {
        self.cell(index).map(|cell| cell.set(element))
    }

    fn cell(&self, index: &[usize]) -> Result<&Cell<T>> {
        let place = self.layout.place(index).ok_or_else(|| {
            Error::invalid_view(format!("index {index:?} is outside shape {:?}", self.shape()))
        })?;
        Ok(&self.storage.cells()[place])
    }

    /// The elements as one slice, when they lie in order.
    ///
    /// ```
    /// # let reel = memreel::Reel::builder().build()?;
    /// let a = memreel::Buffer::<f32>::full(reel.allocator(0)?, &[4], 1.5)?;
    /// let sum: f32 = a.as_cells().unwrap().iter().map(|cell| cell.get()).sum();
    /// assert_eq!(sum, 6.0);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn as_cells(&self) -> Option<&[Cell<T>]> {
        let range = self.layout.contiguous_range()?;
        Some(&self.storage.cells()[range])
    }

    /// The elements in the order of their indices.
    fn cells_in_order(&self) -> impl Iterator<Item = &Cell<T>> {
        let cells = self.storage.cells();
        self.layout.places().map(move |place| &cells[place])
    }

    /// A copy of the elements in the order of their indices, in plain host memory.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.cells_in_order().map(Cell::get).collect()
    }

    /// Makes every element the same.
    pub fn fill(&self, element: T) {
        self.apply(|_| element);
    }

    /// Replaces each element by a function of it. Allocates nothing.
    pub fn apply(&self, f: impl Fn(T) -> T) {
        match self.as_cells() {
            Some(cells) => cells.iter().for_each(|cell| cell.set(f(cell.get()))),
            None => self.cells_in_order().for_each(|cell| cell.set(f(cell.get()))),
        }
    }

    /// A new array with a function of each element.
    ///
    /// # Errors
    /// As [`Buffer::zeros`].
    pub fn map(&self, f: impl Fn(T) -> T) -> Result<Buffer<T>> {
        let copy = self.try_clone()?;
        copy.apply(f);
        Ok(copy)
    }

    /// Overwrites the elements with those of another array of the same shape.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the shapes differ.
    pub fn copy_from(&self, other: &Buffer<T>) -> Result<()> {
        if self.shape() != other.shape() {
            let what = format!("shape {:?} cannot be copied into {:?}", other.shape(), self.shape());
            return Err(Error::invalid_view(what));
        }
        // Views of one storage may overlap in any order, so they go by way of a copy.
        if self.shares_storage(other) {
            let elements = other.to_vec();
            self.cells_in_order().zip(elements).for_each(|(cell, element)| cell.set(element));
        } else {
            self.cells_in_order().zip(other.cells_in_order()).for_each(|(to, from)| to.set(from.get()));
        }
        Ok(())
    }

    /// A copy in a storage of its own, its elements in order.
    ///
    /// # Errors
    /// As [`Buffer::zeros`].
    pub fn try_clone(&self) -> Result<Buffer<T>> {
        if self.is_empty() {
            return Ok(self.view(self.layout.clone()));
        }
        let copy = Buffer::uninit(&self.storage.allocator(), self.shape())?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// This array with its elements in order: a view of it if they are, else a copy.
    ///
    /// # Errors
    /// As [`Buffer::zeros`].
    pub fn contiguous(&self) -> Result<Buffer<T>> {
        if self.is_contiguous() { Ok(self.view(self.layout.clone())) } else { self.try_clone() }
    }

    /// A view of a range along an axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] outside the shape.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Buffer<T>> {
        let what = format!("{range:?} along axis {axis}");
        self.view_or(self.layout.slice(axis, range), &what)
    }

    /// A view of every `step`-th element along an axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] without such an axis or for a step of 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<Buffer<T>> {
        self.view_or(self.layout.step_by(axis, step), &format!("step {step} along axis {axis}"))
    }

    /// A view with two axes exchanged.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] without such axes.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Buffer<T>> {
        self.view_or(self.layout.transpose(a, b), &format!("the exchange of axes {a} and {b}"))
    }

    /// A view of the same elements in another shape; they must lie in order.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the number of elements differs, or they
    /// do not lie in order ([`Buffer::contiguous`] first).
    pub fn reshape(&self, shape: &[usize]) -> Result<Buffer<T>> {
        self.view_or(self.layout.reshape(shape), &format!("shape {shape:?} without a copy"))
    }

    fn view(&self, layout: Layout) -> Buffer<T> {
        Buffer { storage: self.storage.clone(), layout }
    }

    fn view_or(&self, layout: Option<Layout>, what: &str) -> Result<Buffer<T>> {
        let layout = layout
            .ok_or_else(|| Error::invalid_view(format!("shape {:?} does not allow {what}", self.shape())))?;
        Ok(self.view(layout))
    }

    /// Work queued on another stream uses the storage.
    pub fn record_stream(&self, stream: StreamId) {
        self.allocation().record_stream(stream);
    }
}

impl<T: Element> Clone for Buffer<T> {
    /// As [`Buffer::try_clone`].
    ///
    /// # Panics
    /// When there is no memory for the copy.
    fn clone(&self) -> Self {
        self.try_clone().expect("memory for a copy of the buffer; try_clone returns this error")
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("address", &self.allocation().address())
            .finish_non_exhaustive()
    }
}
