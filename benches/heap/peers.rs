//! Other profilers on the same loop.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{pairs::Load, report::figure_of};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/heap")
}

/// A folder for what is built and written here.
fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("heap-bench")
}

/// Runs a command for its effect.
fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} was not found: {error}"))?;
    let why = || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}, {}", output.status, why())) }
}

/// The crate dhat, in a package of its own, so that memreel's tree does not have it.
pub(crate) fn dhat(n_threads: usize, load: Load) -> Result<f64, String> {
    let target = scratch().join("dhat");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--manifest-path"]).arg(folder().join("dhat/Cargo.toml"));
    done(build.env("CARGO_TARGET_DIR", &target))?;
    let mut program = Command::new(target.join("release/memreel-bench-dhat"));
    program.arg(n_threads.to_string()).args(load.argument()).current_dir(scratch());
    figure_of(&mut program)
}

/// The given program under heaptrack, which preloads a library and writes to another process.
pub(crate) fn heaptrack(program: &Command) -> Result<f64, String> {
    let mut tracked = Command::new("heaptrack");
    std::fs::create_dir_all(scratch()).map_err(|error| error.to_string())?;
    tracked.arg("--raw").arg("-o").arg(scratch().join("heaptrack"));
    tracked.arg(program.get_program()).args(program.get_args());
    done(Command::new("heaptrack").arg("--version"))?;
    figure_of(&mut tracked)
}

/// The loop called from Python, without and with memray.
pub(crate) fn memray(n_threads: usize, load: Load) -> (Result<f64, String>, Result<f64, String>) {
    let python = env::var("MEMREEL_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let library = scratch().join("libpairs.so");
    let run = |options: &[&str]| {
        let mut program = Command::new(&python);
        program.args(options).arg(folder().join("memray.py")).arg(&library);
        figure_of(program.arg(n_threads.to_string()).args(load.argument()))
    };
    let built = std::fs::create_dir_all(scratch()).map_err(|error| error.to_string()).and_then(|()| {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut build = Command::new(rustc);
        build.args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"]).arg(&library);
        done(build.arg(folder().join("library.rs")))
    });
    if let Err(why) = built {
        return (Err(why.clone()), Err(why));
    }
    let plain = run(&[]);
    let has_memray = done(Command::new(&python).args(["-c", "import memray"]));
    let file = scratch().join("memray.bin");
    let file = file.to_string_lossy();
    let options = ["-m", "memray", "run", "--native", "--force", "--quiet", "-o", &*file];
    (plain, has_memray.map_err(|_| format!("{python} has no memray")).and_then(|()| run(&options)))
}
