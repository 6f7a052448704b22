//! Pages of PyTorch's `trace_plot` and `segment_plot`, which hold a snapshot (`docs/snapshot-format.md` 4.6).
//!
//! The page has a list of files in JavaScript, `[{"name": "snapshot.pickle", "base64": "…"}]`. Its first file is read.

#![forbid(unsafe_code)]

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use crate::words::{Error, Result};

/// The key of a file's bytes.
const KEY: &[u8] = b"\"base64\"";

/// The characters allowed before the first tag.
const BLANK: &[u8] = b" \t\r\n\xef\xbb\xbf";

/// How a browser decodes: the padding may be missing.
const BROWSER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns whether bytes are a page rather than a pickle: no pickle starts with a tag.
pub(super) fn is_page(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !BLANK.contains(byte)) == Some(&b'<')
}

/// Returns the pickle that a page holds, in three quarters of the page's length; `None` if the bytes are not a page.
///
/// # Errors
/// The page holds no snapshot, or a damaged one.
pub(super) fn pickle_in(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    if !is_page(bytes) {
        return Ok(None);
    }
    let Some(text) = value(bytes) else {
        let what = "not a memory snapshot: a web page without one; give a file written by _dump_snapshot, or a \
                    page of PyTorch's trace_plot";
        return Err(Error::foreign(what.to_owned()));
    };
    let damaged = |_| {
        let what = "not a readable snapshot: the page's base64 is damaged or cut off; write the page again";
        Error::foreign(what.to_owned())
    };
    BROWSER.decode(text).map(Some).map_err(damaged)
}

/// Returns the text after the first key.
fn value(bytes: &[u8]) -> Option<&[u8]> {
    let at = bytes.windows(KEY.len()).position(|part| part == KEY)?;
    let rest = bytes[at + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
    let text = rest.trim_ascii_start().strip_prefix(b"\"")?;
    // A page that was cut off has no end; its text is damaged then.
    Some(text.split(|byte| *byte == b'"').next().unwrap_or_default().trim_ascii())
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn page(before: &str, text: &str) -> Vec<u8> {
        format!(
            "{before}<!DOCTYPE html>\n<script>\nconst local_files = [{{\"name\": \"snapshot.pickle\", \"base64\": \"{text}\"}}]\n\
             </script>"
        )
        .into_bytes()
    }

    #[test]
    fn a_page_has_the_bytes_of_its_first_file() {
        for bytes in [&b""[..], b"\x80", b"\x80\x04", b"\x80\x04}\xff\xfe"] {
            let text = BASE64_STANDARD.encode(bytes);
            for (before, text) in [("", &*text), ("\u{feff}\n ", &text), ("", text.trim_end_matches('='))] {
                assert_eq!(pickle_in(&page(before, text)).unwrap().unwrap(), bytes, "{text}");
            }
        }
        assert!(pickle_in(b"\x80\x04}.").unwrap().is_none());
    }

    #[test]
    fn a_page_without_a_snapshot_says_so() {
        for (bytes, why) in [
            (&b"<html></html>"[..], "a web page without one"),
            (b"<html>\"base64\": 5", "a web page without one"),
            (&page("", "gAR9*"), "damaged"),
        ] {
            let error = pickle_in(bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
