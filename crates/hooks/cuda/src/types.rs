//! The types and numbers of the driver's interface that wrappers use (`cuda.h` of CUDA 13).
#![forbid(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

/// The status of a call of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Status(pub(crate) c_int);

impl Status {
    /// The call did what was asked.
    pub(crate) const SUCCESS: Status = Status(0);
    /// There is not enough memory.
    pub(crate) const OUT_OF_MEMORY: Status = Status(2);
    /// The driver does not have the function.
    pub(crate) const NOT_FOUND: Status = Status(500);

    /// Returns whether the call did what was asked.
    #[must_use]
    pub(crate) fn is_success(self) -> bool {
        self == Status::SUCCESS
    }
}

/// An address in a device's memory.
pub(crate) type DevicePtr = u64;

/// A pointer from the driver that only the driver dereferences.
pub(crate) type Handle = *mut c_void;

/// The number of a device.
pub(crate) type Ordinal = c_int;

/// The location of memory: `CUmemLocation`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Location {
    /// `CUmemLocationType`.
    pub(crate) kind: c_int,
    /// The number of the device, or of the node of the host; of a locality domain the device in the first byte and the domain in
    /// the second.
    pub(crate) number: c_int,
}

impl Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`.
    const DEVICE: c_int = 1;
    /// `CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN` of CUDA 13.4: a part of a device's memory.
    const DEVICE_LOCALITY_DOMAIN: c_int = 6;

    /// Returns the device that the memory is on; `None` of the host, of any of its nodes, of a device that this process does not
    /// see, and of no place (a managed pool that prefers none).
    pub(crate) fn device(self) -> Option<Ordinal> {
        match self.kind {
            Location::DEVICE => Some(self.number),
            Location::DEVICE_LOCALITY_DOMAIN => Some(self.number.to_le_bytes()[0].into()),
            _ => None,
        }
    }
}

/// The beginning of `CUmemAllocationProp` and of `CUmemPoolProps`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Place {
    /// `CUmemAllocationType`.
    pub(crate) kind: c_int,
    /// `CUmemAllocationHandleType`.
    pub(crate) handle_types: c_int,
    /// The location of the memory.
    pub(crate) location: Location,
}

impl Place {
    /// `CU_MEM_ALLOCATION_TYPE_MANAGED` of CUDA 13.0: its location is the one that it prefers.
    const MANAGED: c_int = 2;

    /// Returns whether the memory moves between the host and devices.
    pub(crate) fn is_managed(&self) -> bool {
        self.kind == Place::MANAGED
    }
}

/// `CUmemAllocationProp`, with room for what later versions add.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Properties {
    /// The part that is read.
    pub(crate) place: Place,
    rest: [u64; 14],
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ArrayShape {
    /// The elements of a row.
    pub(crate) width: usize,
    /// The rows, or 0.
    pub(crate) height: usize,
    /// `CUarray_format`.
    pub(crate) format: c_int,
    /// The numbers of an element.
    pub(crate) n_channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ArrayShape3d {
    /// The elements of a row.
    pub(crate) width: usize,
    /// The rows, or 0.
    pub(crate) height: usize,
    /// The layers, or 0.
    pub(crate) depth: usize,
    /// `CUarray_format`.
    pub(crate) format: c_int,
    /// The numbers of an element.
    pub(crate) n_channels: c_uint,
    /// `CUDA_ARRAY3D_…`.
    pub(crate) flags: c_uint,
}

impl ArrayShape3d {
    /// Returns the bytes of the elements, to which the driver may add some for the layout; 0 for an array whose memory is
    /// mapped later (`CUDA_ARRAY3D_SPARSE`, `CUDA_ARRAY3D_DEFERRED_MAPPING`).
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        if self.flags & (0x40 | 0x80) != 0 {
            return 0;
        }
        let elements = [self.width, self.height, self.depth].map(|n| n.max(1) as u64).iter().product::<u64>();
        elements.saturating_mul(format_bytes(self.format)).saturating_mul(self.n_channels.max(1).into())
    }

    /// Returns the bytes of an array and `n_levels - 1` smaller ones, each half as wide, high and deep.
    #[must_use]
    pub(crate) fn bytes_of_levels(&self, n_levels: c_uint) -> u64 {
        let half = |n: usize, level: u32| n.checked_shr(level).unwrap_or(0).max(usize::from(n > 0));
        let level = |level| ArrayShape3d {
            width: half(self.width, level),
            height: half(self.height, level),
            depth: half(self.depth, level),
            ..*self
        };
        (0..n_levels.clamp(1, 64)).map(|n| level(n).bytes()).sum()
    }
}

impl From<ArrayShape> for ArrayShape3d {
    fn from(shape: ArrayShape) -> ArrayShape3d {
        let ArrayShape { width, height, format, n_channels } = shape;
        ArrayShape3d { width, height, depth: 0, format, n_channels, flags: 0 }
    }
}

/// The bytes of one number of an array.
fn format_bytes(format: c_int) -> u64 {
    match format {
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 1,
    }
}
