//! A tape in a file: what a recorder has recorded, readable even after the process was killed.
//!
//! The file is mapped, so an event is in the kernel's page cache as soon as it is written, and survives the process,
//! however it ends. A file is a header and *slots* of equal size, each with a kind:
//!
//! | kind | contents of its body | who writes it |
//! | --- | --- | --- |
//! | events | a chunk of one device's events, 32 bytes each | the thread that owns the chunk |
//! | stacks | records of stacks: number, modules, words | the thread that adds a stack |
//! | notes | what events refer to: contexts, scopes, modules, settings; what devices report | the thread that adds one |
//! | rows | segments and blocks of one device before its oldest event | the keeper, of this process or another |
//!
//! `layout` defines the bytes; `notes` and `rows` encode what is in slots. `mapped` maps the file and extends it by
//! `steps`, for which `windows` are mapped ahead; `pages` maps parts of it, and `cut` handles files that others make
//! shorter. `slot` is one slot in use, `agreement` has the words that a keeper in another process reads and writes, and
//! `file` hands out slots and writes notes. `contents` reads the complete parts of a file, or of memory that has it
//! mapped (`source`), whether or not its process is running; `news` reads what is new since the last time. `seal` adds
//! the checksums for a process that has ended, and `packed` makes its tape small.

mod layout;
mod note_bytes;
mod notes;
#[cfg(target_os = "linux")]
mod owner_process;
mod rows;
mod source;
#[cfg(target_os = "linux")]
mod descriptor;
#[cfg(target_os = "linux")]
mod cut;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod windows;
#[cfg(target_os = "linux")]
mod steps;
#[cfg(target_os = "linux")]
mod mapped;
#[cfg(not(target_os = "linux"))]
mod unmapped;
mod agreement;
mod slot;
mod read_slot;
#[cfg(target_os = "linux")]
mod taken_name;
#[cfg(target_os = "linux")]
mod file_space;
mod file;
mod contents;
mod packed;
#[cfg(target_os = "linux")]
mod news;
#[cfg(target_os = "linux")]
mod seal;

pub(crate) use agreement::Agreement;
pub(crate) use contents::{Base, Contents, EventChunk, StackRow};
pub(crate) use file::TapeFile;
#[cfg(target_os = "linux")]
pub use file_space::FileSpace;
pub(crate) use layout::{BODY_BYTES, Beginning, Kind, Owner};
#[cfg(target_os = "linux")]
pub(crate) use news::Seen;
pub(crate) use notes::{CodeNote, ModuleNote, Note, NotedFrame, RecordingNote, UsageNote};
#[cfg(target_os = "linux")]
pub(crate) use owner_process::own_start;
pub(crate) use packed::is_beginning;
pub(crate) use rows::{ROW_BYTES, Rows};
#[cfg(target_os = "linux")]
pub(crate) use seal::seal;
pub(crate) use slot::{Slot, TakenAt};
#[cfg(target_os = "linux")]
pub use taken_name::take_tape_name;
#[cfg(not(target_os = "linux"))]
pub(crate) use unmapped::own_start;
#[cfg(not(target_os = "linux"))]
use unmapped::{self as mapped, self as owner_process};
