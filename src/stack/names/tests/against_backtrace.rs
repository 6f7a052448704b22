//! Compares the names of thousands of addresses with those of `backtrace::resolve`.
#![forbid(unsafe_code)]

use std::{ffi::c_void, ops::Range, ptr};

use object::{Object, ObjectSection, ObjectSymbol};

use super::super::{super::modules, Symbol, demangle::demangle, symbolize::Symbolizer};
use crate::process::testing::random::Random;

type Plain = (String, String, u32);

/// Returns `(name, file, line)` by `backtrace`, innermost first, demangled like memreel's names.
fn by_backtrace(address: usize) -> Vec<Plain> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut::<c_void>(address), |symbol| {
        let name = symbol.name().map(|name| demangle(name.as_bytes())).unwrap_or_default();
        let filename = symbol.filename().map_or("??".into(), |path| path.to_string_lossy().into_owned());
        frames.push((name, filename, symbol.lineno().unwrap_or(0)));
    });
    frames
}

fn by_us(symbolizer: &mut Symbolizer, address: usize) -> Vec<Plain> {
    let plain = |symbol: &Symbol| (symbol.name.to_string(), symbol.filename.to_string(), symbol.line);
    // Not `frames`, which removes memreel's own: they are most of the test binary.
    symbolizer.whole(&[address]).iter().map(plain).collect()
}

/// Returns addresses all over the code of the module whose path `is_it` accepts, the same in every run.
fn addresses_in(is_it: impl Fn(&str) -> bool, n: usize) -> Vec<usize> {
    let (_, modules) = modules::list();
    let module = modules.iter().find(|module| is_it(&module.path.to_string_lossy())).expect("it is loaded");
    let data = std::fs::read(&module.path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let (start, len) = (text.address(), text.size());
    let code: Range<usize> = module.bias + start as usize..module.bias + (start + len) as usize;
    let mut random = Random::new(42);
    (0..n).map(|_| code.start + 1 + random.below(code.len() as u64) as usize).collect()
}

fn own_addresses(n: usize) -> Vec<usize> {
    let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    addresses_in(|path| path == own, n)
}

/// Returns the name of every symbol of a file that covers an address.
fn symbols_at(file: &object::File<'_>, probe: u64) -> Vec<String> {
    let covers = |symbol: &object::Symbol<'_, '_>| {
        (symbol.address()..symbol.address() + symbol.size()).contains(&probe) && symbol.is_definition()
    };
    file.symbols().filter(covers).map(|symbol| demangle(symbol.name_bytes().unwrap())).collect()
}

fn is_number(name: &str) -> bool {
    name.contains("+0x")
}

/// Two differences are intended. A function into which several were folded has several names, and each reader may
/// choose another one. And `backtrace` gives a symbol's name to the byte after its end too, which is padding.
#[test]
fn this_program_is_named_as_backtrace_names_it() {
    let addresses = own_addresses(5000);
    let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let bias = modules::list().1.iter().find(|module| module.ranges[0].start <= addresses[0]).unwrap().bias;
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare([(&addresses[..], modules::now())].into_iter());
    let (mut n_inlined, mut n_lines) = (0, 0);
    for address in addresses {
        let (ours, theirs) = (by_us(&mut symbolizer, address), by_backtrace(address));
        if ours != theirs {
            let symbols = symbols_at(&file, (address - 1 - bias) as u64);
            let is_symbol = ours.len() == 1 && (&*ours[0].1, ours[0].2) == ("??", 0);
            let is_fine =
                if symbols.is_empty() { is_number(&ours[0].0) } else { symbols.contains(&ours[0].0) };
            assert!(is_symbol && is_fine, "{address:#x}: {ours:?}, {theirs:?}, {symbols:?}");
        }
        n_inlined += usize::from(ours.len() > 1);
        n_lines += usize::from(ours[0].2 > 0);
    }
    assert!(
        n_inlined > 500 && n_lines > 2000,
        "{n_inlined} inlined, {n_lines} with lines: nothing was compared"
    );
}

/// Calls, files and lines are the same. Many functions of libc have several names, of
/// which memreel takes the public one and `backtrace` the last in its table.
#[test]
fn libc_is_named_as_backtrace_names_it() {
    let addresses = addresses_in(|path| path.contains("/libc.so") || path.contains("/ld-musl"), 2000);
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare([(&addresses[..], modules::now())].into_iter());
    let mut n_ours = 0;
    for address in addresses {
        let (ours, theirs) = (by_us(&mut symbolizer, address), by_backtrace(address));
        let lines =
            |frames: &[Plain]| frames.iter().map(|frame| (frame.1.clone(), frame.2)).collect::<Vec<_>>();
        let is_fine = lines(&ours) == lines(&theirs) || theirs.is_empty() && is_number(&ours[0].0);
        assert!(is_fine, "{address:#x}: {ours:?}, {theirs:?}");
        n_ours += usize::from(!is_number(&ours[0].0));
    }
    // A libc without any debug file has only the symbols of its public functions.
    assert!(n_ours > 500, "{n_ours}");
}
