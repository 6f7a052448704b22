//! Numbers of few bytes: seven bits in each byte, the lowest first.
#![forbid(unsafe_code)]

/// Appends a number.
#[inline]
#[allow(clippy::cast_possible_truncation)] // Seven bits at a time.
pub(super) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the beginning of `bytes`; `None` if they end within it.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends the difference of two numbers, in either direction.
#[inline]
pub(super) fn push_change(bytes: &mut Vec<u8>, from: u64, to: u64) {
    let change = to.wrapping_sub(from).cast_signed();
    push(bytes, ((change << 1) ^ (change >> 63)).cast_unsigned());
}

/// Takes a difference, and returns the number that it leads to.
#[inline]
pub(super) fn take_change(bytes: &mut &[u8], from: u64) -> Option<u64> {
    let folded = take(bytes)?;
    Some(from.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
}
