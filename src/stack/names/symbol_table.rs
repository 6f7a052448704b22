//! The functions that a symbol table has at some addresses.
#![forbid(unsafe_code)]

use std::cmp::Reverse;

use object::{Object, ObjectSymbol, SymbolKind};

/// In a sound table a function is met by few symbols. One whose symbols all
/// cover every address is read no further than this many comparisons.
const MAX_MATCHES: usize = 1 << 24;

/// Why one of several symbols at the same place is the name to show.
type Rank<'a> = (u64, bool, bool, bool, Reverse<usize>, Reverse<&'a [u8]>);

/// The symbol around each address, which must rise; none where there is none.
///
/// One pass over the table, no copy of it: tables have millions of rows where
/// a snapshot asks for a thousand.
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

/// Code may hide behind the type of an object: some assemblers say so.
fn is_code(symbol: &object::Symbol<'_, '_>) -> bool {
    matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data) && !symbol.is_undefined()
}

/// The innermost first; then of a function's several names the public one, short and plain: `malloc`, not
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
