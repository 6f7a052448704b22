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
    /// What was found by looking, and not at a call.
    Other,
}

impl Part {
    /// The name of the innermost frame.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Part::Context => "driver:context",
            Part::Module => "driver:module",
            Part::Graph => "driver:graph",
            Part::Other => "driver:other",
        }
    }
}

/// The driver's own memory on one device.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Part, address and bytes, in the order of their beginning.
    pub(crate) all: Vec<(Part, u64, u64)>,
    /// The calls whose memory is measured now, and those that were.
    pub(crate) n_within: u32,
    pub(crate) n_measured: u64,
}

impl Parts {
    /// Returns a number that changes with every measured call; `None` within one.
    pub(crate) fn quiet(&self) -> Option<u64> {
        (self.n_within == 0).then_some(self.n_measured)
    }
}
