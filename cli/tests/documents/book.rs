//! The site: `docs/SUMMARY.md` is its list of pages.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs};

use memreel_testing::repository;

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
