//! Tests of recording: options, ledgers and scopes (`recording`); names of blocks (`annotate`); several threads,
//! filters and frame sources (`tape`); frames of Python and marks (`python_frames`); tapes in files (`tape_file`), and packed ones (`packed_tape`); what devices report (`usage`); allocators that are wrapped (`wrapped`).

mod annotate;
mod packed_tape;
mod python_frames;
mod recording;
mod tape;
mod tape_damage;
mod tape_file;
mod tape_follower;
mod tape_keeper;
mod usage;
mod wrapped;
