//! A tape names the files of its modules. A question that keeps to some folders, as those of `memreel mcp --root` do, opens no
//! other.

#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::symlink, path::Path};

use super::{cc, record};
use crate::support::{memreel, stdout};

const NAMED: &str = "allocated_by_this_function";

#[test]
fn a_tape_leads_to_no_file_outside_of_the_roots() {
    let start = record(&["--heap", "--keep-tape", "-o", "run.pickle"], &["./inside/named"]);
    let (inside, outside) = (start.path("inside"), start.path("outside"));
    for folder in [&inside, &outside] {
        fs::create_dir(folder).unwrap();
    }
    let text = format!(
        "#include <stdlib.h>\n__attribute__((noinline)) void *{NAMED}(void) {{ return malloc(123456); }}\n\
         int main(void) {{ return {NAMED}() == 0; }}\n"
    );
    fs::write(start.path("named.c"), text).unwrap();
    let program = inside.join("named");
    cc(&["-o", program.to_str().unwrap(), start.path("named.c").to_str().unwrap()]);
    let run = start.run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let tape = run
        .err
        .lines()
        .find_map(|line| line.strip_prefix("memreel: the tape of process ")?.split_once(" is "));
    let tape = Path::new(tape.unwrap_or_else(|| panic!("{}", run.err)).1);
    fs::copy(tape, inside.join("a.tape")).unwrap();
    let has_name = |roots: Option<&Path>| {
        let mut command = memreel(&["top", "--json", inside.join("a.tape").to_str().unwrap()]);
        let answer = command.envs(roots.map(|roots| ("MEMREEL_ROOTS", roots))).output().unwrap();
        assert!(answer.status.success(), "{answer:?}");
        stdout(&answer).contains(NAMED)
    };
    assert!(has_name(None) && has_name(Some(&inside)));
    // The module's file is where the tape says, and leads out of the folder.
    fs::rename(&program, outside.join("named")).unwrap();
    symlink(outside.join("named"), &program).unwrap();
    assert!(has_name(None) && !has_name(Some(&inside)));
}
