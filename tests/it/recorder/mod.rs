//! Tests of recording: options, ledgers and scopes (`recording`); names of blocks (`annotate`); several threads,
//! filters and frame sources (`tape`); tapes in files (`tape_file`); what devices report (`usage`); allocators that are wrapped (`wrapped`).

mod annotate;
mod recording;
mod tape;
mod tape_damage;
mod tape_file;
mod usage;
mod wrapped;
