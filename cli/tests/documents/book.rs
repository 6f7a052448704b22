//! The site: `docs/SUMMARY.md` is its list of pages.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    process::{Command, Stdio},
};

use memreel_testing::repository;
use serde_json::{Value, json};

use crate::pages;

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
}

/// Returns the places that a page links to, without those of a network and of the page itself.
fn links(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    // In code, what follows is no link.
    links.filter(|link| !link.is_empty() && !link.contains("://") && link.contains('.')).collect()
}

/// A link that leads outside of docs/ works on a hub, and in the site the file is a page.
#[test]
fn every_link_of_the_site_leads_to_a_page_of_it() {
    let docs = repository("docs").canonicalize().unwrap();
    let chapter = |page: &std::path::PathBuf| {
        let path = page.canonicalize().unwrap().strip_prefix(&docs).ok()?.display().to_string();
        let content = fs::read_to_string(page).unwrap();
        Some(json!({"Chapter": {"name": path, "content": content, "sub_items": [], "path": path}}))
    };
    let book = json!([{}, {"items": pages().iter().filter_map(chapter).collect::<Vec<_>>()}]);
    let script = repository(".ci/book.py");
    let started = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut made) = started else {
        println!("skipped: no python3");
        return;
    };
    made.stdin.take().unwrap().write_all(book.to_string().as_bytes()).unwrap();
    let made = made.wait_with_output().unwrap();
    assert!(made.status.success());
    let book: Value = serde_json::from_slice(&made.stdout).unwrap();
    let chapters = book["items"].as_array().unwrap().iter().map(|item| &item["Chapter"]);
    let chapters: BTreeMap<&str, &str> = chapters
        .filter_map(|chapter| Some((chapter["path"].as_str()?, chapter["content"].as_str()?)))
        .collect();
    assert!(
        chapters.contains_key("schema/json.md") && chapters["examples/07_heap.rs.md"].contains("fn main")
    );
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
