//! The page `docs/guides/ci.md`: its commands pass, fail and explain themselves as it says. The steps of `action.yml` do so too.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
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
    let page = fs::read_to_string(repository("docs/guides/ci.md")).unwrap();
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

/// Returns the commands of the page: one makes a baseline, the other is the job's.
fn commands() -> [String; 2] {
    let [make, gate] = &blocks("shell")[..] else { panic!("two commands") };
    [make, gate].map(|block| block.trim().strip_prefix("$ ").unwrap().to_owned())
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_page_gate() {
    let [make, gate] = commands();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let gate = || shell(folder, &["-c", &gate]);
    record(folder, &[3 << 20, 2 << 20], Recording::all());
    // Without a baseline nothing was compared, so the job fails, and makes none.
    let missing = gate();
    assert_eq!(missing.status.code(), Some(3), "{}", stdout(&missing));
    assert!(stderr(&missing).contains("baseline.json"), "{}", stderr(&missing));
    assert!(!folder.join("baseline.json").exists());
    let made = shell(folder, &["-c", &make]);
    assert_eq!((made.status.code(), stderr(&made)), (Some(0), ""));
    assert!(fs::read_to_string(folder.join("baseline.json")).unwrap().lines().count() < 40);
    let first = gate();
    assert_eq!((first.status.code(), stderr(&first)), (Some(0), ""), "{}", stdout(&first));
    assert!(
        stdout(&first).contains("ok      peak is 5.00 MiB, within the limit of 5.10 MiB (baseline)"),
        "{}",
        stdout(&first)
    );
    // Two percent more pass, and more than that does not.
    record(folder, &[3 << 20, (2 << 20) + 50_000], Recording::all());
    assert_eq!(gate().status.code(), Some(0));
    record(folder, &[3 << 20, 3 << 20], Recording::all());
    let over = gate();
    assert_eq!(over.status.code(), Some(4), "{}", stdout(&over));
    assert!(stdout(&over).contains("FAILED  peak is 6.00 MiB"), "{}", stdout(&over));
    assert!(stdout(&over).contains("  5.00 MiB  6.00 MiB\n"), "{}", stdout(&over));
    let junit = fs::read_to_string(folder.join("memreel.xml")).unwrap();
    assert!(junit.contains("<failure message=\"peak is 6.00 MiB"), "{junit}");
    // A history that is not whole fails, however little it shows.
    record(folder, &[1 << 20; 40], Recording::all().max_entries(10));
    assert_eq!(gate().status.code(), Some(4));
    fs::write(folder.join("snapshot.pickle"), "nothing").unwrap();
    assert_eq!(gate().status.code(), Some(3));
}

/// The job runs the command of the page.
#[test]
fn the_job_of_the_page_runs_the_gate() {
    let [job, heap, _, _] = &blocks("yaml")[..] else {
        panic!("a job, its steps for a heap, the action, and a job for GitLab")
    };
    assert!(heap.contains("-p memreel-cli -p memreel-preload -p memreel-heap"), "{heap}");
    let steps: Vec<&str> = job.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
    assert_eq!(steps.len(), 3, "{job}");
    assert_eq!(steps[2], commands()[1]);
    assert_eq!(steps[0], "cargo install --path memreel/crates/cli --locked");
    assert!(job.lines().any(|line| line.trim() == "path: memreel"), "a step clones memreel: {job}");
    assert!(repository("crates/cli/Cargo.toml").exists());
    let written = ["memreel.xml", "snapshot.pickle"];
    assert!(written.iter().all(|file| job.lines().any(|line| line.trim() == *file)), "{job}");
}

/// Returns the script of a step of `action.yml`.
fn step(name: &str) -> String {
    let action = fs::read_to_string(repository("action.yml")).unwrap();
    let of_step = action.split("    - name: ").find(|step| step.starts_with(name)).expect(name);
    let (_, script) = of_step.split_once("      run: |\n").expect(name);
    script.lines().map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n").collect()
}

/// Runs a step of `action.yml` as GitHub does, with the variables of its `env`.
#[cfg(target_os = "linux")]
fn run_step(folder: &Path, name: &str, variables: &[(&str, &str)]) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step(name)]).current_dir(folder);
    bash.env("MEMREEL_BIN", env!("CARGO_BIN_EXE_memreel")).env("MEMREEL_PRELOAD", crate::record::libraries());
    bash.env("SNAPSHOT", "run.pickle").env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
    bash.envs(variables.iter().copied()).output().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_steps_of_the_action_record_gate_and_show_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Two words of one argument, so that the words of a shell are kept.
    let command = "sort -o 'sorted words' words";
    fs::write(folder.join("words"), "b\na\n").unwrap();
    let recorded = run_step(folder, "Record", &[("RUN", command), ("HEAP", "true")]);
    assert_eq!(recorded.status.code(), Some(0), "{}", stderr(&recorded));
    assert_eq!(fs::read_to_string(folder.join("sorted words")).unwrap(), "a\nb\n");
    assert!(folder.join("run.pickle").is_file(), "{}", stderr(&recorded));
    let gate = |limits: &str| run_step(folder, "Gate", &[("LIMITS", limits), ("JUNIT", "gate.xml")]);
    let kept = gate("--max-peak '10 GiB' --device 1");
    assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
    assert!(fs::read_to_string(folder.join("gate.xml")).unwrap().contains("testsuite"));
    assert_eq!(gate("--max-peak 1 --device 1").status.code(), Some(4));
    // Nothing of an input is run by a shell, whoever fills it.
    let planted = "--max-peak '10 GiB' --device 1 $(touch planted) `touch planted` ; touch planted";
    assert_eq!(gate(planted).status.code(), Some(3), "words that name no file");
    assert_eq!(gate("--max-peak 'open").status.code(), Some(1), "a quote that does not end");
    for command in
        ["sort words); touch planted; (true", "sort words $(touch planted)", "sort words && touch planted"]
    {
        let refused = run_step(folder, "Record", &[("RUN", command), ("HEAP", "true")]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    }
    assert!(!folder.join("planted").exists());
    let recorded = run_step(folder, "Record", &[("RUN", command), ("HEAP", "true")]);
    assert_eq!(recorded.status.code(), Some(0), "{}", stderr(&recorded));
    let shown = run_step(folder, "Summary", &[]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    assert!(fs::read_to_string(folder.join("summary.md")).unwrap().contains("| share | bytes |"));
    // The status of a command that fails is that of the step.
    let failed = run_step(folder, "Record", &[("RUN", "sort missing"), ("HEAP", "true")]);
    assert_eq!(failed.status.code(), Some(2), "{}", stderr(&failed));
    // A second command is refused, and not left out.
    for run in ["true && false", "true\nfalse"] {
        let two = run_step(folder, "Record", &[("RUN", run), ("HEAP", "false")]);
        assert!(matches!(two.status.code(), Some(1 | 2)), "{run}: {}", stderr(&two));
    }
    // What is quoted is the program's.
    let quoted = run_step(folder, "Record", &[("RUN", "printf '%s' '&&' \"a;b\" \\;"), ("HEAP", "false")]);
    assert_eq!((quoted.status.code(), stdout(&quoted)), (Some(0), "&&a;b;"), "{}", stderr(&quoted));
    let of_one_line = run_step(folder, "Record", &[("RUN", "true\n"), ("HEAP", "false")]);
    assert_eq!(of_one_line.status.code(), Some(0), "{}", stderr(&of_one_line));
    let unreadable = run_step(folder, "Summary", &[("SNAPSHOT", "missing.pickle")]);
    assert_eq!(unreadable.status.code(), Some(3), "{}", stderr(&unreadable));
}

/// Each input is in the variables of a step, and no step asks for another.
#[test]
fn the_inputs_of_the_action_are_those_that_its_steps_use() {
    let action = fs::read_to_string(repository("action.yml")).unwrap();
    let (inputs, steps) = action.split_once("runs:\n").unwrap();
    let inputs = inputs.split_once("inputs:\n").unwrap().1.lines();
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let declared: BTreeSet<&str> =
        inputs.filter(is_name).map(|line| line.trim().trim_end_matches(':')).collect();
    let asked = steps.split("inputs.").skip(1);
    let used: BTreeSet<&str> = asked
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next())
        .collect();
    assert_eq!(declared, used);
}
