//! The pages of the commands and of `--json`, which `cargo xtask pages` makes: each command has one with its help and an
//! example, and each key of the schema has a meaning.

#![forbid(unsafe_code)]

use std::{path::Path, sync::LazyLock};

use memreel_testing::repository;
use xtask::pages::{self, Pages};

static MADE: LazyLock<Result<Pages, String>> =
    LazyLock::new(|| pages::made(Path::new(env!("CARGO_BIN_EXE_memreel")), &repository("")));

/// Returns the pages; fails where a command or a key lacks something.
pub(crate) fn made() -> &'static Pages {
    MADE.as_ref().unwrap()
}

#[test]
#[cfg_attr(not(feature = "mcp"), ignore = "the pages are those of a program that has every command")]
fn pages_have_what_the_program_prints() {
    let oom = &made()["commands/oom.md"];
    for part in ["Usage: memreel oom [OPTIONS]", "$ memreel oom fixtures/", "It ends with status 1."] {
        assert!(oom.contains(part), "no {part:?} in {oom}");
    }
    let json = &made()["schema/json.md"];
    assert!(json.contains("\n## oom\n\nWhy the last request"), "{json}");
}
