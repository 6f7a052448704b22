//! Numbers the code objects that were seen, which are found without a lock, and keeps their copies.
//!
//! A code object is identified by its address and its fingerprint, because addresses are reused. Equal code objects,
//! such as those of a text that is run in a loop, share one number.

use std::{
    fmt, ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
};

use rustc_hash::FxHashMap;

use super::{
    code::{copied, fingerprint},
    layout::Layout,
};
use crate::stack::SourceCode;

/// The most code objects that are kept: PyTorch and its libraries have about 50,000. A copy takes 300 bytes on average.
const MAX_CODES: usize = if cfg!(test) { 5 } else { 1 << 18 };

/// The number of code objects beyond [`MAX_CODES`].
pub(super) const TOO_MANY: u32 = 0;

/// The number of bits for a number in a slot; the rest is the fingerprint's.
const NUMBER_BITS: u32 = 24;

const FIRST_SLOTS: usize = 1 << 10;

/// The code objects of an interpreter.
pub(super) struct Codes {
    /// Owned by `store`, which replaces it by a larger one and keeps the old one.
    index: AtomicPtr<Index>,
    /// No other lock is taken under this one.
    store: Arc<Mutex<Store>>,
}

#[derive(Default)]
struct Store {
    /// By number, counted from 1.
    codes: Vec<Arc<SourceCode>>,
    numbers: FxHashMap<Arc<SourceCode>, u32>,
    /// How many slots of the last index are in use.
    n_slots: usize,
    /// The last is current; readers may still use the others. Boxed, because readers hold their addresses.
    #[expect(clippy::vec_box, reason = "readers hold their addresses")]
    indexes: Vec<Box<Index>>,
}

/// A hash table of the addresses of code objects.
struct Index(Box<[Slot]>);

#[derive(Default)]
struct Slot {
    /// 0 if the slot is free; written after the value, and never changed.
    address: AtomicUsize,
    /// The fingerprint's high bits, and the number.
    value: AtomicU64,
}

impl Index {
    fn new(n_slots: usize) -> Index {
        Index((0..n_slots).map(|_| Slot::default()).collect())
    }

    /// Returns the slot of an address, or the free one where it would be.
    #[inline(always)]
    fn slot(&self, address: usize) -> &Slot {
        let mask = self.0.len() - 1;
        let mut at = ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        loop {
            let slot = &self.0[at & mask];
            let found = slot.address.load(Ordering::Acquire);
            // At least half of the slots are free.
            if found == address || found == 0 {
                return slot;
            }
            at += 1;
        }
    }

    /// Sets the value of an address; only under the lock, hence relaxed loads.
    fn set(&self, address: usize, value: u64) -> bool {
        let slot = self.slot(address);
        let is_new = slot.address.load(Ordering::Relaxed) == 0;
        slot.value.store(value, Ordering::Release);
        slot.address.store(address, Ordering::Release);
        is_new
    }
}

impl Codes {
    pub(super) fn new() -> Codes {
        let index = Box::new(Index::new(FIRST_SLOTS));
        let in_force = ptr::from_ref(&*index).cast_mut();
        let store = Arc::new(Mutex::new(Store { indexes: vec![index], ..Store::default() }));
        crate::process::fork::register(crate::process::fork::Level::Modules, &store);
        Codes { index: AtomicPtr::new(in_force), store }
    }

    /// Returns the number of a code object, copying it if it is new.
    ///
    /// # Safety
    ///
    /// A code object of this layout is at the address, and is kept alive by this thread's frames.
    #[inline(always)]
    pub(super) unsafe fn number(&self, layout: &Layout, code: usize) -> u32 {
        // SAFETY: by the contract.
        let print = unsafe { fingerprint(layout, code) } & (u64::MAX << NUMBER_BITS);
        // SAFETY: `store` owns the index and drops none before itself.
        let index = unsafe { &*self.index.load(Ordering::Acquire) };
        let slot = index.slot(code);
        let value = slot.value.load(Ordering::Acquire);
        // A free slot has no address; its value may be that of an object which is being added. Relaxed: the address of a slot is
        // written once. So the value that was read before it belongs to it. It may also be 0, and no fingerprint is 0.
        if slot.address.load(Ordering::Relaxed) == code && value & (u64::MAX << NUMBER_BITS) == print {
            return (value & ((1 << NUMBER_BITS) - 1)) as u32;
        }
        // SAFETY: by the contract.
        unsafe { self.learn(layout, code, print) }
    }

    /// # Safety
    ///
    /// As for [`Codes::number`].
    #[cold]
    #[inline(never)]
    unsafe fn learn(&self, layout: &Layout, code: usize, print: u64) -> u32 {
        // SAFETY: by the contract.
        let copy = unsafe { copied(layout, code) };
        let mut store = self.store();
        let number = store.number(copy);
        store.add(code, print | u64::from(number));
        let in_force =
            store.indexes.last().map_or(ptr::null_mut(), |index| ptr::from_ref(&**index).cast_mut());
        self.index.store(in_force, Ordering::Release);
        number
    }

    /// Returns the copy of a code object.
    pub(super) fn get(&self, number: u32) -> Option<Arc<SourceCode>> {
        let index = (number as usize).checked_sub(1)?;
        self.store().codes.get(index).cloned()
    }

    /// Returns how many distinct code objects are kept.
    pub(super) fn n(&self) -> usize {
        self.store().codes.len()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn number(&mut self, code: SourceCode) -> u32 {
        if let Some(number) = self.numbers.get(&code) {
            return *number;
        }
        if self.codes.len() >= MAX_CODES {
            return TOO_MANY;
        }
        let code = Arc::new(code);
        self.codes.push(code.clone());
        let number = self.codes.len() as u32;
        self.numbers.insert(code, number);
        number
    }

    fn add(&mut self, address: usize, value: u64) {
        let Some(index) = self.indexes.last() else { return };
        if 2 * self.n_slots >= index.0.len() {
            let larger = Index::new(4 * index.0.len());
            // Relaxed: under the lock.
            for slot in &index.0 {
                let address = slot.address.load(Ordering::Relaxed);
                if address != 0 {
                    larger.set(address, slot.value.load(Ordering::Relaxed));
                }
            }
            self.indexes.push(Box::new(larger));
        }
        if let Some(index) = self.indexes.last() {
            self.n_slots += usize::from(index.set(address, value));
        }
    }
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codes").field("n", &self.n()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A code object of 3.12, with its texts and its table in memory.
    struct Made {
        code: Vec<u64>,
        _texts: [Vec<u64>; 2],
        table: Vec<u64>,
    }

    fn text(text: &str) -> Vec<u64> {
        let mut words = vec![0, 0, text.len() as u64, 0, 1 | 1 << 2 | 1 << 5 | 1 << 6];
        let bytes: Vec<u8> = text.bytes().chain([0; 8]).collect();
        words.extend(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
        words
    }

    impl Made {
        fn new(name: &str, first_line: u32) -> Made {
            let texts = [text(name), text("a.py")];
            let table = vec![0, 0, 16, 0, 1, 2, 0];
            let mut code = vec![0_u64; 30];
            code[8] = u64::from(first_line) << 32;
            code[14] = texts[1].as_ptr().expose_provenance() as u64;
            (code[15], code[16]) = (texts[0].as_ptr().expose_provenance() as u64, texts[0].as_ptr() as u64);
            code[17] = table.as_ptr().expose_provenance() as u64;
            Made { code, _texts: texts, table }
        }

        fn number(&self, codes: &Codes) -> u32 {
            let layout = Layout::of_version(12).unwrap();
            // SAFETY: as made above.
            unsafe { codes.number(&layout, self.code.as_ptr().expose_provenance()) }
        }
    }

    #[test]
    fn a_code_object_keeps_its_number_and_equal_ones_share_it() {
        let codes = Codes::new();
        let (a, b, equal) = (Made::new("f", 3), Made::new("g", 3), Made::new("f", 3));
        let numbers = [&a, &b, &a, &equal].map(|made| made.number(&codes));
        assert_eq!(numbers, [1, 2, 1, 1]);
        let copy = codes.get(2).unwrap();
        assert_eq!(
            (&*copy.name, &*copy.filename, copy.first_line, copy.line_table.len()),
            ("g", "a.py", 3, 16)
        );
        assert_eq!((codes.get(0), codes.get(3), codes.n()), (None, None, 2));
    }

    #[test]
    fn another_object_at_the_same_address_is_noticed() {
        let codes = Codes::new();
        let mut made = Made::new("f", 3);
        assert_eq!(made.number(&codes), 1);
        made.code[8] = 4 << 32;
        assert_eq!(made.number(&codes), 2, "another first line");
        for (byte, number) in (0..16).zip([3, 4, 5, TOO_MANY].into_iter().chain([TOO_MANY; 12])) {
            made.table[4 + byte / 8] ^= 1 << (8 * (byte % 8));
            assert_eq!(made.number(&codes), number, "byte {byte} of the table at the same place");
        }
        (4..6).for_each(|word| made.table[word] ^= 0x0101_0101_0101_0101);
        assert_eq!(made.number(&codes), 2, "as it was");
    }

    #[test]
    fn a_version_tells_equal_addresses_apart() {
        let codes = Codes::new();
        let mut made = Made::new("f", 3);
        made.code[11] = 1 << 32;
        assert_eq!(made.number(&codes), 1);
        made.table[5] ^= 1;
        assert_eq!(made.number(&codes), 1, "with a version, the table is not looked at");
        made.code[11] = 2 << 32;
        assert_eq!(made.number(&codes), 2);
    }

    #[test]
    fn each_byte_of_a_short_table_counts() {
        let layout = Layout::of_version(11).unwrap();
        for n in 0..=32_usize {
            let mut table = [0_u64; 13];
            table[2] = n as u64;
            let mut code = [0_u64; 30];
            let mut prints = Vec::new();
            // The byte after the last is not the table's.
            for byte in 0..=n {
                table[4 + byte / 8] ^= 0x55 << (8 * (byte % 8));
                code[17] = table.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: as made above.
                prints.push(unsafe { fingerprint(&layout, code.as_ptr().expose_provenance()) });
                table[4 + byte / 8] ^= 0x55 << (8 * (byte % 8));
            }
            prints.sort_unstable();
            prints.dedup();
            assert_eq!(prints.len(), n + 1, "{n} bytes");
        }
    }

    #[test]
    fn a_full_table_says_so_and_knows_what_it_knew() {
        let codes = Codes::new();
        let all: Vec<Made> = (0..9).map(|line| Made::new("f", line)).collect();
        let numbers: Vec<u32> = all.iter().map(|made| made.number(&codes)).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, TOO_MANY, TOO_MANY, TOO_MANY, TOO_MANY]);
        assert_eq!(all[1].number(&codes), 2);
    }

    #[test]
    fn threads_agree_and_the_index_grows() {
        let codes = Codes::new();
        let names = ["a", "b", "c", "d", "e"];
        let all: Vec<Made> = (0..3000).map(|i| Made::new(names[i % 5], 1)).collect();
        let numbers: Vec<Vec<u32>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| all.iter().map(|made| made.number(&codes)).collect()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for of_thread in &numbers {
            assert_eq!(of_thread, &numbers[0]);
        }
        for (made, number) in all.iter().zip(&numbers[0]) {
            assert_eq!(made.number(&codes), *number);
            assert_ne!(*number, TOO_MANY);
        }
        assert!(codes.store().indexes.len() > 1);
    }
}
