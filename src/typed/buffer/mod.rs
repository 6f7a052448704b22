//! Typed arrays in the caching allocator: views share the storage, copies allocate.

mod layout;
mod storage;

use std::{cell::Cell, fmt, ops::Range, rc::Rc};

pub use storage::Element;

use crate::allocator::{Allocation, CachingAllocator};
use layout::Layout;
use memreel_snapshot::words::{Error, Result, StreamId};
use storage::Storage;

/// An n-dimensional array of numbers in memory from a caching allocator.
///
/// A buffer is a view of a storage. [`Buffer::slice`], [`Buffer::transpose`], [`Buffer::step_by`] and
/// [`Buffer::reshape`] create further views of the same storage; they do not allocate, and a write through one
/// view is visible through the others. [`Buffer::try_clone`] and [`Buffer::map`] allocate, and
/// [`Buffer::contiguous`] does unless the elements are already in order. The storage is freed with its last
/// view. Because views share elements, a buffer cannot be sent to another thread, and its elements are read
/// and written through shared references, like a [`Cell`].
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
    /// Creates an array of zeros.
    ///
    /// # Errors
    /// The errors of [`CachingAllocator::alloc`] (a shape with a 0 has no bytes and is an invalid size), and
    /// [`Error::is_misuse`] on a device whose memory the host cannot write.
    pub fn zeros(allocator: &CachingAllocator, shape: &[usize]) -> Result<Buffer<T>> {
        Buffer::full(allocator, shape, T::ZERO)
    }

    /// Creates an array whose elements are all `element`.
    ///
    /// # Errors
    /// The errors of [`Buffer::zeros`].
    pub fn full(allocator: &CachingAllocator, shape: &[usize], element: T) -> Result<Buffer<T>> {
        let buffer = Buffer::uninit(allocator, shape)?;
        buffer.fill(element);
        Ok(buffer)
    }

    /// Creates a one-dimensional array with a copy of `elements`.
    ///
    /// # Errors
    /// The errors of [`Buffer::zeros`].
    pub fn from_slice(allocator: &CachingAllocator, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::uninit(allocator, &[elements.len()])?;
        buffer.cells_in_order().zip(elements).for_each(|(cell, element)| cell.set(*element));
        Ok(buffer)
    }

    /// Creates an array with the previous contents of the block.
    fn uninit(allocator: &CachingAllocator, shape: &[usize]) -> Result<Buffer<T>> {
        let layout = Layout::contiguous(shape).ok_or_else(|| Error::absurd_size(u64::MAX))?;
        let bytes = layout.len().checked_mul(size_of::<T>()).ok_or_else(|| Error::absurd_size(u64::MAX))?;
        let storage = Storage::new(allocator, bytes as u64)?;
        Ok(Buffer { storage: Rc::new(storage), layout })
    }

    /// Returns the number of elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the distance in elements between neighbours along each axis.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        self.layout.strides()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns whether there are no elements, as in an empty slice of another buffer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the elements are adjacent in memory in the order of their indices.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Returns whether two buffers are views of one storage.
    #[must_use]
    pub fn shares_storage(&self, other: &Buffer<T>) -> bool {
        Rc::ptr_eq(&self.storage, &other.storage)
    }

    /// Returns the allocated block of the storage.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        self.storage.allocation()
    }

    /// Gives the block of the storage a name; see [`Allocation::annotate`].
    pub fn annotate(&self, name: &str) {
        self.allocation().annotate(name);
    }

    /// Returns the element at `index`, which has one number for each axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the index is outside the shape.
    pub fn get(&self, index: &[usize]) -> Result<T> {
        self.cell(index).map(Cell::get)
    }

    /// Writes the element at `index`, which has one number for each axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the index is outside the shape.
    pub fn set(&self, index: &[usize], element: T) -> Result<()> {
        self.cell(index).map(|cell| cell.set(element))
    }

    fn cell(&self, index: &[usize]) -> Result<&Cell<T>> {
        let place = self.layout.place(index).ok_or_else(|| {
            Error::invalid_view(format!("index {index:?} is outside shape {:?}", self.shape()))
        })?;
        Ok(&self.storage.cells()[place])
    }

    /// Returns the elements as a slice, or `None` if they are not adjacent in memory in order.
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

    /// Iterates over the elements in the order of their indices.
    fn cells_in_order(&self) -> impl Iterator<Item = &Cell<T>> {
        let cells = self.storage.cells();
        self.layout.places().map(move |place| &cells[place])
    }

    /// Copies the elements to a vector, in the order of their indices.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        self.cells_in_order().map(Cell::get).collect()
    }

    /// Sets all elements to `element`.
    pub fn fill(&self, element: T) {
        self.apply(|_| element);
    }

    /// Replaces each element `x` by `f(x)`, without allocating.
    pub fn apply(&self, f: impl Fn(T) -> T) {
        match self.as_cells() {
            Some(cells) => cells.iter().for_each(|cell| cell.set(f(cell.get()))),
            None => self.cells_in_order().for_each(|cell| cell.set(f(cell.get()))),
        }
    }

    /// Creates an array with `f(x)` for each element `x`.
    ///
    /// # Errors
    /// The errors of [`Buffer::zeros`].
    pub fn map(&self, f: impl Fn(T) -> T) -> Result<Buffer<T>> {
        let copy = self.try_clone()?;
        copy.apply(f);
        Ok(copy)
    }

    /// Copies the elements of `other`, an array of the same shape, into this one.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the shapes differ.
    pub fn copy_from(&self, other: &Buffer<T>) -> Result<()> {
        if self.shape() != other.shape() {
            let what = format!("shape {:?} cannot be copied into {:?}", other.shape(), self.shape());
            return Err(Error::invalid_view(what));
        }
        // Views of one storage may overlap in any order, so the elements are copied out first.
        if self.shares_storage(other) {
            let elements = other.to_vec();
            self.cells_in_order().zip(elements).for_each(|(cell, element)| cell.set(element));
        } else {
            self.cells_in_order().zip(other.cells_in_order()).for_each(|(to, from)| to.set(from.get()));
        }
        Ok(())
    }

    /// Copies the array to a new storage, with the elements in order.
    ///
    /// # Errors
    /// The errors of [`Buffer::zeros`].
    pub fn try_clone(&self) -> Result<Buffer<T>> {
        if self.is_empty() {
            return Ok(self.view(self.layout.clone()));
        }
        let copy = Buffer::uninit(&self.storage.allocator(), self.shape())?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// Returns this array with its elements adjacent in memory and in order: a view if they already are, otherwise a
    /// copy.
    ///
    /// # Errors
    /// The errors of [`Buffer::zeros`].
    pub fn contiguous(&self) -> Result<Buffer<T>> {
        if self.is_contiguous() { Ok(self.view(self.layout.clone())) } else { self.try_clone() }
    }

    /// Returns a view of a range along an axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the range is outside the shape.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Buffer<T>> {
        let what = format!("{range:?} along axis {axis}");
        self.view_or(self.layout.slice(axis, range), &what)
    }

    /// Returns a view of every `step`-th element along an axis.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if there is no such axis or the step is 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<Buffer<T>> {
        self.view_or(self.layout.step_by(axis, step), &format!("step {step} along axis {axis}"))
    }

    /// Returns a view with two axes exchanged.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if there are no such axes.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Buffer<T>> {
        self.view_or(self.layout.transpose(a, b), &format!("the exchange of axes {a} and {b}"))
    }

    /// Returns a view of the same elements in another shape.
    ///
    /// # Errors
    /// [`Error::is_invalid_view`] if the number of elements differs, or if they are not adjacent in order
    /// (call [`Buffer::contiguous`] first).
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

    /// Marks the storage as used by `stream`: after its free, it is not allocated again until the work that is queued
    /// there now has finished. Like [`Allocation::record_stream`].
    pub fn record_stream(&self, stream: StreamId) {
        self.allocation().record_stream(stream);
    }
}

impl<T: Element> Clone for Buffer<T> {
    /// Copies the array like [`Buffer::try_clone`].
    ///
    /// # Panics
    /// If there is no memory for the copy.
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
