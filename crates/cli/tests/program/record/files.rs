//! The files that a run leaves: names, children, and processes that are killed, run others or lose their files.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use memreel::Recovered;

use super::{Run, live_from, program, record};
use crate::{
    json_lines::{schema, validator},
    support,
};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// Runs the program that does something with its heap, into `run.pickle`.
fn recorded(what: &[&str]) -> Run {
    let program = program("program");
    record(&FILE, &[&[&*program], what].concat()).run()
}

#[test]
fn children_have_files_with_rank_and_process() {
    let run = record(&FILE, &["sh", "-c", "ls /proc/self/stat; true"]).env("RANK", "3").run();
    assert_eq!((run.status, &*run.out), (Some(0), "/proc/self/stat\n"), "{}", run.err);
    let files = run.files();
    let [child, own] = &files[..] else { panic!("{files:?} {}", run.err) };
    assert_eq!(own, "run-rank3.pickle");
    assert!(
        run.err.starts_with(
            "memreel: this is rank 3, so the snapshot is run-rank3.pickle; use {rank} in -o to "
        ),
        "{}",
        run.err
    );
    let process = child.strip_prefix("run-rank3-").and_then(|rest| rest.strip_suffix(".pickle")).unwrap();
    let _: u32 = process.parse().unwrap();
    let lines = run.lines_of_processes();
    assert_eq!(lines.len(), 2, "{}", run.err);
    assert!(lines.iter().any(|line| line.starts_with(&format!("memreel: process {process}, rank 3: "))));
    assert!(lines.iter().all(|line| line.contains(" events, peak ")), "{lines:?}");
    let next = run.err.lines().last().and_then(|line| line.strip_prefix("next: memreel ")).unwrap();
    assert!(files.iter().any(|file| file == next), "{next}: {files:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(", run-rank3.pickle")).count(), 1, "{lines:?}");
    for (name, _) in run.snapshots() {
        let path = run.folder.path().join(name);
        assert_eq!(support::run(&["validate", path.to_str().unwrap()]).status.code(), Some(0));
    }
}

/// Tapes have paths and names of functions.
#[test]
fn tapes_are_their_users_alone() {
    let run =
        record(&FILE, &["sh", "-c", "ls >/dev/null; stat -c %a .memreel-record-* .memreel-record-*/*.tape"])
            .run();
    let modes: BTreeSet<&str> = run.out.lines().collect();
    assert_eq!(modes, BTreeSet::from(["600", "700"]), "{} {}", run.out, run.err);
}

/// What packs or cleans the current folder meets nothing of memreel's there.
#[test]
fn the_folder_of_a_run_is_not_in_the_current_one() {
    let (place, near) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tar = ["sh", "-c", "tar cf $0 . && tar tf $0 && echo $MEMREEL_RECORD", "/dev/null"];
    let archive = place.path().join("all.tar").display().to_string();
    let words = [&tar[..3], &[&*archive]].concat();
    let in_folder = |run: &Run, folder: &Path| {
        assert_eq!(run.status, Some(0), "{}", run.err);
        let (listed, recorded) = run.out.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(Path::new(recorded).parent(), Some(&*folder.canonicalize().unwrap()), "{}", run.err);
        assert!(!Path::new(recorded).exists(), "{}", run.err);
        assert_eq!(listed, "./", "{}", run.err);
    };
    let run = record(&["--heap", "--tapes", near.path().to_str().unwrap()], &words).run();
    in_folder(&run, near.path());
    let run = record(&["--heap", "-o", near.path().join("run.pickle").to_str().unwrap()], &words).run();
    in_folder(&run, near.path());
    if rustix::fs::statfs(place.path()).is_ok_and(|of| of.f_bavail * (of.f_bsize as u64) < 4 << 30) {
        println!("skipped: no 4 GiB is free");
        return;
    }
    in_folder(&record(&["--heap"], &words).env("TMPDIR", near.path()).run(), near.path());
}

#[test]
fn a_folder_that_is_removed_is_reported() {
    let run = record(&FILE, &["sh", "-c", "ls >/dev/null; rm -rf $MEMREEL_RECORD; exit 3"]).run();
    assert_eq!(run.status, Some(3), "{}", run.err);
    assert!(run.err.contains(" was removed while the program ran, with all recordings; "), "{}", run.err);
    assert!(!run.err.contains("allocated nothing"), "{}", run.err);
}

#[test]
fn without_a_name_files_are_named_after_the_program() {
    let run = record(&["--heap"], &[&program("program")]).run();
    let files = run.files();
    let [file] = &files[..] else { panic!("{files:?} {}", run.err) };
    assert!(file.starts_with("memreel-program-") && file.ends_with(".tape"), "{file}");
    assert_eq!(live_from(&run.snapshot(file), 100_000), run.counted());
    assert!(run.err.contains(&format!(", {file}\n")), "{}", run.err);
}

#[test]
fn placeholders_are_filled_in() {
    let start =
        record(&["--heap", "-o", "{name}-{rank}-{pid}.pickle"], &["sh", "-c", "ls >/dev/null; echo $$"]);
    let run = start.env("RANK", "3").env("WORLD_SIZE", "8").run();
    let files = run.files();
    assert!(files.contains(&format!("sh-3-{}.pickle", run.out.trim())) && files.len() == 2, "{files:?}");
    assert!(
        files.iter().all(|name| name.starts_with("sh-3-")) && !run.err.contains("this is rank"),
        "{}",
        run.err
    );
    let wrong = record(&["-o", "run-{rnak}.pickle"], &["touch", "ran"]).run();
    assert_eq!((wrong.status, wrong.files().len()), (Some(2), 0), "{}", wrong.err);
    assert!(wrong.err.contains("unknown placeholder \"{rnak}\" at character 4"), "{}", wrong.err);
    let one = record(&FILE, &["ls"]).env("RANK", "0").env("WORLD_SIZE", "1").run();
    assert_eq!(one.files(), ["run.pickle"], "{}", one.err);
}

/// What a process recorded until SIGKILL or `abort` is on its tape.
#[test]
fn a_folder_that_takes_no_files_is_named() {
    let run = record(&["-o", "/proc/self/../snapshot.pickle"], &["touch", "ran"]).run();
    assert_eq!((run.status, run.files().len()), (Some(3), 0));
    let told = run.err.strip_prefix("memreel: cannot write /proc: ").unwrap();
    assert!(told.ends_with("; use -o to choose another folder, as in -o ~/snapshot.pickle\n"), "{told}");
}

/// It would be taken for that of a run that recorded nothing.
#[test]
fn the_snapshot_of_an_earlier_run_does_not_stay() {
    let start = |program: &str| {
        let start = record(&["-o", "run.pickle"], &[program]);
        fs::write(start.path("run.pickle"), "of an earlier run").unwrap();
        start.run()
    };
    let run = start("true");
    assert!(run.err.contains("allocated no GPU memory") && run.files().is_empty(), "{:?}", run.files());
    let run = start("/nowhere/program");
    assert_eq!((run.status, run.files()), (Some(127), vec!["run.pickle".to_owned()]), "nothing ran");
}

#[test]
fn crashes_lose_nothing() {
    for (what, status) in [("killed", 137), ("aborted", 134)] {
        let run = recorded(&[what]);
        assert_eq!(run.status, Some(status), "{}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{what}");
        assert_eq!(run.files(), ["run.pickle"]);
    }
}

#[test]
fn a_process_that_runs_another_program_has_a_file_for_each() {
    let run = recorded(&["runs"]);
    assert_eq!(run.files(), ["run-1.pickle", "run.pickle"], "{}", run.err);
    for (name, snapshot) in run.snapshots() {
        assert_eq!(live_from(&snapshot, 100_000), run.counted(), "{name}");
    }
    let processes: BTreeSet<_> =
        run.lines_of_processes().iter().filter_map(|line| line.split(':').nth(1)).collect();
    assert_eq!((processes.len(), run.lines_of_processes().len()), (1, 2), "{}", run.err);
}

#[test]
fn a_fork_that_does_nothing_leaves_nothing() {
    let run = recorded(&["forks"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted());
    assert_eq!(run.files(), ["run.pickle"], "{}", run.err);
    let n_forks = record(&FILE, &[&program("counting"), "5"]).run();
    assert_eq!((n_forks.status, n_forks.files().len()), (Some(0), 6), "{}", n_forks.err);
    n_forks.snapshots();
}

/// The program's own files get the numbers of ours, and nothing is written into them.
#[test]
fn a_program_that_closes_all_files_is_recorded() {
    let run = recorded(&["closed"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    for number in 0..8 {
        let mine = fs::read(run.folder.path().join(format!("mine-{number}"))).unwrap();
        assert_eq!(mine.len(), 4, "file {number}");
    }
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

#[test]
fn tapes_are_kept_if_asked_for() {
    let program = program("program");
    let run = record(&["--heap", "-o", "run.pickle", "--keep-tape"], &[&program]).run();
    let named = run
        .err
        .lines()
        .find_map(|line| line.split_once(" is ").filter(|(what, _)| what.contains("the tape of")));
    let (_, tape) = named.unwrap_or_else(|| panic!("{}", run.err));
    let kept = Recovered::read(tape).unwrap();
    assert!(kept.is_closed() || !kept.is_running());
    assert_eq!(live_from(&kept.snapshot(), 100_000), run.counted());
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted());
    let files = run.files();
    assert!(files.len() == 2 && files[0].starts_with(".memreel-record-"), "{files:?}");
}

/// Dumps of `--every` and `--signal` are beside the snapshot of the program.
#[test]
fn dumps_are_beside_the_snapshot() {
    let options = ["--heap", "-o", "run.pickle", "--signal", "USR2"];
    let script = "kill -USR2 $$; while ! ls | grep -q signal; do sleep 0.05; done; exit 4";
    let run = record(&options, &["sh", "-c", script]).env("RANK", "2").run();
    assert_eq!(run.status, Some(4), "{}", run.err);
    let dumps: Vec<String> = run.files().into_iter().filter(|name| name.contains("signal")).collect();
    assert!(!dumps.is_empty() && dumps[0].starts_with("run-rank2-"), "{:?}", run.files());
    dumps.iter().for_each(|name| _ = run.snapshot(name));
}

#[test]
fn lines_are_json_if_asked_for() {
    let run = record(&["--heap", "-o", "run.pickle", "--json"], &[&program("program")]).run();
    let lines: Vec<serde_json::Value> =
        run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["file"], &lines[0]["is_running"]), (&"run.pickle".into(), &false.into()));
    assert!(lines[0]["events"].as_u64().unwrap() >= 20, "{}", run.err);
    assert_eq!(lines[1]["files"], serde_json::json!(["run.pickle"]));
    assert!(validator(&schema(), "owners").is_valid(&lines[1]), "{}", run.err);
}

/// A process that lives may record later, on the tape that it has.
#[test]
fn the_tape_of_a_process_that_lives_is_kept() {
    // Nothing is so large, so nothing is recorded.
    let script = "sleep 60 >/dev/null 2>&1 & echo $!; while ! grep -qs memreel $MEMREEL_RECORD/$!-*.tape; do ls >/dev/null; done";
    let run = record(&["--heap", "--min-size", "1TiB"], &["sh", "-c", script]).run();
    let process = run.out.trim();
    let line = format!("memreel: process {process}, still running: ");
    // The shell's child may have a tape before it runs `sleep`.
    let (tape, files) = (format!("/{process}-"), run.files());
    assert!(Command::new("kill").arg(process).status().unwrap().success());
    assert!(run.err.contains(&line), "{}", run.err);
    let named = run.err.lines().find(|line| line.contains(&tape) && line.ends_with(".tape"));
    let (_, path) = named.and_then(|line| line.split_once(" is ")).unwrap_or_else(|| panic!("{}", run.err));
    assert!(Path::new(path).is_file(), "{files:?} {}", run.err);
}

/// Tapes take 2 MiB each while the program runs, so they go as soon as their processes have ended.
#[test]
fn tapes_go_when_their_processes_have_ended() {
    let script = "for i in $(seq 30); do ls >/dev/null; done
        n=99; t=0
        while [ $n -gt 6 ] && [ $t -lt 1200 ]; do sleep 0.1; set -- $MEMREEL_RECORD/*.tape; n=$#; t=$((t+1)); done
        echo $n";
    let run = record(&FILE, &["sh", "-c", script]).run();
    let n_tapes: usize = run.out.trim().parse().unwrap();
    assert!(n_tapes <= 6, "{n_tapes} tapes: {}", run.err);
    // The shell's own peak may be less than 1 MiB too, and so may be its `sleep`s.
    assert!(run.helpers().len() >= 30 && run.lines_of_processes().len() == 1, "{}", run.err);
    assert_eq!(run.files(), ["run-helpers", "run.pickle"], "{}", run.err);
    assert!(run.err.contains("heaps of the processes: "), "{}", run.err);
}

/// Recordings that nothing can save yet are like those of a loop that is faster than the saver.
#[test]
fn a_program_that_outruns_the_saver_goes_on_unrecorded() {
    let script = "cd $MEMREEL_RECORD; i=0
        while [ $i -lt 512 ]; do echo x >4190000-$i.tape; i=$((i+1)); done
        while ! [ -e full ]; do sleep 0.01; done
        ls / >/dev/null; true
        rm 4190000-*.tape
        while [ -e full ]; do sleep 0.01; done
        exec ls / >/dev/null";
    let run = record(&FILE, &["timeout", "60", "sh", "-c", script]).run();
    assert_eq!((run.status, &*run.out), (Some(0), ""), "{}", run.err);
    let line = |line: &&str| line.contains(" ran unrecorded, because 512 other recordings were waiting");
    // The shell's `sleep` may be another one.
    assert_eq!(run.err.lines().filter(line).count(), 1, "{}", run.err);
    let files = run.files();
    assert!(files.iter().all(|name| name.ends_with(".pickle")), "{files:?}");
    // The shell and the program that it became.
    let process =
        files.iter().find(|name| name.ends_with("-1.pickle")).unwrap_or_else(|| panic!("{files:?}"));
    run.snapshot(&process.replace("-1.pickle", ".pickle"));
}

/// A process that runs one program after the other has the tapes of few.
#[test]
fn a_program_that_was_left_is_saved_while_the_next_one_runs() {
    let script = r#"[ $0 = 9 ] && { n=99; t=0
        while [ $n -gt 1 ] && [ $t -lt 1200 ]; do sleep 0.1; set -- $MEMREEL_RECORD/$$-*.tape; n=$#; t=$((t+1)); done
        echo $n; exit; }
        exec sh -c "$1" $(($0+1)) "$1""#;
    let run = record(&FILE, &["sh", "-c", script, "0", script]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(run.out, "1\n", "{}", run.err);
    let all = run.files().into_iter().chain(run.helpers());
    let own: Vec<_> = all.filter(|name| name.starts_with("run.") || name.len() == 12).collect();
    assert_eq!(own.len(), 10, "{own:?}");
}

/// The first thread has ended, and another allocates on.
#[test]
fn a_process_without_its_first_thread_lives() {
    let run = recorded(&["leaves"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

/// In another namespace a process has another number, and the machine another age.
#[test]
fn a_process_of_another_namespace_lives() {
    let in_pids = ["unshare", "--pid", "--fork", "--kill-child"];
    let in_times = ["unshare", "--time", "--boottime", "100000"];
    for (unshare, number) in [(in_pids.as_slice(), "1"), (in_times.as_slice(), "$!")] {
        if !Command::new(unshare[0])
            .args(&unshare[1..])
            .arg("true")
            .status()
            .is_ok_and(|status| status.success())
        {
            println!("skipped: {} is refused here", unshare.join(" "));
            continue;
        }
        // The tape of `unshare` itself may be saved before it is seen; that of `sleep` stays.
        let script = format!(
            "{} sleep 60 >/dev/null 2>&1 & echo $!; \
             for i in $(seq 300); do set -- $MEMREEL_RECORD/{number}-*.tape; [ -e $1 ] && break; sleep 0.1; done; sleep 1",
            unshare.join(" ")
        );
        let run = record(&FILE, &["sh", "-c", &script]).run();
        let process = run.out.trim();
        assert!(Command::new("kill").arg(process).status().unwrap().success());
        let number = number.replace("$!", process);
        assert!(run.err.contains(&format!("memreel: process {number}, still running: ")), "{}", run.err);
    }
}
