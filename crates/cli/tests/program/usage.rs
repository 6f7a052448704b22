//! The program as a process: wrong usage, closed pipes, full disks, help, completions and manual pages.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::Read,
    process::Stdio,
};

use crate::support::{answer, listed, memreel, run};

const CLEAN: &str = "torch-2.11/snapshots/oom.pickle";
const BROKEN: &str = "synthetic/stats2.pickle";

#[test]
fn wrong_usage_is_2() {
    for arguments in [&["validate"][..], &["validate", "--severity", "x", CLEAN], &["valid"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn without_arguments_it_shows_where_people_stand() {
    let output = run(&[]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let text = String::from_utf8(output.stdout).unwrap();
    let help = answer(&["--help"]);
    let lines = text.lines().filter_map(|line| line.strip_prefix("  memreel "));
    let commands: Vec<&str> = lines.map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(commands, ["oom", "record", "leaks", "gate", "ranks"]);
    assert!(commands.iter().all(|command| help.contains(&format!("\n  {command} "))), "{help}");
    assert!(text.contains("memreel --help"), "{text}");
}

#[test]
#[cfg(not(feature = "mcp"))]
fn a_program_without_the_server_says_where_it_is() {
    let output = run(&["mcp"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cargo install --path crates/cli --locked"),
        "{output:?}"
    );
}

#[test]
fn a_closed_pipe_is_success() {
    // More lines than a pipe holds, and a reader that takes one byte of them.
    let many = vec![BROKEN; 400];
    let arguments: Vec<&str> = ["validate", "--json"].into_iter().chain(many).collect();
    let mut child = memreel(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0]).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = memreel(&["validate", CLEAN]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("memreel: cannot write: "));
}

#[test]
fn messages_show_the_right_order() {
    let file = "torch-2.11/snapshots/oom.pickle";
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["tob", file]).contains("similar subcommand exists: 'top'"));
    assert!(refused(&["at", file, "7"]).contains(&format!("before the file: memreel at peak {file}")));
    assert!(refused(&["leaks", "--between", "a", "b", file]).contains(": no scopes were recorded"));
    assert!(
        refused(&["convert", file, "-o", "x.svg"])
            .contains(".svg is not the extension of a format; add --to json")
    );
    assert!(refused(&["explain", file]).contains("use: memreel oom FILE"));
    let folder = tempfile::tempdir().unwrap();
    let scoped = folder.path().join("scoped.pickle");
    memreel_snapshot::pickle::save(&crate::recorded::recorded(1, 200), &scoped).unwrap();
    let message = refused(&["leaks", "--between", "a", "b", scoped.to_str().unwrap()]);
    assert!(message.contains("device 0: there is no scope \"a\"; there are "), "{message}");
    assert!(message.contains("forward") && message.contains("backward"), "{message}");
    let reversed =
        ["leaks", "--device", "0", "--between", "forward#1", "forward#0", scoped.to_str().unwrap()];
    let message = refused(&reversed);
    assert!(message.contains("swap them: --between forward#0 forward#1"), "{message}");
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(answer(&["man", "--to", folder.path().to_str().unwrap()]), "");
    let completions = answer(&["completions", "bash"]);
    let commands = listed();
    assert!(commands.len() > 20, "{commands:?}");
    for (command, about) in commands.iter().filter(|(name, _)| *name != "help") {
        assert!(completions.contains(&format!("memreel__subcmd__{command}")), "{command}");
        let page = fs::read_to_string(folder.path().join(format!("memreel-{command}.1"))).unwrap();
        // In the page, an apostrophe and a hyphen are escapes.
        let page = page.replace("\\*(Aq", "'").replace("\\-", "-");
        assert!(page.contains(&format!("- {about}\n")), "{command}: {page}");
        let help = answer(&[command, "--help"]);
        assert!(help.starts_with(&format!("{about}\n")), "{command}: {help}");
        let example = format!("Examples:\n  memreel {command} ");
        assert!(help.contains(&example) || help.contains(example.trim_end()), "{command}: {help}");
        let status = if command == "record" { "Exit status: that of PROGRAM" } else { "Exit status: 0 " };
        assert!(help.contains(status), "{command}");
    }
}
