//! Finds the functions at addresses in a symbol table.
#![forbid(unsafe_code)]

use std::cmp::Reverse;

use object::{Object, ObjectSymbol, SymbolKind};

/// The most matches of a symbol and an address. In a valid table few symbols cover an address; reading stops in a table
/// whose symbols all cover every address.
const MAX_MATCHES: usize = 1 << 24;

/// The rank of a symbol among several at the same place; the greatest is shown.
type Rank<'a> = (u64, bool, bool, bool, Reverse<usize>, Reverse<&'a [u8]>);

/// Returns the name of the symbol around each address, or none; the addresses must rise.
///
/// This is one pass over the table, without a copy: a table has millions of symbols where a snapshot asks for a
/// thousand.
pub(super) fn names<'a>(file: &object::File<'a>, addresses: &[u64]) -> Vec<Option<&'a [u8]>> {
    let mut best: Vec<Option<Rank<'a>>> = vec![None; addresses.len()];
    if file.symbols().next().is_some() {
        collect(file.symbols(), addresses, &mut best);
    } else {
        collect(file.dynamic_symbols(), addresses, &mut best);
    }
    best.into_iter().map(|rank| rank.map(|rank| rank.5.0)).collect()
}

fn collect<'a, 'f>(
    symbols: impl Iterator<Item = object::Symbol<'a, 'f>>,
    addresses: &[u64],
    best: &mut [Option<Rank<'a>>],
) where
    'a: 'f,
{
    let mut n_matches = 0;
    for symbol in symbols {
        let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
        let from = addresses.partition_point(|address| *address < start);
        let n_inside = addresses[from..].partition_point(|address| *address < end);
        if n_inside == 0 || !is_code(&symbol) {
            continue;
        }
        n_matches += n_inside;
        if n_matches > MAX_MATCHES {
            return;
        }
        let Some(rank) = rank(&symbol) else { continue };
        for slot in &mut best[from..from + n_inside] {
            *slot = (*slot).max(Some(rank));
        }
    }
}

/// Returns whether a symbol may be code: some assemblers give code the type of an object.
fn is_code(symbol: &object::Symbol<'_, '_>) -> bool {
    matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data) && !symbol.is_undefined()
}

/// Ranks symbols: innermost first; of a function's several names, the public, plain and short one: `malloc`, not
/// `__libc_malloc`.
fn rank<'a>(symbol: &object::Symbol<'a, '_>) -> Option<Rank<'a>> {
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    Some((
        symbol.address(),
        symbol.kind() == SymbolKind::Text,
        symbol.is_global(),
        !name.starts_with(b"_"),
        Reverse(name.len()),
        Reverse(name),
    ))
}
