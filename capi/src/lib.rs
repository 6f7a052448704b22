//! `libmemreel.so`: the functions of `schema/memreel.h`, which `memreel::capi` defines.
#![forbid(unsafe_code)]

pub use reel::capi::*;
