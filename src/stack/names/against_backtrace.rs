//! The names of thousands of addresses, beside those that `backtrace::resolve` gives.

use std::{ffi::c_void, ops::Range, ptr};

use object::{Object, ObjectSection, ObjectSymbol};

use super::{Symbol, Symbolizer, demangle::demangle, loader};

type Plain = (String, String, u32);

/// `(name, file, line)` by `backtrace`, innermost first, with names demangled as ours are.
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
    // Not `frames`: that cuts off memreel's own, which are most of the test binary.
    symbolizer.whole(&[address]).iter().map(plain).collect()
}

/// Addresses all over the code of a module whose path ends so, the same in every run.
fn addresses_in(is_it: impl Fn(&str) -> bool, n: usize) -> Vec<usize> {
    let (_, modules) = loader::list();
    let module = modules.iter().find(|module| is_it(&module.path.to_string_lossy())).expect("it is loaded");
    let data = std::fs::read(&module.path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let (start, len) = (text.address(), text.size());
    let code: Range<usize> = module.bias + start as usize..module.bias + (start + len) as usize;
    let mut state = 42_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    (0..n).map(|_| code.start + 1 + random() % code.len()).collect()
}

fn own_addresses(n: usize) -> Vec<usize> {
    let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    addresses_in(|path| path == own, n)
}

/// Every name that a file's symbols give the byte before an address, by looking at each symbol.
fn symbols_at(file: &object::File<'_>, probe: u64) -> Vec<String> {
    let covers = |symbol: &object::Symbol<'_, '_>| {
        (symbol.address()..symbol.address() + symbol.size()).contains(&probe) && symbol.is_definition()
    };
    file.symbols().filter(covers).map(|symbol| demangle(symbol.name_bytes().unwrap())).collect()
}

fn is_number(name: &str) -> bool {
    name.contains("+0x")
}

/// Two differences are meant. Functions folded into one have several names,
/// and each may take another. And they give a symbol's name to the byte behind
/// its end too, which is padding.
#[test]
fn this_program_is_named_as_backtrace_names_it() {
    let addresses = own_addresses(5000);
    let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let bias = loader::list().1.iter().find(|module| module.ranges[0].start <= addresses[0]).unwrap().bias;
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().copied());
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

/// Calls, files and lines are the same. Much of libc has several names, of
/// which we take the public one and they the last in their table.
#[test]
fn libc_is_named_as_backtrace_names_it() {
    let addresses = addresses_in(|path| path.contains("/libc.so") || path.contains("/ld-musl"), 2000);
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().copied());
    let mut n_ours = 0;
    for address in addresses {
        let (ours, theirs) = (by_us(&mut symbolizer, address), by_backtrace(address));
        let lines =
            |frames: &[Plain]| frames.iter().map(|frame| (frame.1.clone(), frame.2)).collect::<Vec<_>>();
        let is_fine = lines(&ours) == lines(&theirs) || theirs.is_empty() && is_number(&ours[0].0);
        assert!(is_fine, "{address:#x}: {ours:?}, {theirs:?}");
        n_ours += usize::from(!is_number(&ours[0].0));
    }
    // A libc without any debug file has the symbols of its public functions alone.
    assert!(n_ours > 500, "{n_ours}");
}
