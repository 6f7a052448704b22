//! Cases of the worst program, which does nothing but allocate and free.

use std::hint::black_box;

use memreel::{
    Reel,
    device::Simulated,
    integrate::{StackMethod, set_stack_method, stack_method},
    recorder::{Context, Recording},
};

use crate::{
    chains,
    report::{Reporter, median_ns},
};

const N_PAIRS: u32 = 20_000;

/// Measures pairs. A pair is three events with two stacks, one of the allocation and one of the free.
pub(crate) fn measure(reporter: &Reporter) {
    let reel = Reel::builder().device(Simulated::new(80 << 30)).build().expect("a reel");
    let pair = || drop(black_box(reel.alloc(black_box(4096)).expect("80 GiB is enough")));
    let cases = [
        ("pair_off", Recording::off()),
        ("pair_none", Recording::all().context(Context::None)),
        ("pair_native", Recording::all()),
    ];
    for (case, history) in cases {
        reel.record_history(&history);
        let chain = |end: &mut dyn FnMut()| median_ns(N_PAIRS, |_| _ = black_box(chains::run(0, end)));
        let empty = chain(&mut || ());
        reporter.report(case, "memreel", chain(&mut || pair()) - empty);
    }
    let best = stack_method();
    set_stack_method(StackMethod::Backtrace);
    reel.record_history(&Recording::all());
    reporter.report("pair_native", "memreel with backtrace's walk", median_ns(N_PAIRS / 20, |_| pair()));
    set_stack_method(best);
}
