//! Libraries whose one function calls back from a frame of a given size.

use std::{
    ffi::c_void,
    path::{Path, PathBuf},
};

use super::frames::{self, Call};
use crate::process::testing::library::{Library, compile_text};

/// A function of a loaded library that calls back.
pub(super) type Bounce = unsafe extern "C-unwind" fn(Call, *mut c_void);

/// Compiles a library whose `bounce` calls back from a frame of `n_bytes`, after storing the first word of `data` at
/// `lure_at` in that frame.
///
/// In assembly rather than Rust, so that two libraries with different frames have all their code at the same addresses.
pub(super) fn compile(folder: &Path, name: &str, n_bytes: usize, lure_at: usize) -> PathBuf {
    let text = format!(
        r#"#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}
unsafe extern "C" {{ fn bounce(); }}
#[unsafe(no_mangle)]
pub extern "C" fn address_of_bounce() -> usize {{ bounce as unsafe extern "C" fn() as usize }}
core::arch::global_asm!(".globl bounce", ".hidden bounce", ".type bounce, @function", "bounce:", ".cfi_startproc",
  {}, ".cfi_endproc", ".size bounce, . - bounce");
"#,
        frames::bounce(n_bytes, lure_at)
    );
    compile_text(folder, name, &text, &["-Clink-arg=-nostartfiles"])
}

/// Returns the `bounce` of a library from [`compile`].
pub(super) fn bounce_of(library: &Library) -> Bounce {
    let address_of = library.function(c"address_of_bounce");
    // SAFETY: these are the types of the two functions.
    unsafe {
        let address_of = std::mem::transmute::<*mut c_void, extern "C" fn() -> usize>(address_of);
        std::mem::transmute::<usize, Bounce>(address_of())
    }
}
