//! Finds functions of another allocator that the program calls but that are not recorded, and reports them in one line.

use std::{
    collections::BTreeSet,
    ffi::{CStr, c_void},
    io::Write,
    slice,
};

use super::{
    apart::silently,
    libraries::{self, first_of, library_of},
    next::in_order,
};

/// Allocators, by the prefix of their own functions, and one function that each of them has.
const ALLOCATORS: [(&str, &str, &CStr); 3] =
    [("jemalloc", "je_", c"je_malloc"), ("mimalloc", "mi_", c"mi_malloc"), ("tcmalloc", "tc_", c"tc_malloc")];

/// Parts of the names of functions that return a block.
const ALLOCATES: [&str; 4] = ["alloc", "new", "dup", "realpath"];

/// Prints a line for each allocator of which a currently loaded library calls such a function.
pub(crate) fn report() {
    for (allocator, prefix, first) in ALLOCATORS {
        let first = in_order(first);
        if first.is_null() {
            continue;
        }
        let names = silently(|| called(prefix, library_of(first)));
        if !names.is_empty() {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let line = format!("memreel: blocks of {allocator}'s own functions are not recorded: {names}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

/// Returns which functions of one library the others ask for.
fn called(prefix: &str, of: *mut c_void) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    libraries::each(|library| {
        // SAFETY: the library is loaded while it is looked at.
        if let Some(symbols) = unsafe { Symbols::of(library) } {
            symbols.each(|name| {
                let text = name.to_str().unwrap_or_default();
                if text.starts_with(prefix) && ALLOCATES.iter().any(|part| text.contains(part)) {
                    names.insert(text.to_owned());
                }
            });
        }
        false
    });
    names.retain(|name| std::ffi::CString::new(&**name).is_ok_and(|name| library_of(first_of(&name)) == of));
    names
}

/// The symbols that a library imports, from the loader's tables in memory.
struct Symbols {
    symbols: *const libc::Elf64_Sym,
    texts: *const libc::c_char,
    /// Tables of relocations, and their bytes.
    tables: [(*const libc::Elf64_Rela, usize); 2],
}

/// An entry of a library's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

impl Symbols {
    /// # Safety
    /// The library stays loaded as long as the value is used.
    unsafe fn of(library: &libc::dl_phdr_info) -> Option<Symbols> {
        const PLT_BYTES: i64 = 2;
        const TEXTS: i64 = 5;
        const SYMBOLS: i64 = 6;
        const TABLE: i64 = 7;
        const TABLE_BYTES: i64 = 8;
        const PLT: i64 = 23;
        // SAFETY: the loader's list of the library's parts.
        let parts = unsafe { slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
        let dynamic = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC)?;
        let base = library.dlpi_addr as usize;
        let mut entry = (base + dynamic.p_vaddr as usize) as *const Dynamic;
        let mut values = [0; PLT as usize + 1];
        // SAFETY: the section ends with an entry of tag 0.
        while let Dynamic { tag, value } = unsafe { &*entry }
            && *tag != 0
        {
            if let Some(place) = usize::try_from(*tag).ok().and_then(|tag| values.get_mut(tag)) {
                *place = *value;
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
        let value = |tag: i64| values[tag as usize];
        // The loader has made addresses of these, but not in the library that the kernel maps.
        let at = |tag: i64| if value(tag) < base { 0 } else { value(tag) };
        let tables = [(PLT, PLT_BYTES), (TABLE, TABLE_BYTES)];
        (at(SYMBOLS) != 0 && at(TEXTS) != 0).then(|| Symbols {
            symbols: at(SYMBOLS) as *const _,
            texts: at(TEXTS) as *const _,
            tables: tables
                .map(|(table, bytes)| (at(table) as *const _, if at(table) == 0 { 0 } else { value(bytes) })),
        })
    }

    /// Calls `look` with the name of each symbol that a relocation refers to.
    fn each(&self, mut look: impl FnMut(&CStr)) {
        for (table, n_bytes) in self.tables {
            for n in 0..n_bytes / size_of::<libc::Elf64_Rela>() {
                // SAFETY: within the table.
                let number = unsafe { (*table.add(n)).r_info >> 32 } as usize;
                // SAFETY: the number of a symbol.
                let symbol = unsafe { &*self.symbols.add(number) };
                // The first symbol is none, and what the library has itself it may ask for too.
                if number != 0 && symbol.st_shndx == 0 {
                    // SAFETY: the name of a symbol ends in nul.
                    look(unsafe { CStr::from_ptr(self.texts.add(symbol.st_name as usize)) });
                }
            }
        }
    }
}
