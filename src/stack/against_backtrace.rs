//! The names of thousands of addresses, beside those that `backtrace::resolve` gives.

use std::{ffi::c_void, ops::Range, ptr};

use super::{Symbol, Symbolizer, demangle::demangle, loader};

/// `(name, file, line)` by `backtrace`, innermost first, with names demangled as ours are.
fn by_backtrace(address: usize) -> Vec<(String, String, u32)> {
    let mut frames = Vec::new();
    backtrace::resolve(ptr::without_provenance_mut::<c_void>(address), |symbol| {
        let name = symbol.name().map(|name| demangle(name.as_bytes())).unwrap_or_default();
        let filename = symbol.filename().map_or("??".into(), |path| path.to_string_lossy().into_owned());
        frames.push((name, filename, symbol.lineno().unwrap_or(0)));
    });
    frames
}

fn by_us(symbolizer: &mut Symbolizer, address: usize) -> Vec<(String, String, u32)> {
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
    let text = object::Object::section_by_name(&file, ".text").unwrap();
    let (start, len) = (object::ObjectSection::address(&text), object::ObjectSection::size(&text));
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

/// Whether ours are theirs, frame by frame.
///
/// Two differences are meant. What they leave without a name is the module and
/// an offset. And a symbol ends before its end: they still give its name to the
/// one byte behind it, which is padding.
fn is_as_good(symbolizer: &mut Symbolizer, address: usize, theirs: &[(String, String, u32)]) -> bool {
    let ours = by_us(symbolizer, address);
    let is_number = |name: &str| name.contains("+0x");
    if theirs.is_empty() || (is_number(&ours[0].0) && theirs[0].1 == "??") {
        let is_behind = || by_us(symbolizer, address - 1)[0].0 == theirs[0].0;
        return ours.len() == 1 && is_number(&ours[0].0) && (theirs.is_empty() || is_behind());
    }
    let is_same = |(ours, theirs): (&(String, String, u32), &(String, String, u32))| {
        let is_name = if theirs.0.is_empty() { is_number(&ours.0) } else { ours.0 == theirs.0 };
        is_name && (&ours.1, ours.2) == (&theirs.1, theirs.2)
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
}

#[test]
fn this_program_is_named_as_backtrace_names_it() {
    let addresses = own_addresses(5000);
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().copied());
    let (mut n_inlined, mut n_lines) = (0, 0);
    for address in addresses {
        let expected = by_backtrace(address);
        let ours = by_us(&mut symbolizer, address);
        assert!(is_as_good(&mut symbolizer, address, &expected), "{address:#x}: {ours:?}, {expected:?}");
        n_inlined += usize::from(ours.len() > 1);
        n_lines += usize::from(ours[0].2 > 0);
    }
    assert!(
        n_inlined > 500 && n_lines > 2000,
        "{n_inlined} inlined, {n_lines} with lines: nothing was compared"
    );
}

/// Names of the same function may differ where it has several: each must be one of them.
#[test]
fn libc_is_named_as_backtrace_names_it() {
    let addresses = addresses_in(|path| path.contains("/libc.so") || path.contains("/ld-musl"), 2000);
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().copied());
    let mut n_named = 0;
    for address in addresses {
        let expected = by_backtrace(address);
        let ours = by_us(&mut symbolizer, address);
        n_named += usize::from(!ours[0].0.contains("+0x"));
        // Without lines, of a function's several names (`malloc`, `__libc_malloc`) each takes another.
        let is_symbol = expected.first().is_some_and(|frame| frame.1 == "??");
        let is_fine = is_symbol || is_as_good(&mut symbolizer, address, &expected);
        assert!(is_fine, "{address:#x}: {ours:?}, {expected:?}");
    }
    assert!(n_named > 500, "{n_named}");
}

#[test]
#[ignore]
fn timing() {
    let mut addresses = own_addresses(2000);
    addresses.sort();
    addresses.dedup();
    for _ in 0..5 {
        backtrace::clear_symbol_cache();
        let start = std::time::Instant::now();
        let mut symbolizer = Symbolizer::default();
        symbolizer.prepare(addresses.iter().copied());
        let ours = start.elapsed();
        backtrace::clear_symbol_cache();
        let start = std::time::Instant::now();
        let n: usize = addresses.iter().map(|address| by_backtrace(*address).len()).sum();
        let theirs = start.elapsed();
        let start = std::time::Instant::now();
        for address in &addresses {
            symbolizer.whole(&[*address]);
        }
        eprintln!(
            "{} addresses: ours {ours:?}, backtrace {theirs:?} ({n} frames), known {:?}",
            addresses.len(),
            start.elapsed()
        );
    }
}
