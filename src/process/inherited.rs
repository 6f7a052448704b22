//! What a process inherits from its caller and must pass on to a program that it starts: closed standard streams,
//! ignored signals, the signal mask. Rust's runtime changes some of it before `main`, and `Command` changes more in the
//! child.

use std::{io, mem::MaybeUninit, os::unix::process::CommandExt, process::Command, ptr, sync::OnceLock};

/// The signals whose dispositions are kept. Rust ignores the first; while the second is ignored, no status of a child
/// is available.
const KEPT: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// The state of this process when it started, or when it was first read.
///
/// ```
/// use std::process::Command;
/// use memreel::integrate::Inherited;
///
/// let mut command = Command::new("true");
/// Inherited::get().pass_on(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Inherited {
    /// Whether standard input, output and error are closed.
    is_closed: [bool; 3],
    is_ignored: [bool; KEPT.len()],
    mask: libc::sigset_t,
    has_mask: bool,
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inherited { is_closed, is_ignored, has_mask, .. } = self;
        f.debug_struct("Inherited")
            .field("is_closed", is_closed)
            .field("is_ignored", is_ignored)
            .field("has_mask", has_mask)
            .finish_non_exhaustive()
    }
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

impl Inherited {
    /// Returns the state of this process at the first call. A program calls it before its runtime starts, from
    /// `.init_array`.
    pub fn get() -> &'static Inherited {
        INHERITED.get_or_init(Inherited::look)
    }

    fn look() -> Inherited {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: without a new mask the call writes the one that there is.
        let mask = unsafe {
            libc::sigemptyset(mask.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            mask.assume_init()
        };
        // SAFETY: the mask is written, and the numbers are those of signals.
        let has_mask = (1..=64).any(|signal| unsafe { libc::sigismember(&raw const mask, signal) } == 1);
        // SAFETY: any number may be asked for.
        let is_closed = [0, 1, 2].map(|stream| unsafe { libc::fcntl(stream, libc::F_GETFD) } < 0);
        Inherited { is_closed, is_ignored: KEPT.map(is_ignored), mask, has_mask }
    }

    /// Makes the status of this process's children available, even if its caller ignored the signal of their end.
    pub fn learn_of_children(&self) {
        if self.is_ignored[1] {
            // SAFETY: the default disposition needs no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
    }

    /// Makes the program of a command inherit what this process inherited.
    pub fn pass_on(&self, command: &mut Command) {
        let Inherited { is_closed, is_ignored, mask, has_mask } = *self;
        if !has_mask && !is_closed.contains(&true) && !is_ignored.contains(&true) {
            return;
        }
        let restore = move || {
            for (signal, _) in KEPT.into_iter().zip(is_ignored).filter(|(_, is_ignored)| *is_ignored) {
                // SAFETY: to ignore a signal needs no handler.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
            }
            for (stream, _) in (0..).zip(is_closed).filter(|(_, is_closed)| *is_closed) {
                // SAFETY: Rust's runtime opened it, and in this process nothing uses it but `exec`.
                unsafe { libc::close(stream) };
            }
            // SAFETY: the mask was written in `look`.
            match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) } {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        };
        // SAFETY: between `fork` and `exec` it makes three kinds of system calls, which are safe there.
        unsafe { command.pre_exec(restore) };
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call writes the one that there is; zeros are a value of its fields.
    unsafe {
        libc::sigaction(signal, ptr::null(), found.as_mut_ptr());
        found.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
