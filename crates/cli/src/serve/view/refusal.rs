//! Why a request of the page could not be answered.

#![forbid(unsafe_code)]

/// A status of HTTP, and a text for the reader.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) why: String,
}

impl Refusal {
    /// The request is not one that the server can understand.
    pub(super) fn usage(why: impl Into<String>) -> Refusal {
        Refusal { status: 400, why: why.into() }
    }

    /// What was asked for is not there.
    pub(super) fn missing(why: impl Into<String>) -> Refusal {
        Refusal { status: 404, why: why.into() }
    }
}

impl From<memreel_snapshot::Error> for Refusal {
    fn from(error: memreel_snapshot::Error) -> Refusal {
        Refusal::usage(error.to_string())
    }
}
