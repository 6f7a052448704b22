//! Checks whether a process may be traced, and what is missing if not.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::ErrorKind,
};

use super::target::{Target, refused};
use crate::failure::Failure;

/// Checks that this process may read the memory of a target, as a debugger does.
pub(super) fn check(target: &Target) -> Result<(), Failure> {
    match File::open(format!("/proc/{}/mem", target.process)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(refused(format!(
            "{} may not be traced: {}",
            target.name(),
            why(target.identity.user == rustix::process::geteuid().as_raw(), scope())
        ))),
        _ => Ok(()),
    }
}

/// Returns why a process may not be traced, and what to do.
fn why(is_own: bool, scope: Option<u8>) -> &'static str {
    match scope {
        Some(3) => "kernel.yama.ptrace_scope is 3, which forbids it until the machine is rebooted",
        _ if !is_own => "it belongs to another user; run this as that user or as root (sudo)",
        Some(2) => "kernel.yama.ptrace_scope is 2; run this as root (sudo)",
        Some(1) => {
            "kernel.yama.ptrace_scope is 1; run this as root (sudo), or `sysctl kernel.yama.ptrace_scope=0`; in a \
             container, start it with `--cap-add SYS_PTRACE`"
        }
        _ => "the system refused; run this as root, and start a container with `--cap-add SYS_PTRACE`",
    }
}

fn scope() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_way_out() {
        for (is_own, scope, part) in [
            (false, None, "another user"),
            (false, Some(1), "another user"),
            (true, Some(1), "ptrace_scope=0"),
            (true, Some(2), "sudo"),
            (true, Some(3), "until the machine is rebooted"),
            (true, Some(0), "SYS_PTRACE"),
            (true, None, "SYS_PTRACE"),
        ] {
            assert!(why(is_own, scope).contains(part), "{is_own} {scope:?}");
        }
    }
}
