//! Random call chains, on which every method must see what `backtrace::trace` sees.
//!
//! Over 400 lines would be a second file; below, the chains stand before the
//! tests. What they are made of is what unwinders stumble over: recursion,
//! closures, inlined frames, callbacks through libc and through libraries that
//! come and go, threads, frames of a size that is only known at run time, and
//! frames in which `rbp` points at something that looks like a frame.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(miri)))]

use std::{
    arch::global_asm,
    ffi::{CString, c_int, c_void},
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    ptr,
    sync::LazyLock,
    thread,
};

use super::{
    StackInterner, capture,
    capture::{Captured, MAX_DEPTH, capture_by},
    interner::DEFAULT_LIMIT,
    method::StackMethod,
    unwind,
};

const OWN: [StackMethod; 3] = [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules];

// Each calls `call(data)` and returns. Their frames: of a size given at run
// time; without a frame pointer but with `rbp` pointing at two words that look
// like a frame; aligned as compilers do it for vectors, with a rule that no
// 29 bits can hold.
global_asm!(
    ".globl memreel_chain_sized",
    ".hidden memreel_chain_sized",
    ".type memreel_chain_sized, @function",
    "memreel_chain_sized:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, rdx",
    "and rsp, -16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_sized, . - memreel_chain_sized",
    ".globl memreel_chain_tempting",
    ".hidden memreel_chain_tempting",
    ".type memreel_chain_tempting, @function",
    "memreel_chain_tempting:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "sub rsp, 48",
    ".cfi_def_cfa_offset 64",
    "mov rax, [rsp + 56]",
    "mov [rsp + 24], rax",
    "lea rax, [rsp + 48]",
    "mov [rsp + 16], rax",
    "lea rbp, [rsp + 16]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 48",
    ".cfi_def_cfa_offset 16",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    ".cfi_restore rbp",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_tempting, . - memreel_chain_tempting",
    ".globl memreel_chain_aligned",
    ".hidden memreel_chain_aligned",
    ".type memreel_chain_aligned, @function",
    "memreel_chain_aligned:",
    ".cfi_startproc",
    "lea r10, [rsp + 8]",
    ".cfi_def_cfa r10, 0",
    "and rsp, -64",
    "push qword ptr [r10 - 8]",
    "push rbp",
    "mov rbp, rsp",
    ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00",
    "push r10",
    ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06",
    "sub rsp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 8",
    "pop r10",
    ".cfi_def_cfa r10, 0",
    "pop rbp",
    ".cfi_same_value rbp",
    "lea rsp, [r10 - 8]",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_aligned, . - memreel_chain_aligned",
    // The call is the last instruction: the return address is in the next
    // function, which has another frame. What is called takes this frame away
    // as well and returns to its caller.
    ".globl memreel_chain_last",
    ".hidden memreel_chain_last",
    ".type memreel_chain_last, @function",
    "memreel_chain_last:",
    ".cfi_startproc",
    "sub rsp, 24",
    ".cfi_def_cfa_offset 32",
    "call memreel_chain_twice",
    ".cfi_endproc",
    ".size memreel_chain_last, . - memreel_chain_last",
    ".globl memreel_chain_twice",
    ".hidden memreel_chain_twice",
    ".type memreel_chain_twice, @function",
    "memreel_chain_twice:",
    ".cfi_startproc",
    ".cfi_def_cfa_offset 4096",
    "nop",
    ".cfi_def_cfa_offset 8",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 40",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_twice, . - memreel_chain_twice",
);

type Call = unsafe extern "C-unwind" fn(*mut c_void);

unsafe extern "C-unwind" {
    fn memreel_chain_sized(call: Call, data: *mut c_void, n_bytes: usize);
    fn memreel_chain_tempting(call: Call, data: *mut c_void);
    fn memreel_chain_aligned(call: Call, data: *mut c_void);
    fn memreel_chain_last(call: Call, data: *mut c_void);
    fn _Unwind_FindEnclosingFunction(address: *const c_void) -> *const c_void;
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A chain on its way down.
struct Chain<'a> {
    random: Random,
    n_left: u32,
    bounces: &'a [Bounce],
    n_compared: usize,
    n_cut: usize,
    n_unfit: usize,
    n_threads: usize,
    /// Whether some frame has a rule that only the system's unwinder follows.
    has_unfit: bool,
}

impl<'a> Chain<'a> {
    fn new(seed: u64, n_left: u32, bounces: &'a [Bounce]) -> Chain<'a> {
        let random = Random(seed);
        Chain { random, n_left, bounces, n_compared: 0, n_cut: 0, n_unfit: 0, n_threads: 0, has_unfit: false }
    }
}

/// A function of a loaded library that calls back.
type Bounce = unsafe extern "C-unwind" fn(Call, *mut c_void);

/// One link: sometimes compares, then goes on in one of many ways.
#[inline(never)]
fn go_on(chain: &mut Chain<'_>) -> u64 {
    if chain.n_left == 0 || chain.random.below(6) == 0 {
        compare(chain);
    }
    if chain.n_left == 0 {
        return 1;
    }
    chain.n_left -= 1;
    let data = ptr::from_mut(chain).cast::<c_void>();
    match chain.random.below(if chain.n_threads == 0 { 121 } else { 120 }) / 10 {
        0 => go_on(chain).wrapping_mul(black_box(3)),
        1 => by_closure(chain, &mut |chain| black_box(go_on(chain)) + 1),
        2 => inlined_outer(chain) + 2,
        // SAFETY: here and below, each calls back with the data it is given,
        // before it returns, and the chain is not used here meanwhile.
        3 => after(|| unsafe { by_qsort(data) }),
        // SAFETY: as above.
        4 => after(|| unsafe { by_bsearch(data) }),
        5 => {
            let n_bytes = 8 * chain.random.below(300) as usize;
            // SAFETY: as above.
            after(|| unsafe { memreel_chain_sized(link, data, n_bytes) })
        }
        // SAFETY: as above.
        6 => after(|| unsafe { memreel_chain_tempting(link, data) }),
        7 if chain.random.below(8) == 0 => {
            chain.has_unfit = true;
            // SAFETY: as above.
            after(|| unsafe { memreel_chain_aligned(link, data) })
        }
        8 | 9 if !chain.bounces.is_empty() => {
            let bounce = chain.bounces[chain.random.below(chain.bounces.len() as u64) as usize];
            // SAFETY: as above.
            after(|| unsafe { bounce(link, data) })
        }
        10 => large_frame(chain) + 4,
        // SAFETY: as above.
        11 => after(|| unsafe { memreel_chain_last(link, data) }),
        12 => on_a_thread(chain),
        _ => go_on(chain).wrapping_add(black_box(7)),
    }
}

unsafe extern "C-unwind" fn link(data: *mut c_void) {
    // SAFETY: `go_on` made this of a chain that it does not use meanwhile.
    black_box(go_on(unsafe { &mut *data.cast() }));
}

/// Keeps what is called from being a tail call.
#[inline(always)]
fn after(call: impl FnOnce()) -> u64 {
    call();
    black_box(5)
}

#[inline(never)]
fn by_closure(chain: &mut Chain<'_>, next: &mut dyn FnMut(&mut Chain<'_>) -> u64) -> u64 {
    black_box(next)(chain) ^ 1
}

#[inline(always)]
fn inlined_outer(chain: &mut Chain<'_>) -> u64 {
    let own = black_box(chain.n_left);
    inlined_inner(chain) + u64::from(own)
}

#[inline(always)]
fn inlined_inner(chain: &mut Chain<'_>) -> u64 {
    black_box(go_on(chain)) ^ black_box(9)
}

#[inline(never)]
fn large_frame(chain: &mut Chain<'_>) -> u64 {
    let own = black_box([chain.random.next(); 700]);
    go_on(chain) ^ own[chain.random.below(700) as usize]
}

#[inline(never)]
fn on_a_thread(chain: &mut Chain<'_>) -> u64 {
    chain.n_threads += 1;
    thread::scope(|scope| scope.spawn(|| go_on(chain)).join().unwrap())
}

/// What qsort and bsearch compare: both point at the chain.
unsafe extern "C" fn compare_links(a: *const c_void, _: *const c_void) -> c_int {
    // SAFETY: `by_qsort` and `by_bsearch` make arrays of such pointers.
    let data = unsafe { *a.cast::<*mut c_void>() };
    // SAFETY: as in `link`.
    unsafe { link(data) };
    0
}

/// # Safety
///
/// `data` is a chain that is not used meanwhile.
#[inline(never)]
unsafe fn by_qsort(data: *mut c_void) {
    let mut links = [data; 2];
    // SAFETY: two elements of a pointer's size.
    unsafe { libc::qsort(links.as_mut_ptr().cast(), 2, size_of::<*mut c_void>(), Some(compare_links)) }
}

/// # Safety
///
/// As [`by_qsort`].
#[inline(never)]
unsafe fn by_bsearch(data: *mut c_void) {
    let links = [data];
    let key = links.as_ptr().cast();
    // SAFETY: one element of a pointer's size, which is the key as well.
    black_box(unsafe { libc::bsearch(key, key, 1, size_of::<*mut c_void>(), Some(compare_links)) });
}

/// Where the stacks are numbered: a walk by the rules of a library that is gone
/// looks like a stack that was never met, and that is when it is found out.
static TABLE: LazyLock<StackInterner> = LazyLock::new(|| StackInterner::new(DEFAULT_LIMIT));

/// The frames outside of this one, by each method and by `backtrace::trace`.
#[inline(never)]
fn compare(chain: &mut Chain<'_>) {
    let mut traced = Vec::with_capacity(256);
    backtrace::trace(|frame| {
        traced.push(frame.ip().addr());
        true
    });
    traced.retain(|address| *address != 0);
    let own = compare as fn(&mut Chain<'_>) as usize;
    let expected = outside(&traced, own);
    // In one order and in the other, so that each follows each.
    let turn = chain.random.below(3) as usize;
    for i in 0..OWN.len() {
        let method = OWN[(i + turn) % OWN.len()];
        // Not by `super::capture`, which would hide a walk that fails behind the system's.
        let Some(stack) = unwind::capture(&TABLE, method) else {
            assert!(chain.has_unfit, "{method:?} gave up");
            chain.n_unfit += 1;
            continue;
        };
        let words = TABLE.addresses(stack);
        let seen = outside(&words, own);
        let is_cut = words.len() == MAX_DEPTH;
        let expected = if is_cut { &expected[..seen.len().min(expected.len())] } else { expected };
        assert_eq!(seen, expected, "{method:?}, {} links left", chain.n_left);
        chain.n_compared += 1;
        chain.n_cut += usize::from(is_cut);
    }
}

/// The addresses after the one in a function.
fn outside(addresses: &[usize], own: usize) -> &[usize] {
    let is_own = |address: &usize| {
        // SAFETY: any address may be asked for.
        unsafe { _Unwind_FindEnclosingFunction(ptr::without_provenance(address - 1)) }.addr() == own
    };
    let at = addresses.iter().position(is_own).unwrap_or_else(|| panic!("{own:x} is not in {addresses:x?}"));
    &addresses[at + 1..]
}

/// Runs chains; returns how many comparisons there were, how many of them of
/// stacks that were cut, and how many walks gave up where they may.
fn run(n_chains: usize, seed: u64, bounces: &[Bounce]) -> [usize; 3] {
    let mut random = Random(seed);
    let mut counts = [0; 3];
    for _ in 0..n_chains {
        let most = if random.below(16) == 0 { 150 } else { 30 };
        let n_left = random.below(most) as u32;
        let mut chain = Chain::new(random.next(), n_left, bounces);
        black_box(go_on(&mut chain));
        let of_chain = [chain.n_compared, chain.n_cut, chain.n_unfit];
        counts.iter_mut().zip(of_chain).for_each(|(count, n)| *count += n);
    }
    counts
}

/// A library that the test builds and loads.
struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Library {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a library of ours without constructors.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "dlopen {path:?}");
        Library(library)
    }

    fn bounce(&self) -> Bounce {
        // SAFETY: the library is loaded, and these are the types of its functions.
        unsafe {
            let address_of = libc::dlsym(self.0, c"address_of_bounce".as_ptr());
            assert!(!address_of.is_null());
            let address_of = std::mem::transmute::<*mut c_void, extern "C" fn() -> usize>(address_of);
            std::mem::transmute::<usize, Bounce>(address_of())
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once, and none of its functions is running.
        unsafe { libc::dlclose(self.0) };
    }
}

/// A library whose `bounce` calls back from a frame of `n_bytes`, after it has
/// put the first word of `data` at `lure_at` in that frame.
///
/// In assembly and not in Rust, so that two libraries with other frames have
/// all their code at the same places.
fn build(folder: &Path, name: &str, n_bytes: usize, lure_at: usize) -> PathBuf {
    let source = folder.join(format!("{name}.rs"));
    let text = format!(
        r#"#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}
unsafe extern "C" {{ fn bounce(); }}
#[unsafe(no_mangle)]
pub extern "C" fn address_of_bounce() -> usize {{ bounce as unsafe extern "C" fn() as usize }}
core::arch::global_asm!(".globl bounce", ".hidden bounce", ".type bounce, @function", "bounce:", ".cfi_startproc",
  "sub rsp, {n_bytes}", ".cfi_def_cfa_offset {}", "mov rax, [rsi]", "mov [rsp + {lure_at}], rax",
  "mov rax, rdi", "mov rdi, rsi", "call rax", "add rsp, {n_bytes}", ".cfi_def_cfa_offset 8", "ret", ".cfi_endproc", ".size bounce, . - bounce");
"#,
        n_bytes + 8
    );
    fs::write(&source, text).unwrap();
    let library = folder.join(format!("lib{name}.so"));
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-Clink-arg=-nostartfiles"]);
    let built = rustc.arg(&source).arg("-o").arg(&library).output().expect("rustc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

#[test]
fn all_methods_see_what_backtrace_sees() {
    const N_THREADS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let libraries = [24, 4104].map(|n_bytes| build(folder.path(), &format!("frame{n_bytes}"), n_bytes, 8));
    let loaded = libraries.map(|path| Library::open(&path));
    let bounces = loaded.each_ref().map(Library::bounce);
    let counts: Vec<[usize; 3]> = thread::scope(|scope| {
        let run = |i| scope.spawn(move || run(10_000 / N_THREADS, 0x6d65_6d72 + i as u64, &bounces));
        let threads: Vec<_> = (0..N_THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let [n_compared, n_cut, n_unfit] = [0, 1, 2].map(|i| counts.iter().map(|count| count[i]).sum::<usize>());
    assert!(n_compared > 50_000 && n_cut > 100 && n_unfit > 100, "{counts:?}");
    println!("10,000 chains, {n_compared} stacks compared, {n_cut} of them cut; {n_unfit} walks gave up");
}

/// A library is unloaded, and another with larger frames takes its addresses.
#[test]
fn a_librarys_rules_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [24, 56].map(|n_bytes| build(folder.path(), &format!("reload{n_bytes}"), n_bytes, 8));
    let mut places = Vec::new();
    for i in 0..20 {
        let library = Library::open(&paths[i % 2]);
        let bounce = library.bounce();
        places.push(bounce as usize);
        assert!(run(5, i as u64, &[bounce])[0] >= 15);
    }
    places.sort_unstable();
    places.dedup();
    println!("20 loads of two libraries in {} places", places.len());
}

/// A library takes another's place whose rules lead to a return address that
/// is none, from where the way outward is right again: nothing but the stack,
/// which was never met before, gives it away.
#[test]
fn a_stale_rule_that_comes_out_right_is_found_by_the_new_stack() {
    #[repr(C)]
    struct Lure<'a> {
        word: usize,
        bounce: Bounce,
        table: &'a StackInterner,
        compared: Option<[Vec<usize>; 2]>,
    }
    unsafe extern "C-unwind" fn through(data: *mut c_void) {
        // SAFETY: made below.
        let bounce = unsafe { (*data.cast::<Lure<'_>>()).bounce };
        // SAFETY: `leaf` takes the same data.
        after(|| unsafe { bounce(leaf, data) });
    }
    #[inline(never)]
    unsafe extern "C-unwind" fn leaf(data: *mut c_void) {
        // SAFETY: made below.
        let lure = unsafe { &mut *data.cast::<Lure<'_>>() };
        let mut traced = Vec::with_capacity(256);
        backtrace::trace(|frame| {
            traced.extend(Some(frame.ip().addr()).filter(|address| *address != 0));
            true
        });
        let seen = lure.table.addresses(capture(lure.table));
        let own = leaf as Call as usize;
        lure.compared = Some([outside(&seen, own).to_vec(), outside(&traced, own).to_vec()]);
    }
    let folder = tempfile::tempdir().unwrap();
    // The lure of the second lies where the first has its return address.
    let paths = [(24, 16), (56, 24)]
        .map(|(n_bytes, lure_at)| build(folder.path(), &format!("lure{n_bytes}"), n_bytes, lure_at));
    let table = StackInterner::new(1000);
    // Behind an instruction in the middle of a function that counts from `rbp`.
    let word = memreel_chain_sized as unsafe extern "C-unwind" fn(Call, *mut c_void, usize) as usize + 7;
    let mut places = Vec::new();
    for i in 0..20 {
        let library = Library::open(&paths[i % 2]);
        let mut lure = Lure { word, bounce: library.bounce(), table: &table, compared: None };
        places.push(lure.bounce as usize);
        // SAFETY: `through` takes this data, which is not used meanwhile.
        unsafe { memreel_chain_sized(through, ptr::from_mut(&mut lure).cast(), 64) };
        let [seen, traced] = lure.compared.unwrap();
        assert_eq!(seen, traced, "load {i}");
    }
    assert!(places.windows(2).any(|pair| pair[0] == pair[1]), "no library took another's place");
}

/// The return addresses of the last capture are all where they were, but some
/// of them are leftovers: a caller's frame has grown over them.
#[test]
fn leftovers_of_older_stacks_are_not_joined() {
    struct Leaf<'a> {
        outer: usize,
        by: Call,
        inner: usize,
        chain: &'a mut Chain<'a>,
    }
    unsafe extern "C-unwind" fn outer(data: *mut c_void) {
        // SAFETY: made below.
        let (n_bytes, inner) = unsafe { ((*data.cast::<Leaf<'_>>()).outer, (*data.cast::<Leaf<'_>>()).by) };
        // SAFETY: `inner` takes the same data.
        unsafe { memreel_chain_sized(inner, data, n_bytes) };
        black_box(());
    }
    unsafe extern "C-unwind" fn leaf(data: *mut c_void) {
        // SAFETY: made below.
        let leaf = unsafe { &mut *data.cast::<Leaf<'_>>() };
        compare(leaf.chain);
        black_box(leaf.inner);
    }
    // Two, in turn: joined to leftovers, the walk would see the one of the last round.
    unsafe extern "C-unwind" fn inner<const N: u64>(data: *mut c_void) {
        // SAFETY: made below.
        let n_bytes = unsafe { (*data.cast::<Leaf<'_>>()).inner };
        // SAFETY: `leaf` takes the same data.
        unsafe { memreel_chain_sized(leaf, data, n_bytes) };
        black_box(N);
    }
    // Far enough apart for a frame not to lie over its old place.
    let mut random = Random(3);
    for seed in 0..400 {
        let n_bytes = 256 * random.below(9) as usize;
        let mut chain = Chain::new(seed, 0, &[]);
        let by: Call = if seed % 2 == 0 { inner::<1> } else { inner::<2> };
        let mut data = Leaf { outer: n_bytes, by, inner: 2048 - n_bytes, chain: &mut chain };
        // Room for what is called between two rounds, so that it does not wipe the leftovers away.
        // SAFETY: `outer` takes this data, which is not used meanwhile.
        unsafe { memreel_chain_sized(outer, ptr::from_mut(&mut data).cast(), 4096) };
    }
}

/// In a signal's handler the walk sees the handler, and ends below it.
#[test]
fn a_signal_ends_the_stack() {
    static mut CAPTURED: [Option<(Captured, Vec<usize>)>; 3] = [const { None }; 3];
    #[inline(never)]
    extern "C" fn handler(_: c_int) {
        for (i, method) in OWN.into_iter().enumerate() {
            let mut traced = Vec::new();
            backtrace::trace(|frame| {
                traced.push(frame.ip().addr());
                true
            });
            // SAFETY: one thread raises the signal, in this one test.
            unsafe { CAPTURED[i] = Some((capture_by(method), traced)) };
        }
    }
    // SAFETY: the handler runs where `raise` is called, and nowhere in the middle of anything.
    unsafe {
        libc::signal(libc::SIGUSR2, handler as extern "C" fn(c_int) as libc::sighandler_t);
        libc::raise(libc::SIGUSR2);
        libc::signal(libc::SIGUSR2, libc::SIG_DFL);
    }
    // SAFETY: the handler has returned.
    for captured in unsafe { (&raw const CAPTURED).read() } {
        let (captured, traced) = captured.unwrap();
        let seen = captured.addresses();
        let end =
            traced.iter().position(|address| *address == seen[seen.len() - 1]).expect("a traced address");
        assert!(end < traced.len() - 3, "the walk went on beyond the signal");
        assert!(seen.len() >= 3 && seen.len() <= end + 1);
    }
}

#[test]
fn a_table_never_gives_another_tables_number() {
    let (first, second) = (StackInterner::new(100), StackInterner::new(100));
    second.intern(&[1]);
    let mut stacks = Vec::new();
    // A bound that the compiler does not know, or the loop would become six calls.
    for i in 0..black_box(6) {
        stacks.push(capture([&first, &second][i % 2]));
    }
    assert!((2..6).all(|i| stacks[i] == stacks[i - 2]), "{stacks:?}");
    assert_ne!(stacks[0], stacks[1]);
    assert_eq!(first.addresses(stacks[0]), second.addresses(stacks[1]));
}

/// Captures go on while a thread's own storage is being destroyed.
#[test]
fn a_thread_may_capture_to_its_end() {
    use std::sync::mpsc;
    struct AtEnd(mpsc::Sender<usize>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let captured = capture_by(StackMethod::Reuse);
            let _ = self.0.send(captured.addresses().len());
        }
    }
    thread_local! {
        static AT_END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || AT_END.with(|at_end| *at_end.borrow_mut() = Some(AtEnd(sender)))).join().unwrap();
    assert!(receiver.recv().unwrap() > 2);
}
