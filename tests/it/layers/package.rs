//! The files of the published packages: links of their pages lead to files of the package, the page of registries has none to
//! files, and sources with their unit tests take in files of the package alone.

use memreel_testing::repository;
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    process::Command,
};

use super::unsafety::files;

/// The packages that are published, with their folders.
const PACKAGES: [(&str, &str); 6] = [
    ("memreel", ""),
    ("memreel-lockfree", "crates/lockfree"),
    ("memreel-snapshot", "crates/snapshot"),
    ("memreel-answers", "crates/answers"),
    ("memreel-cli", "crates/cli"),
    ("memreel-mcp", "crates/mcp"),
];

/// Returns the files that `cargo package` would pack.
fn packaged(package: &str) -> BTreeSet<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--list", "--allow-dirty", "--offline", "--package", package]);
    cargo.current_dir(repository(""));
    let listed = cargo.output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Returns the lines of a page outside of code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of the links and pictures of a page.
fn targets(page: &str) -> Vec<&str> {
    let inline =
        prose(page).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    let references =
        prose(page).filter(|line| line.starts_with('[')).filter_map(|line| line.split("]: ").nth(1));
    inline.chain(references).collect()
}

/// Returns the names by which links find the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the path of a link's target, relative to the root.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// Returns whether a link of a page leads to a file or a folder of the package, and to a heading there.
fn is_alive(files: &BTreeSet<PathBuf>, page: &Path, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_path_buf() } else { resolved(page, file) };
    let has_anchor = || anchors(&std::fs::read_to_string(repository(&path)).unwrap()).contains(anchor);
    match files.contains(&path) {
        true => anchor.is_empty() || has_anchor(),
        false => anchor.is_empty() && files.iter().any(|file| file.starts_with(&path)),
    }
}

#[test]
fn links_of_packaged_pages_are_not_dead() {
    let files = packaged("memreel");
    let pages: Vec<&PathBuf> =
        files.iter().filter(|file| file.extension().is_some_and(|e| e == "md")).collect();
    assert!(pages.len() > 5, "{pages:?}");
    let mut dead = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(repository(page)).unwrap();
        let links = targets(&text).into_iter().filter(|target| !target.contains("://"));
        dead.extend(
            links
                .filter(|target| !is_alive(&files, page, target))
                .map(|target| format!("{}: {target}", page.display())),
        );
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn the_pages_of_registries_have_no_links_to_files() {
    for (package, folder) in PACKAGES {
        let manifest = std::fs::read_to_string(repository(folder).join("Cargo.toml")).unwrap();
        let key = manifest.lines().find_map(|line| line.strip_prefix("readme = "));
        let page = Path::new(key.map_or("README.md", |key| key.trim_matches('"')));
        assert!(packaged(package).contains(page), "{package}");
        let text = std::fs::read_to_string(repository(folder).join(page)).unwrap();
        let targets = targets(&text);
        assert!(!targets.is_empty(), "{package}: it links to the viewer");
        assert!(targets.iter().all(|target| target.starts_with("https://")), "{package}: {targets:?}");
    }
}

/// Returns the paths of the files that a source takes in.
fn taken(text: &str) -> impl Iterator<Item = &str> {
    let starts = ["#[path = \"", "include!(\"", "include_str!(\"", "include_bytes!(\""];
    starts.into_iter().flat_map(|start| text.split(start).skip(1).filter_map(|rest| rest.split('"').next()))
}

/// `dev/scripts/packaged` runs these tests.
#[test]
fn unit_tests_use_files_of_their_package() {
    let (mut outside, mut n_taken) = (Vec::new(), 0);
    for (package, folder) in PACKAGES {
        let published = packaged(package);
        for path in files(&repository(folder).join("src")) {
            let text = std::fs::read_to_string(&path).unwrap();
            n_taken += taken(&text).count();
            let source = path.strip_prefix(repository(folder)).unwrap();
            let is_outside = |target: &&str| !published.contains(&resolved(source, target));
            let testing = text.contains("memreel_testing::").then_some("memreel_testing");
            let all = taken(&text).filter(is_outside).chain(testing);
            outside.extend(all.map(|target| format!("{}: {target}", path.display())));
        }
    }
    assert!(n_taken > 5, "only {n_taken} files are taken in");
    assert!(outside.is_empty(), "not in the package: {outside:#?}");
}
