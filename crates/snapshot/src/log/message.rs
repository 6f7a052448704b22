//! The message of a failed request, with its figures.

use serde::{Serialize, Serializer};

/// The program whose allocator printed a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Program {
    /// PyTorch, on CUDA, HIP, XPU or another accelerator of this form.
    Torch,
    /// PyTorch on Apple's GPUs.
    Mps,
    /// JAX, or another program that uses XLA.
    Xla,
    /// TensorFlow.
    TensorFlow,
    /// CuPy.
    CuPy,
    /// llama.cpp, or another program that uses ggml.
    Ggml,
    /// memreel's own allocator.
    Memreel,
}

impl Program {
    /// Returns the name, as it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Program::Torch => "PyTorch",
            Program::Mps => "PyTorch (MPS)",
            Program::Xla => "JAX (XLA)",
            Program::TensorFlow => "TensorFlow",
            Program::CuPy => "CuPy",
            Program::Ggml => "llama.cpp (ggml)",
            Program::Memreel => "memreel",
        }
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// A process that a message names, with the device memory that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OtherProcess {
    /// Its PID. In a container it is the host's.
    pub pid: u64,
    /// Its memory.
    pub bytes: u64,
}

/// Memory that a log has under a name: `KV buffer`, `temp allocation`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// The name.
    pub name: String,
    /// The bytes.
    pub bytes: u64,
}

/// A call of the traceback before a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LoggedCall {
    /// The function.
    pub name: String,
    /// Its file.
    pub filename: String,
    /// The line in the file.
    pub line: u64,
}

/// The message of a failed request. A figure that it lacks is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Message {
    /// The program that printed it.
    pub program: Program,
    /// The accelerator that it names: `CUDA`, `HIP`, `XPU`.
    pub accelerator: Option<String>,
    /// The line in the log, counted from 1.
    pub line: u64,
    /// The rank, worker or process, according to the prefix of the line.
    pub rank: Option<String>,
    /// The device's ordinal.
    pub device: Option<u16>,
    /// The requested bytes; for PyTorch, the segment that the device refused.
    pub requested_bytes: u64,
    /// All memory of the device.
    pub capacity_bytes: Option<u64>,
    /// The free memory of the device.
    pub free_bytes: Option<u64>,
    /// The memory of this process, including other libraries.
    pub process_bytes: Option<u64>,
    /// The other processes of the device.
    pub others: Vec<OtherProcess>,
    /// The limit of the process or of its pool.
    pub limit_bytes: Option<u64>,
    /// The bytes in allocated blocks, including `private_pool_bytes`.
    pub allocated_bytes: Option<u64>,
    /// Bytes in free blocks of private pools.
    pub private_pool_bytes: Option<u64>,
    /// The bytes that the allocator has and no block uses.
    pub unallocated_bytes: Option<u64>,
    /// Memory in use that the allocator did not provide (MPS).
    pub other_bytes: Option<u64>,
    /// What other lines show about the memory, by name.
    pub parts: Vec<Part>,
    /// Half of the last digit of the coarsest figure: no figure is off by more.
    pub rounding_bytes: u64,
    /// The first and the last release, 2.x, that print this form; `None` if the form does not show it, or is not
    /// PyTorch's.
    pub releases: Option<(u8, Option<u8>)>,
    /// The calls of the traceback before it, innermost first; empty without one.
    pub calls: Vec<LoggedCall>,
    /// Whether it states that the request is larger than a segment may become (`expandable_segments_reserve`).
    pub is_beyond_reserve: bool,
    /// Whether the message ends before its last figure.
    pub is_cut: bool,
    /// The parts with figures that are not known to this reader, from a later version.
    pub unread: Vec<String>,
}

impl Message {
    pub(super) fn new(program: Program, line: u64) -> Message {
        Message {
            program,
            accelerator: None,
            line,
            rank: None,
            device: None,
            requested_bytes: 0,
            capacity_bytes: None,
            free_bytes: None,
            process_bytes: None,
            others: Vec::new(),
            limit_bytes: None,
            allocated_bytes: None,
            private_pool_bytes: None,
            unallocated_bytes: None,
            other_bytes: None,
            parts: Vec::new(),
            rounding_bytes: 0,
            releases: None,
            calls: Vec::new(),
            is_beyond_reserve: false,
            is_cut: false,
            unread: Vec::new(),
        }
    }

    /// Returns the bytes that the allocator has of the device, if the message has both parts of it.
    #[must_use]
    pub fn reserved_bytes(&self) -> Option<u64> {
        Some(self.allocated_bytes?.saturating_add(self.unallocated_bytes?))
    }

    /// Returns whether it has the figures of another message: the same failure, printed again.
    pub(super) fn repeats(&self, other: &Message) -> bool {
        let unplaced = |message: &Message| Message {
            line: 0,
            is_cut: false,
            releases: None,
            calls: Vec::new(),
            ..message.clone()
        };
        unplaced(self) == unplaced(other)
    }
}
