//! Tests names that the processes of a run share.
#![forbid(unsafe_code)]

use std::{fs, path::Path, sync::Arc};

use super::super::{
    super::modules::{Fingerprint, Life, Module},
    shared::SharedNames,
    target::{Named, Target, name_all},
};

/// Returns an address of this program, in a process that has the program's file at another address.
fn target(path: &Path, bias: usize, address: usize) -> Target {
    let fingerprint = Fingerprint::of_file(&fs::read("/proc/self/exe").unwrap()).unwrap();
    let module = Module { path: path.into(), bias, ranges: Vec::new(), fingerprint };
    let (_, modules) = super::super::super::modules::list();
    let own = std::env::current_exe().unwrap();
    let at = modules.iter().find(|module| module.path == own).unwrap().bias;
    Target::of_call((address - at + bias, Some(Arc::new(Life { number: 7, module }))))
}

fn texts(named: &[Named]) -> Vec<String> {
    let symbols = named.iter().flat_map(|named| named.symbols.iter());
    symbols.map(|symbol| format!("{} {} {}", symbol.name, symbol.filename, symbol.line)).collect()
}

#[test]
fn a_file_is_read_once_for_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    fs::copy("/proc/self/exe", &path).unwrap();
    let address = a_file_is_read_once_for_all_processes as fn() as usize + 1;
    let names = SharedNames::default();
    let first = texts(&names.name_all(&[target(&path, 0x1000_0000, address)]));
    assert!(first[0].contains("a_file_is_read_once_for_all_processes"), "{first:?}");
    let is_missing = |names: &SharedNames| names.missing(target(&path, 0, address).module().unwrap());
    assert_eq!(is_missing(&names), None);
    fs::remove_file(&path).unwrap();
    // Another process has the same position in the file, and a new one.
    let others = [target(&path, 0x7000_0000, address), target(&path, 0x7000_0000, address + 100_000)];
    let second = names.name_all(&others);
    assert_eq!(texts(&second[..1]), first);
    assert_eq!(second.len(), 2);
    assert_eq!(is_missing(&names), None, "it was there when the names were read");
    assert_eq!(is_missing(&SharedNames::default()), Some("cannot be read"));
    assert!(texts(&name_all(&others[..1]))[0].starts_with("program+0x"), "without what is known");
}

/// Uses the same path, but another build.
#[test]
fn another_build_has_names_of_its_own() {
    let own = std::env::current_exe().unwrap();
    let address = another_build_has_names_of_its_own as fn() as usize + 1;
    let known = target(&own, 0x1000_0000, address);
    let mut module = known.module().unwrap().clone();
    module.fingerprint = Fingerprint::of_number(1);
    let other = Target::of_call((address, Some(Arc::new(Life { number: 8, module }))));
    let names = SharedNames::default();
    let named = names.name_all(&[known, other]);
    assert!(
        texts(&named[..1])[0].contains("another_build") && texts(&named[1..])[0].contains("+0x"),
        "{named:?}"
    );
}
