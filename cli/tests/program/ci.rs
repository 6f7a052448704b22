//! The recipe of `docs/ci.md`: its script passes, fails and explains itself as the page says.

#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::Path,
    process::{Command, Output},
};

use memreel::{Reel, recorder::Recording};

use crate::{
    repository,
    support::{stderr, stdout},
};

/// Returns the page's blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(repository("docs/ci.md")).unwrap();
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Writes a recording of blocks of these sizes, all live at the peak, as the job's snapshot.
fn record(folder: &Path, sizes: &[u64], history: Recording) {
    let reel = Reel::builder().history(history).build().unwrap();
    let blocks: Vec<_> = sizes.iter().map(|bytes| reel.alloc(*bytes).unwrap()).collect();
    drop(blocks);
    reel.save(folder.join("snapshot.pickle")).unwrap();
}

/// Runs words of a shell in a folder, with the program on the path.
fn shell(folder: &Path, words: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_memreel")).parent().unwrap();
    let path = env::join_paths(
        [program.to_path_buf()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let mut shell = Command::new("sh");
    shell.args(words).current_dir(folder).env("PATH", path.unwrap()).output().unwrap()
}

/// Runs the script as the job does.
fn gate(folder: &Path) -> Output {
    shell(folder, &["ci/memory-gate.sh"])
}

/// Runs the page's command that makes a baseline.
fn make_baseline(folder: &Path) {
    let [block] = &blocks("shell")[..] else { panic!("one command") };
    let command = block.trim().strip_prefix("$ ").unwrap();
    let made = shell(folder, &["-c", command]);
    assert_eq!((made.status.code(), stderr(&made)), (Some(0), ""));
}

#[test]
#[cfg(unix)]
fn the_script_of_the_page_gates() {
    let [script] = &blocks("sh")[..] else { panic!("one script") };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("ci")).unwrap();
    fs::write(folder.join("ci/memory-gate.sh"), script).unwrap();
    record(folder, &[3 << 20, 2 << 20], Recording::all());
    // Without a baseline nothing was compared, so the job fails, and makes none.
    let missing = gate(folder);
    assert_eq!(missing.status.code(), Some(3), "{}", stdout(&missing));
    assert!(stderr(&missing).contains("baseline.pickle"), "{}", stderr(&missing));
    assert!(!folder.join("baseline.pickle").exists());
    make_baseline(folder);
    let first = gate(folder);
    assert_eq!((first.status.code(), stderr(&first)), (Some(0), ""), "{}", stdout(&first));
    assert!(
        stdout(&first).contains("ok      peak is 5.00 MiB, at most 5.10 MiB (baseline)"),
        "{}",
        stdout(&first)
    );
    // Two percent more pass, and more than that does not.
    record(folder, &[3 << 20, (2 << 20) + 50_000], Recording::all());
    assert_eq!(gate(folder).status.code(), Some(0));
    record(folder, &[3 << 20, 3 << 20], Recording::all());
    let over = gate(folder);
    assert_eq!(over.status.code(), Some(4), "{}", stdout(&over));
    assert!(stdout(&over).contains("FAILED  peak is 6.00 MiB"), "{}", stdout(&over));
    assert!(stdout(&over).contains("difference: +1.00 MiB in use"), "{}", stdout(&over));
    let junit = fs::read_to_string(folder.join("memreel.xml")).unwrap();
    assert!(junit.contains("<failure message=\"peak is 6.00 MiB"), "{junit}");
    // A history that is not whole fails, however little it shows.
    record(folder, &[1 << 20; 40], Recording::all().max_entries(10));
    assert_eq!(gate(folder).status.code(), Some(4));
    fs::write(folder.join("snapshot.pickle"), "nothing").unwrap();
    assert_eq!(gate(folder).status.code(), Some(3));
}

/// The job runs what the page says to save.
#[test]
fn the_job_of_the_page_runs_the_script() {
    let [job] = &blocks("yaml")[..] else { panic!("one job") };
    let steps: Vec<&str> = job.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
    assert_eq!(steps.len(), 3, "{job}");
    assert_eq!(steps[2], "sh ci/memory-gate.sh");
    assert_eq!(steps[0], "cargo install --path memreel/cli --locked");
    assert!(job.lines().any(|line| line.trim() == "path: memreel"), "a step clones memreel: {job}");
    assert!(repository("cli/Cargo.toml").exists());
    let written = ["memreel.xml", "snapshot.pickle"];
    assert!(written.iter().all(|file| job.lines().any(|line| line.trim() == *file)), "{job}");
}
