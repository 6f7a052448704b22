//! Compares every capture method with `backtrace::trace`.

use std::{
    env,
    ffi::{c_int, c_void},
    hint::black_box,
    ptr, thread,
};

use super::{
    super::{capture, intern::StackInterner, method::StackMethod},
    bounce::{Bounce, bounce_of, compile},
    chain::{Chain, INTERNER, OWN, after, captured, compare, outside, run},
    frames::{BY_POINTER, Call, memreel_chain_sized},
};
use crate::process::testing::{library::Library, random::Random};

/// Returns the addresses of this thread's stack by one of memreel's own methods.
#[inline(never)]
fn seen_by(method: StackMethod) -> Vec<usize> {
    INTERNER.addresses(captured(method).expect("the walk can capture here"))
}

/// `MEMREEL_CHAINS` sets the number of chains, instead of 10,000.
#[test]
fn all_methods_see_what_backtrace_sees() {
    const N_THREADS: usize = 4;
    let n_chains = env::var("MEMREEL_CHAINS").map_or(10_000, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let libraries = [24, 4104].map(|n_bytes| compile(folder.path(), &format!("frame{n_bytes}"), n_bytes, 8));
    let loaded = libraries.map(|path| Library::open(&path));
    let bounces = loaded.each_ref().map(bounce_of);
    let counts: Vec<[usize; 3]> = thread::scope(|scope| {
        let run = |i| scope.spawn(move || run(n_chains / N_THREADS, 0x6d65_6d72 + i as u64, &bounces));
        let threads: Vec<_> = (0..N_THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let [n_compared, n_cut, n_unfit] = [0, 1, 2].map(|i| counts.iter().map(|count| count[i]).sum::<usize>());
    assert!(n_compared > 5 * n_chains && n_cut > n_chains / 100 && n_unfit > n_chains / 100, "{counts:?}");
    println!("{n_chains} chains, {n_compared} stacks compared, {n_cut} of them cut; {n_unfit} walks gave up");
}

/// A library is unloaded, and another with larger frames takes its addresses.
#[test]
fn a_librarys_rules_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [24, 56].map(|n_bytes| compile(folder.path(), &format!("reload{n_bytes}"), n_bytes, 8));
    let mut places = Vec::new();
    for i in 0..20 {
        let library = Library::open(&paths[i % 2]);
        let bounce = bounce_of(&library);
        places.push(bounce as usize);
        assert!(run(5, i as u64, &[bounce])[0] >= 15);
    }
    places.sort_unstable();
    places.dedup();
    println!("20 loads of two libraries in {} places", places.len());
}

/// A library takes the place of another whose rules lead to a false return address, from where on the walk is right
/// again: only the new stack reveals the mistake.
#[test]
fn a_stale_rule_that_comes_out_right_is_found_by_the_new_stack() {
    #[repr(C)]
    struct Lure<'a> {
        word: usize,
        bounce: Bounce,
        interner: &'a StackInterner,
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
        let seen = lure.interner.addresses(capture(lure.interner));
        let own = leaf as Call as usize;
        lure.compared = Some([outside(&seen, own).to_vec(), outside(&traced, own).to_vec()]);
    }
    let folder = tempfile::tempdir().unwrap();
    // The second library stores the lure where the first has its return address.
    let paths = [(24, 16), (56, 24)]
        .map(|(n_bytes, lure_at)| compile(folder.path(), &format!("lure{n_bytes}"), n_bytes, lure_at));
    let interner = StackInterner::new(1000);
    let word =
        memreel_chain_sized as unsafe extern "C-unwind" fn(Call, *mut c_void, usize) as usize + BY_POINTER;
    let mut places = Vec::new();
    for i in 0..20 {
        let library = Library::open(&paths[i % 2]);
        let mut lure = Lure { word, bounce: bounce_of(&library), interner: &interner, compared: None };
        places.push(lure.bounce as usize);
        // SAFETY: `through` takes this data, which is not used meanwhile.
        unsafe { memreel_chain_sized(through, ptr::from_mut(&mut lure).cast(), 64) };
        let [seen, traced] = lure.compared.unwrap();
        assert_eq!(seen, traced, "load {i}");
    }
    assert!(places.windows(2).any(|pair| pair[0] == pair[1]), "no library took another's place");
}

/// The return addresses of the last capture are all still in place, but some are leftovers: a caller's frame has grown
/// over them.
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
    // Two, in turn: a walk joined to leftovers would see the one of the last round.
    unsafe extern "C-unwind" fn inner<const N: u64>(data: *mut c_void) {
        // SAFETY: made below.
        let n_bytes = unsafe { (*data.cast::<Leaf<'_>>()).inner };
        // SAFETY: `leaf` takes the same data.
        unsafe { memreel_chain_sized(leaf, data, n_bytes) };
        black_box(N);
    }
    // Far enough apart that no frame overlaps its old place.
    let mut random = Random::new(3);
    for seed in 0..400 {
        let n_bytes = 256 * random.below(9) as usize;
        let mut chain = Chain::new(seed, 0, &[]);
        let by: Call = if seed % 2 == 0 { inner::<1> } else { inner::<2> };
        let mut data = Leaf { outer: n_bytes, by, inner: 2048 - n_bytes, chain: &mut chain };
        // Room for the calls between two rounds, so that they do not overwrite the leftovers.
        // SAFETY: `outer` takes this data, which is not used meanwhile.
        unsafe { memreel_chain_sized(outer, ptr::from_mut(&mut data).cast(), 4096) };
    }
}

/// In a signal handler the walk sees the handler, and ends at the interrupted code.
#[test]
fn a_signal_ends_the_stack() {
    static mut CAPTURED: [Option<[Vec<usize>; 2]>; 3] = [const { None }; 3];
    #[inline(never)]
    extern "C" fn handler(_: c_int) {
        for (i, method) in OWN.into_iter().enumerate() {
            let mut traced = Vec::new();
            backtrace::trace(|frame| {
                traced.push(frame.ip().addr());
                true
            });
            // SAFETY: one thread raises the signal, in this one test.
            unsafe { CAPTURED[i] = Some([seen_by(method), traced]) };
        }
    }
    // SAFETY: the handler runs where `raise` is called, and nowhere in the middle of anything.
    unsafe {
        libc::signal(libc::SIGUSR2, handler as extern "C" fn(c_int) as libc::sighandler_t);
        libc::raise(libc::SIGUSR2);
        libc::signal(libc::SIGUSR2, libc::SIG_DFL);
    }
    let own = handler as extern "C" fn(c_int) as usize;
    // SAFETY: the handler has returned.
    for captured in unsafe { (&raw const CAPTURED).read() } {
        // What is called inside the handler depends on what the compiler inlines.
        let [seen, traced] = captured.unwrap().map(|addresses| outside(&addresses, own).to_vec());
        assert!(traced.starts_with(&seen) && !seen.is_empty(), "{seen:x?} {traced:x?}");
        assert!(seen.len() + 3 < traced.len(), "the walk went on beyond the signal");
    }
}

#[test]
fn an_interner_never_returns_the_number_of_another() {
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

/// Captures work while a thread's own storage is being destroyed.
#[test]
fn a_thread_may_capture_to_its_end() {
    use std::sync::mpsc;
    struct AtEnd(mpsc::Sender<usize>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let _ = self.0.send(seen_by(StackMethod::Reuse).len());
        }
    }
    thread_local! {
        static AT_END: std::cell::RefCell<Option<AtEnd>> = const { std::cell::RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || AT_END.with(|at_end| *at_end.borrow_mut() = Some(AtEnd(sender)))).join().unwrap();
    assert!(receiver.recv().unwrap() > 2);
}
