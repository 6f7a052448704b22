//! The site: `docs/SUMMARY.md` is its list of pages.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use memreel_testing::repository;
use serde_json::{Value, json};

use crate::{commands::made, pages};

#[test]
fn every_page_is_in_the_site_once() {
    let summary = fs::read_to_string(repository("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let listed: Vec<&str> = links.filter(|link| !link.is_empty()).collect();
    let found: BTreeSet<String> = pages()
        .iter()
        .filter_map(|page| page.strip_prefix(repository("docs")).ok())
        .map(|page| page.display().to_string())
        .filter(|page| page != "SUMMARY.md")
        .collect();
    assert_eq!(listed.iter().map(|page| (*page).to_owned()).collect::<BTreeSet<_>>(), found);
    assert_eq!(listed.len(), found.len(), "a page is listed twice");
    assert!(
        summary.contains("\n- [All commands]()\n"),
        "where dev/scripts/book.py puts the pages of the commands"
    );
}

/// Returns the places that a page links to, without those of a network and of the page itself.
fn links(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    // In code, what follows is no link.
    links.filter(|link| !link.is_empty() && !link.contains("://") && link.contains('.')).collect()
}

/// Returns the pages of a list of items, and those below them.
fn chapters(items: &Value) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for chapter in items.as_array().into_iter().flatten().map(|item| &item["Chapter"]) {
        found.extend(chapter["path"].as_str().zip(chapter["content"].as_str()));
        found.extend(chapters(&chapter["sub_items"]));
    }
    found
}

/// Returns the site as mdBook has it after its preprocessor; `None` without Python.
fn site() -> Option<Value> {
    let docs = repository("docs").canonicalize().unwrap();
    let chapter = |page: &PathBuf| {
        let path = page.canonicalize().unwrap().strip_prefix(&docs).ok()?.display().to_string();
        let content = fs::read_to_string(page).unwrap();
        Some(json!({"Chapter": {"name": path, "content": content, "sub_items": [], "path": path}}))
    };
    let of_commands =
        json!({"Chapter": {"name": "All commands", "content": "", "sub_items": [], "path": null}});
    let items: Vec<Value> = pages().iter().filter_map(chapter).chain([of_commands]).collect();
    let folder = tempfile::tempdir().unwrap();
    xtask::pages::write(made(), folder.path()).unwrap();
    let mut python = Command::new("python3");
    python.arg("dev/scripts/book.py").current_dir(repository("")).env("MEMREEL_PAGES", folder.path());
    let mut preprocessor = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let book = json!([{}, {"items": items}]);
    preprocessor.stdin.take().unwrap().write_all(book.to_string().as_bytes()).unwrap();
    let output = preprocessor.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// A link that leads outside of docs/ works on a hub, and in the site the file is a page.
#[test]
#[cfg_attr(not(feature = "mcp"), ignore = "the pages are those of a program that has every command")]
fn every_link_of_the_site_leads_to_a_page_of_it() {
    let Some(site) = site() else {
        println!("skipped: no python3");
        return;
    };
    let chapters: BTreeMap<&str, &str> = chapters(&site["items"]).into_iter().collect();
    for (page, text) in made() {
        assert_eq!(chapters.get(&**page), Some(&&**text), "{page}");
    }
    assert!(chapters["README.md"].contains("[`memreel help COMMAND`](commands/index.md)"));
    assert!(chapters["examples/07_heap.rs.md"].contains("fn main"));
    let docs = repository("docs").canonicalize().unwrap();
    for (path, content) in &chapters {
        let is_code = path.ends_with(".rs.md") || path.ends_with(".py.md") || path.ends_with(".h.md");
        for link in links(content).into_iter().filter(|_| !is_code) {
            let mut target = docs.join(path).parent().unwrap().to_owned();
            link.split('/').for_each(|part| match part {
                ".." => _ = target.pop(),
                "." => {}
                part => target.push(part),
            });
            let within = target.strip_prefix(&docs).ok().map(|target| target.display().to_string());
            let is_there = within.is_some_and(|page| chapters.contains_key(&*page) || target.is_file());
            assert!(is_there, "{path} links to {link}, which is not in the site");
        }
    }
}
