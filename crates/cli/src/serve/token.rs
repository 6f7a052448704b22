//! The token in a page's address: clients without the address get no answer.

#![forbid(unsafe_code)]

use std::{fmt::Write, io};

/// The bytes of a token.
const N_BYTES: usize = 16;

/// Returns a new token: 32 hexadecimal digits.
pub(crate) fn new() -> io::Result<String> {
    let mut bytes = [0; N_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut text = String::with_capacity(2 * N_BYTES);
    for byte in bytes {
        write!(text, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(text)
}

/// Compares two tokens in a time that does not depend on where they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let [one, other] = [(); 2].map(|()| new().unwrap());
        assert_eq!(one.len(), 32);
        assert!(is_same(&one, &one) && !is_same(&one, &other) && !is_same(&one, &one[1..]));
    }
}
