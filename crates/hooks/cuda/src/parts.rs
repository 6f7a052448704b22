//! The parts of a device's memory that are not blocks of the program: the driver's own, and what is not mapped.
#![forbid(unsafe_code)]

/// The purpose of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A context, and its limits.
    Context,
    /// Code: modules and libraries.
    Module,
    /// Graphs that can be launched.
    Graph,
    /// The memory of graph nodes, which the driver allocates when a graph is launched.
    GraphMemory,
    /// Physical memory under handles of the program that is mapped nowhere.
    Unmapped,
    /// Memory that a look found, rather than a call.
    Other,
}

impl Part {
    /// The name of the innermost frame.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Part::Context => "driver:context",
            Part::Module => "driver:module",
            Part::Graph | Part::GraphMemory => "driver:graph",
            Part::Unmapped => "memory:unmapped",
            Part::Other => "driver:other",
        }
    }
}

/// The parts of one device.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Part, address and bytes, in the order of their beginning.
    pub(crate) all: Vec<(Part, u64, u64)>,
}

impl Parts {
    /// The bytes of a part.
    pub(crate) fn bytes(&self, part: Part) -> u64 {
        self.all.iter().filter(|(of, ..)| *of == part).map(|(.., bytes)| bytes).sum()
    }
}
