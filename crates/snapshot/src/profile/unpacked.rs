//! The bytes of a profile that gzip may have compressed.

use std::{
    borrow::Cow,
    io::{ErrorKind, Read},
};

use flate2::read::MultiGzDecoder;

use crate::words::{Error, Result};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The most bytes of a profile: a file of a few KiB may contain any number of them.
const MAX_BYTES: u64 = 1 << 30;

/// How much of a file's start is read.
const HEAD: u64 = 64;

/// Returns the first bytes, decompressed; `None` if the head is damaged.
pub(super) fn head(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !bytes.starts_with(&GZIP) {
        return Some(Cow::Borrowed(bytes));
    }
    let mut head = Vec::new();
    match MultiGzDecoder::new(bytes).take(HEAD).read_to_end(&mut head) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => None,
        // The head of a file ends before its content does.
        _ => Some(Cow::Owned(head)),
    }
}

/// Returns all bytes, decompressed.
pub(super) fn whole(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut whole = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(MAX_BYTES + 1).read_to_end(&mut whole);
    match read {
        Err(error) => Err(Error::foreign(format!("not a readable pprof profile: gzip: {error}"))),
        Ok(_) if whole.len() as u64 > MAX_BYTES => {
            Err(Error::foreign("not a readable pprof profile: more than 1 GiB, decompressed"))
        }
        Ok(_) => Ok(Cow::Owned(whole)),
    }
}
