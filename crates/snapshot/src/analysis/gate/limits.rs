//! The highest figures that a gate allows.

/// The highest figures that a gate allows; `None` allows every figure.
///
/// ```
/// use memreel::{Reel, analysis::Limits, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// drop(reel.alloc(1000)?);
/// let limits = Limits::new().peak_bytes(1000).fragmentation_percent(20.0);
/// let why = limits.broken_by(&reel.snapshot()).expect("most of its segment is unused");
/// assert!(why.starts_with("fragmentation: 100.0 % on device 0, more than 20.0 %"), "{why}");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use = "limits do nothing until figures are checked"]
pub struct Limits {
    pub(super) peak_bytes: Option<u64>,
    pub(super) live_bytes: Option<u64>,
    pub(super) reserved_bytes: Option<u64>,
    pub(super) fragmentation_percent: Option<f64>,
    pub(super) owners_bytes: Vec<(String, u64)>,
    pub(super) scopes_bytes: Vec<(String, u64)>,
    pub(super) allows_partial: bool,
}

impl Limits {
    /// Allows every figure.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Sets the highest [`Figures::peak_bytes`](super::Figures::peak_bytes).
    pub fn peak_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.peak_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::live_bytes`](super::Figures::live_bytes).
    pub fn live_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.live_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::reserved_bytes`](super::Figures::reserved_bytes).
    pub fn reserved_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.reserved_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::fragmentation_percent`](super::Figures::fragmentation_percent).
    pub fn fragmentation_percent(mut self, most: impl Into<Option<f64>>) -> Self {
        self.fragmentation_percent = most.into();
        self
    }

    /// Sets the most bytes that an owner, such as `nccl`, may hold from the device at any moment
    /// ([`DeviceHistory::owner_peaks`](crate::analysis::DeviceHistory::owner_peaks)). An owner that is not there holds 0 bytes.
    pub fn owner_bytes(mut self, owner: impl Into<String>, most: u64) -> Self {
        self.owners_bytes.push((owner.into(), most));
        self
    }

    /// Sets the most bytes that may be in use at any moment in a scope ([`DeviceHistory::peak_in`](crate::analysis::DeviceHistory::peak_in)).
    pub fn scope_bytes(mut self, scope: impl Into<String>, most: u64) -> Self {
        self.scopes_bytes.push((scope.into(), most));
        self
    }

    /// Sets whether [`Limits::broken_by`] accepts a history that is not whole. Default: no.
    ///
    /// Its figures may be too low, because they are those of the recorded events alone.
    pub fn allow_partial(mut self, allow: bool) -> Self {
        self.allows_partial = allow;
        self
    }

    /// Raises the limits of bytes by a share, as for the figures of an older run.
    pub fn with_tolerance(mut self, percent: f64) -> Self {
        let own =
            [&mut self.peak_bytes, &mut self.live_bytes, &mut self.reserved_bytes].into_iter().flatten();
        let of_names = self.owners_bytes.iter_mut().chain(&mut self.scopes_bytes).map(|(_, bytes)| bytes);
        own.chain(of_names).for_each(|bytes| *bytes = larger(*bytes, percent));
        self
    }

    /// Returns the names of the scopes that have a limit.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes_bytes.iter().map(|(scope, _)| &**scope)
    }
}

/// Returns a number of bytes that is larger by a share.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn larger(bytes: u64, percent: f64) -> u64 {
    bytes.saturating_add((bytes as f64 * percent.max(0.0) / 100.0) as u64)
}
