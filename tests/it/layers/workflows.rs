//! What runs on a machine of GitHub: actions are pinned by commit, a job that publishes has one right, and no input is run.
#![forbid(unsafe_code)]

use std::fs;

use memreel_testing::repository;

const WORKFLOWS: [&str; 2] = [".github/workflows/ci.yml", ".github/workflows/release.yml"];

fn text(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap()
}

fn is_hex(text: &str, n_digits: usize) -> bool {
    text.len() == n_digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn actions_are_pinned_by_commit_and_keep_no_credentials() {
    for path in WORKFLOWS {
        let text = text(path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let mut n_actions = 0;
        for (at, line) in lines.iter().enumerate() {
            let Some(action) = line.trim_start_matches("- ").strip_prefix("uses: ") else { continue };
            n_actions += 1;
            let (name, version) = action.split_once('@').unwrap();
            let (commit, tag) = version.split_once(" # v").unwrap_or_else(|| panic!("{path}: {line}"));
            assert!(is_hex(commit, 40) && !tag.is_empty(), "{path}: {line}");
            if name == "actions/checkout" {
                let with = lines[at + 1..].iter().take_while(|line| !line.starts_with("- "));
                assert!(
                    with.clone().any(|line| *line == "persist-credentials: false"),
                    "{path}: line {}",
                    at + 1
                );
            }
        }
        assert!(n_actions > 5, "{path}");
        assert!(!text.contains("pull_request_target"), "{path}");
    }
}

#[test]
fn a_job_that_publishes_has_one_right() {
    let text = text(".github/workflows/release.yml");
    let (_, jobs) = text.split_once("\njobs:\n").unwrap();
    let mut publishing = Vec::new();
    // A job begins with its name, two columns in.
    let mut job: Vec<&str> = Vec::new();
    let is_name = |line: &str| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
    for line in jobs.lines().chain(["  end:"]) {
        if is_name(line) {
            let has = |word: &str| job.iter().any(|line| line.trim() == word);
            if has("environment: release") {
                assert!(has("contents: write") != has("id-token: write"), "{job:#?}");
                assert!(!has("attestations: write"), "{job:#?}");
                publishing.extend(job.first().copied());
            } else {
                assert!(!has("contents: write"), "{job:#?}");
            }
            job.clear();
        }
        job.push(line);
    }
    assert_eq!(publishing, ["  github:", "  pypi:", "  crates-io:"]);
}

#[test]
fn what_a_release_installs_has_hashes() {
    let release = text(".github/workflows/release.yml");
    let installs: Vec<&str> = release.lines().filter(|line| line.contains("pip install")).collect();
    assert!(installs.len() > 1);
    for line in installs {
        let is_own = line.trim() == "fresh/bin/pip install dist/*.whl";
        assert!(
            is_own || line.contains("--require-hashes --no-deps -r dev/scripts/release-tools.txt"),
            "{line}"
        );
    }
    let tools = text("dev/scripts/release-tools.txt");
    let mut n_hashes = 0;
    for line in tools.lines().filter(|line| !line.starts_with('#')) {
        match line.trim().trim_end_matches(" \\").strip_prefix("--hash=sha256:") {
            Some(hash) => {
                n_hashes += 1;
                assert!(is_hex(hash, 64), "{line}");
            }
            None => assert!(line.contains("==") && line.ends_with(" \\"), "{line}"),
        }
    }
    assert!(n_hashes > 4, "{tools}");
}

/// The images without a digest, each with its reason. A registry of images says which digest a name has today.
const NAMED_BY_TAG: [(&str, &str); 3] = [
    (
        "debian:11",
        "the oldest glibc that a release runs with; its digest was not looked up at the registry yet",
    ),
    ("rust:1-slim-bullseye", "the newest compiler on that system; nothing that is published is built in it"),
    ("debian:stable-slim", "the newest repairs of Debian; nothing that is published is built in it"),
];

#[test]
fn images_have_digests_or_a_reason() {
    let mut without = Vec::new();
    for (path, words) in [
        (WORKFLOWS[0], &["container: ", "image: "][..]),
        (WORKFLOWS[1], &["container: ", "image: "]),
        ("Dockerfile", &["FROM "]),
    ] {
        let text = text(path);
        for line in text.lines().map(|line| line.trim().trim_start_matches("- ")) {
            let Some(image) = words.iter().find_map(|word| line.strip_prefix(word)) else { continue };
            let image = image.split_whitespace().next().unwrap_or_default().to_owned();
            match image.split_once("@sha256:") {
                Some((_, digest)) => assert!(is_hex(digest, 64), "{path}: {line}"),
                None => without.push(image),
            }
        }
    }
    without.sort();
    let mut named = NAMED_BY_TAG.map(|(image, _)| image.to_owned());
    named.sort();
    assert_eq!(without, named, "an image has a digest, or a reason in the list");
}

#[test]
fn what_a_workflow_downloads_has_a_hash() {
    let mut n_downloads = 0;
    for path in WORKFLOWS {
        let text = text(path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in
            lines.iter().enumerate().filter(|(_, line)| line.contains("curl ") && line.contains("://"))
        {
            n_downloads += 1;
            assert!(!line.contains("| sh") && !line.contains("| bash"), "{path}: {line}");
            let hash = lines[at + 1].strip_prefix("echo '").and_then(|rest| rest.split(' ').next());
            let is_checked = lines[at + 1].ends_with("| sha256sum --check --strict");
            assert!(is_checked && hash.is_some_and(|hash| is_hex(hash, 64)), "{path}: {line}");
        }
    }
    assert_eq!(n_downloads, 1);
}

/// A name that begins with a hyphen would be an option.
#[test]
fn no_input_of_the_action_is_an_option() {
    let action = text("action.yml");
    let named: Vec<&str> = action.lines().filter(|line| line.contains("\"$SNAPSHOT\"")).collect();
    assert!(named.len() > 2, "{named:?}");
    for line in named {
        assert!(
            [" -o ", " -- "].iter().any(|before| line.contains(&format!("{before}\"$SNAPSHOT\""))),
            "{line}"
        );
    }
}

/// An expression within a script is the text of whoever fills the input.
#[test]
fn no_input_of_the_action_is_run() {
    let action = text("action.yml");
    assert!(!action.contains("eval"), "words are split without a shell");
    let mut is_script = false;
    for line in action.lines() {
        let is_indented = line.starts_with("        ");
        is_script = (is_script && is_indented) || line.trim() == "run: |";
        assert!(!is_script || !line.contains("${{"), "{line}");
    }
}
