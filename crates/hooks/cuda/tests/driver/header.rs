//! The wrapped functions, the page about them (`docs/driver-functions.md`) and the list of the functions in NVIDIA's header.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = include_str!("../../../../../docs/driver-functions.md");
const HEADER: &str = include_str!("functions.txt");
const MOCK: &str = include_str!("../mock/cuda.c");

/// The only one that the header does not declare: the twin of a function that hands out functions.
const UNDECLARED: &str = "cuGetProcAddress_v2_ptsz";

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The wrapped functions, with the version of CUDA since which their name means them: 12040 for 12.4.
fn wrapped() -> BTreeMap<String, u32> {
    let calls = fs::read_dir(source().join("calls")).unwrap().map(|file| file.unwrap().path());
    let mut found = BTreeMap::new();
    for file in calls.chain([source().join("lookup.rs")]) {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("fn cu")) {
            let Some((symbol, rest)) = line.split_once("[\"") else { continue };
            let since: String =
                rest.chars().skip_while(|c| *c != ',').skip(2).take_while(char::is_ascii_digit).collect();
            found.insert(format!("cu{symbol}"), since.parse().unwrap());
        }
    }
    found
}

fn header() -> BTreeMap<&'static str, u32> {
    let lines = HEADER.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').map(|(symbol, since)| (symbol, since.parse().unwrap())).unwrap())
        .collect()
}

/// The rows of the table of wrapped functions: the function, the version, and how it is tested.
fn rows() -> Vec<[&'static str; 3]> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `cu") && line.matches(" | ").count() == 3);
    let cells = |line: &'static str| line.trim_matches(['|', ' ']).split(" | ").collect::<Vec<_>>();
    rows.map(cells).map(|cells| [cells[0].trim_matches('`'), cells[1], cells[3]]).collect()
}

/// The names that the page has in code: whole ones, and beginnings.
fn listed() -> (BTreeSet<&'static str>, Vec<&'static str>) {
    let names = PAGE.split('`').skip(1).step_by(2).filter(|name| name.starts_with("cu"));
    let (beginnings, whole): (Vec<&str>, Vec<&str>) = names.partition(|name| name.ends_with('…'));
    (whole.into_iter().collect(), beginnings.into_iter().map(|name| name.trim_end_matches('…')).collect())
}

/// The function of which this is the twin for the default stream of each thread, or itself.
fn without_twin(symbol: &str) -> &str {
    ["_ptsz", "_ptds"].iter().find_map(|twin| symbol.strip_suffix(twin)).unwrap_or(symbol)
}

#[test]
fn each_function_of_the_header_was_judged() {
    let (whole, beginnings) = listed();
    let is_listed = |symbol: &&str| {
        whole.contains(*symbol)
            || whole.contains(without_twin(symbol))
            || beginnings.iter().any(|beginning| symbol.starts_with(beginning))
    };
    let header = header();
    let missing: Vec<_> = header.keys().filter(|symbol| !is_listed(symbol)).collect();
    assert!(missing.is_empty(), "not in docs/driver-functions.md: {missing:?}");
    let is_there = |name: &&&str| {
        **name == UNDECLARED || header.keys().any(|symbol| symbol == *name || without_twin(symbol) == **name)
    };
    let unknown: Vec<_> = whole.iter().filter(|name| !is_there(name)).collect();
    assert!(unknown.is_empty(), "in no header: {unknown:?}");
}

/// A name that means another function from a version on has a wrapper of each.
#[test]
fn wrapped_functions_have_the_versions_of_the_header() {
    let header = header();
    for (symbol, since) in wrapped().iter().filter(|(symbol, _)| *symbol != UNDECLARED) {
        assert_eq!(header.get(&**symbol), Some(since), "{symbol}");
    }
}

#[test]
fn the_page_has_each_wrapped_function_and_how_it_is_tested() {
    let rows = rows();
    let on_page: BTreeMap<String, u32> = rows
        .iter()
        .map(|[symbol, since, _]| {
            let (major, minor) = since.split_once('.').unwrap();
            ((*symbol).to_owned(), major.parse::<u32>().unwrap() * 1000 + minor.parse::<u32>().unwrap() * 10)
        })
        .collect();
    assert_eq!(on_page, wrapped());
    for [symbol, _, tested] in rows {
        let is_in_mock = MOCK.lines().any(|line| line.starts_with(&format!("R {symbol}(")));
        assert_eq!(tested.contains("stand-in"), is_in_mock, "{symbol}");
    }
}
