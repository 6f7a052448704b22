//! Texts as PyTorch's tool prints them.

use std::fmt;

/// A size with one decimal, as PyTorch's tool prints it (snapshot-format.md 4.1).
pub(crate) struct TorchSize(pub(crate) f64);

impl TorchSize {
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn of(bytes: u64) -> TorchSize {
        TorchSize(bytes as f64)
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn of_sum(bytes: i128) -> TorchSize {
        TorchSize(bytes as f64)
    }
}

impl fmt::Display for TorchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.0;
        for unit in ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi"] {
            if number.abs() < 1024.0 {
                return write!(f, "{number:.1}{unit}B");
            }
            number /= 1024.0;
        }
        write!(f, "{number:.1}YiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_tool() {
        let cases = [
            (0.0, "0.0B"),
            (1023.96, "1024.0B"),
            (1_048_575.0, "1024.0KiB"),
            (-2048.0, "-2.0KiB"),
            (999_999_999_999_999.0, "909.5TiB"),
            (1_208_925_819_614_629_174_706_176.0, "1.0YiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(TorchSize(bytes).to_string(), text);
        }
    }
}
