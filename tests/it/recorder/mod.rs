//! Tests of recording: options, ledgers and scopes (`recording`); names of blocks (`annotate`); several threads,
//! filters and frame sources (`tape`); allocators that are wrapped (`wrapped`).

mod annotate;
mod recording;
mod tape;
mod wrapped;
