//! Addresses of names that loaded modules export, read from their tables.
//!
//! `dlsym` is not for captures. If a name is missing, it allocates a text for `dlerror`, which its next call or the end of the
//! thread frees. A capture within that free would free the text again; and the program's `dlerror` would return it.

use std::{
    ffi::{CStr, c_void},
    ops::ControlFlow,
    ptr,
};

use super::loader;

/// Tags of a module's dynamic section.
const NAMES: u64 = 5;
const SYMBOLS: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;

/// The bytes of a symbol: its name's place, type, section, value.
const SYMBOL_BYTES: usize = 24;
/// The types of data and functions; others have no plain address.
const PLAIN_TYPES: std::ops::RangeInclusive<u8> = 0..=2;
/// Sections from here on are special; 0 is that of names that a module imports.
const FIRST_SPECIAL: u16 = 0xff00;

/// Returns the address of each name in the first module that defines it; `None` if the loader cannot be asked now.
pub(crate) fn exported<const N: usize>(names: [&CStr; N]) -> Option<[Option<*mut c_void>; N]> {
    let mut found = [None; N];
    let is_asked = loader::each(&mut |entry| {
        if let Some(dynamic) = entry.mapping.dynamic_section() {
            // SAFETY: the section of a module that is loaded.
            let table = unsafe { Table::read(dynamic, entry.mapping.bias()) };
            for (found, name) in found.iter_mut().zip(names) {
                // SAFETY: as above.
                *found = found.or_else(|| unsafe { table.as_ref()?.find(name) });
            }
        }
        if found.iter().all(Option::is_some) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let pointer = |address: Option<usize>| address.map(ptr::with_exposed_provenance_mut);
    is_asked.then(|| found.map(pointer))
}

/// Where a module has its symbols.
struct Table {
    bias: usize,
    names: usize,
    symbols: usize,
    hash: usize,
}

/// # Safety
///
/// A value of this type is at the address.
unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: by the contract.
    unsafe { ptr::with_exposed_provenance::<T>(address).read_unaligned() }
}

impl Table {
    /// Returns the tables of a module; none if it has no table of this kind.
    ///
    /// # Safety
    ///
    /// The dynamic section of a loaded module is at the address.
    unsafe fn read(dynamic: usize, bias: usize) -> Option<Table> {
        let mut table = Table { bias, names: 0, symbols: 0, hash: 0 };
        for at in (dynamic..).step_by(16) {
            // SAFETY: by the contract: pairs of a tag and a value, up to the tag 0.
            let (tag, value): (u64, usize) = unsafe { (read(at), read(at + 8)) };
            // The loader writes addresses into the section, except where it may not write.
            let address = if value < bias { bias + value } else { value };
            match tag {
                0 => break,
                NAMES => table.names = address,
                SYMBOLS => table.symbols = address,
                GNU_HASH => table.hash = address,
                _ => {}
            }
        }
        (table.names != 0 && table.symbols != 0 && table.hash != 0).then_some(table)
    }

    /// Returns the address of a name that the module defines.
    ///
    /// # Safety
    ///
    /// The module is loaded.
    unsafe fn find(&self, name: &CStr) -> Option<usize> {
        let hash =
            name.to_bytes().iter().fold(5381_u32, |h, byte| h.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: by the contract; the layout is that of the section `.gnu.hash`: four numbers, a filter, buckets,
        // chains.
        unsafe {
            let [n_buckets, first, n_filter, shift]: [u32; 4] = read(self.hash);
            if n_buckets == 0 || n_filter == 0 {
                return None;
            }
            let filter: u64 = read(self.hash + 16 + 8 * (hash / 64 % n_filter) as usize);
            if filter >> (hash % 64) & filter >> (hash.wrapping_shr(shift) % 64) & 1 == 0 {
                return None;
            }
            let buckets = self.hash + 16 + 8 * n_filter as usize;
            let chains = buckets + 4 * n_buckets as usize;
            let mut number: u32 = read(buckets + 4 * (hash % n_buckets) as usize);
            while number >= first {
                let of_number: u32 = read(chains + 4 * (number - first) as usize);
                if of_number | 1 == hash | 1
                    && let Some(address) = self.defined(number, name)
                {
                    return Some(address);
                }
                if of_number & 1 == 1 {
                    break;
                }
                number += 1;
            }
        }
        None
    }

    /// Returns the address of a symbol, if it is this name and defined here.
    ///
    /// # Safety
    ///
    /// The module is loaded and has a symbol of this number.
    unsafe fn defined(&self, number: u32, name: &CStr) -> Option<usize> {
        let symbol = self.symbols + SYMBOL_BYTES * number as usize;
        // SAFETY: by the contract; names end in a zero.
        unsafe {
            let (at, kind, section): (u32, u8, u16) = (read(symbol), read(symbol + 4), read(symbol + 6));
            let is_here = section != 0 && section < FIRST_SPECIAL && PLAIN_TYPES.contains(&(kind & 15));
            let is_it =
                is_here && CStr::from_ptr(ptr::with_exposed_provenance(self.names + at as usize)) == name;
            is_it.then(|| self.bias + read::<usize>(symbol + 8))
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_addresses_that_dlsym_returns_and_its_error_stays() {
        let names = [c"pthread_create", c"environ", c"getpid", c"memreel_is_not_there", c"strtol"];
        // SAFETY: names are looked up; nothing is called.
        let of_dlsym = names.map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
        // SAFETY: the text is not used.
        unsafe { libc::dlerror() };
        let found = exported(names).unwrap();
        assert_eq!(found.map(|address| address.unwrap_or(ptr::null_mut())), of_dlsym);
        assert!(found[3].is_none() && found[0].is_some());
        // SAFETY: as above.
        assert!(unsafe { libc::dlerror() }.is_null(), "no text is left for the program");
    }
}
