//! Computes the bytes of a TensorFlow tensor from its shape and type, which its messages have instead of a size.

use std::sync::LazyLock;

use regex::Regex;

static TENSOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"tensor with shape ?\[([0-9, ]*)\](?: and type ([a-z0-9_]+))?").expect("a constant")
});

/// Returns the bytes of the tensor that a message is about; `None` if it has no type, or one of unknown size.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let found = TENSOR.captures(text)?;
    let bytes = match found.get(2)?.as_str() {
        "double" | "int64" | "uint64" | "complex64" => 8,
        "float" | "int32" | "uint32" => 4,
        "half" | "bfloat16" | "int16" | "uint16" => 2,
        "bool" | "int8" | "uint8" => 1,
        "complex128" => 16,
        _ => return None,
    };
    let mut lengths = found[1].split(',').map(str::trim).filter(|length| !length.is_empty());
    lengths.try_fold(bytes, |bytes: u64, length| bytes.checked_mul(length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_and_a_type_have_bytes() {
        let of = |shape: &str| bytes(&format!("OOM when allocating tensor with shape{shape} on"));
        assert_eq!(of("[256,112,112,64] and type float"), Some(256 * 112 * 112 * 64 * 4));
        assert_eq!(of("[] and type double"), Some(8), "a scalar");
        assert_eq!(of("[4294967296,4294967296,9] and type half"), None, "more than 64 bits");
        assert_eq!(of("[2,3]"), None);
    }
}
