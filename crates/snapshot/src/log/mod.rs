//! Reads messages of failed requests from a program's log: those of PyTorch, JAX, TensorFlow, CuPy, ggml and memreel.
//!
//! A log is read line by line in bounded memory: [`Messages::read`] keeps the first and the last message, and the last of each
//! rank. Why the request failed is another question.
//!
//! ```
//! use memreel_snapshot::log::Messages;
//!
//! let log = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9.68 GiB of which 1.00 GiB is \
//!     free. Of the allocated memory 6.50 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.";
//! let messages = Messages::read(log.as_bytes(), &|_| ())?;
//! assert_eq!(messages.last.unwrap().requested_bytes, 2 << 30);
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod context;
mod encoding;
mod figure;
mod form;
mod line;
mod message;
mod messages;
mod open;
mod parse;
mod reader;
mod tensor;
mod traceback;

pub use encoding::utf8;
pub use message::{LoggedCall, Message, OtherProcess, Part, Program};
pub use messages::{Messages, OfRank};
