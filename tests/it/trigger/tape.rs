//! A tape that the environment asks for: what is recorded survives the end of the process.

use memreel::{Action, Recovered, Reel, Snapshot, device::Simulated, recorder::Recording};

use super::program::{Ran, run};

/// The requested sizes in a tape.
fn sizes(ran: &Ran, name: &str) -> Vec<u64> {
    let recovered = Recovered::read(ran.path(name)).unwrap();
    let snapshot: Snapshot = recovered.snapshot();
    let allocs = snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc));
    allocs.map(|entry| entry.size).collect()
}

#[test]
fn a_program_is_recorded_until_it_aborts() {
    let memreel = "all,stacks=none,tape=tapes-{rank}.tape";
    let Some(ran) = run(module_path!(), "a_program_is_recorded_until_it_aborts", memreel, || {
        drop(memreel::alloc(1000).unwrap());
        // The program's own options leave the tape.
        memreel::record_history(&Recording::all().max_entries(500)).unwrap();
        drop(memreel::alloc(2000).unwrap());
        let other = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        drop(other.alloc(3000).unwrap());
        std::process::abort();
    }) else {
        return;
    };
    assert!(!ran.status.success());
    assert_eq!(ran.files(), ["tapes-3-1.tape", "tapes-3.tape"], "{}", ran.printed);
    assert_eq!(sizes(&ran, "tapes-3.tape"), [1000, 2000]);
    assert_eq!(sizes(&ran, "tapes-3-1.tape"), [3000]);
}
