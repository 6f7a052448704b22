//! What one sampled allocation stands for.

/// Returns the number of allocations of `bytes` bytes that one recorded allocation represents, when one in
/// every `every_bytes` bytes was sampled (`Recording::sample_every` of memreel).
///
/// The sum of the weights of the recorded allocations is an unbiased estimate of the number of all
/// allocations; the sum of weight times size is an unbiased estimate of their bytes. Without sampling
/// (`every_bytes` is 0) the weight is 1.
///
/// ```
/// use memreel_snapshot::words::sample_weight;
///
/// assert!((sample_weight(1 << 30, 4096) - 1.0).abs() < 1e-9, "large ones are always kept");
/// assert!((sample_weight(1, 1000) - 1000.5).abs() < 0.1, "of the small ones one in a thousand");
/// assert_eq!(sample_weight(512, 0), 1.0, "no sampling");
/// ```
#[must_use]
#[allow(clippy::cast_precision_loss)] // Allocations beyond 2^53 bytes are always recorded, so digits do not matter.
pub fn sample_weight(bytes: u64, every_bytes: u64) -> f64 {
    if every_bytes == 0 || bytes == 0 {
        return 1.0;
    }
    -1.0 / (-(bytes as f64) / every_bytes as f64).exp_m1()
}
