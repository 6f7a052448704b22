//! The parts of a device's memory that the driver has for itself.
#![forbid(unsafe_code)]

/// What the driver takes memory for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A context, and its limits.
    Context,
    /// Code: modules and libraries.
    Module,
    /// Graphs that can be launched.
    Graph,
    /// What nodes of graphs have, which the driver allocates when a graph is launched.
    GraphMemory,
    /// What was found by looking, and not at a call.
    Other,
}

impl Part {
    /// The name of the innermost frame.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Part::Context => "driver:context",
            Part::Module => "driver:module",
            Part::Graph | Part::GraphMemory => "driver:graph",
            Part::Other => "driver:other",
        }
    }
}

/// The driver's own memory on one device.
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
