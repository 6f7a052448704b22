//! The severity of a broken rule.

/// The severity of a finding, in rising order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// `P`: the file differs from what PyTorch writes, but every reader copes.
    Pytorch,
    /// `W`: a viewer draws a misleading picture.
    Warning,
    /// `E`: a reader throws, or is badly wrong.
    Error,
}

impl Severity {
    /// Returns `P`, `W` or `E`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Severity::Pytorch => 'P',
            Severity::Warning => 'W',
            Severity::Error => 'E',
        }
    }
}
