//! Integers as pickles write them: two's complement of any length.

#![forbid(unsafe_code)]

/// The largest integer that JavaScript represents exactly.
pub(super) const MAX_SAFE: i64 = 1 << 53;

/// Returns the integer in these bytes, least significant byte first, if it fits 64 bits.
#[inline]
pub(super) fn long(bytes: &[u8]) -> Option<i64> {
    let Some((last, _)) = bytes.split_last() else { return Some(0) };
    let sign = if last & 0x80 == 0 { 0 } else { 0xff };
    if bytes.len() > 8 {
        let (low, high) = bytes.split_at(8);
        let fits = high.iter().all(|byte| *byte == sign) && (low[7] & 0x80 == sign & 0x80);
        return fits.then(|| i64::from_le_bytes(low.try_into().unwrap_or_default()));
    }
    let mut all = [sign; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::long;

    #[test]
    fn longs_are_twos_complement_of_any_length() {
        let minus_one_of_ten = [0xff; 10];
        assert_eq!(long(&[]), Some(0));
        assert_eq!(long(&[0xff]), Some(-1));
        assert_eq!(long(&[0xff, 0]), Some(255));
        assert_eq!(long(&minus_one_of_ten), Some(-1));
        assert_eq!(long(&i64::MIN.to_le_bytes()), Some(i64::MIN));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), None, "2^63 needs 65 bits");
    }
}
