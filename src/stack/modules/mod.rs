//! The modules of this process: the program and its libraries, loaded now or earlier.
//!
//! Only this room calls the dynamic loader. The walk asks for the module at an address ([`find`]); the interner
//! remembers the modules that a new stack runs through ([`note`]); names ask which module an address was in when its
//! stack was captured ([`owners`]).

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod exported;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod find;
mod fingerprint;
mod history;
mod loader;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod mapping;
mod module;

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) use exported::exported;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(super) use find::{find, prepare};
pub(super) use fingerprint::Fingerprint;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(super) use history::n_unloaded;
pub(crate) use history::{Generation, PastModules};
pub(super) use history::{Life, loaded_in, note, now, owners, survive_forks};
#[cfg(all(target_os = "linux", target_pointer_width = "64", test))]
pub(super) use loader::while_forking;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(super) use mapping::Mapping;
pub(super) use module::Module;
#[cfg(test)]
pub(super) use module::list;
