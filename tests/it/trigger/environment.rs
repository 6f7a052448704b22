//! What the variable `MEMREEL` changes in a program that switches recording itself.

use memreel::{
    Reel,
    device::Simulated,
    recorder::{Context, Enabled, Recording, StackKind},
};

use super::program::run;

fn simulated() -> memreel::Builder {
    Reel::builder().device(Simulated::new(1 << 30))
}

#[test]
fn named_options_win_over_the_programs() {
    let memreel = "all,stacks=none,ring=77,min_size=4KiB,sample=1MB";
    let Some(ran) = run(module_path!(), "named_options_win_over_the_programs", memreel, || {
        let wanted = |history: Recording| {
            history
                .enabled(Enabled::All)
                .stacks(StackKind::None)
                .max_entries(77)
                .min_size(4096)
                .sample_every(1_000_000)
        };
        let program = Recording::state().context(Context::Alloc).max_entries(5);
        let reel = simulated().build().unwrap();
        assert_eq!(reel.recorder().history(), wanted(Recording::all()), "a program that asks for nothing");
        reel.record_history(&program);
        assert_eq!(reel.recorder().history(), wanted(program.clone()));
        reel.record_history(&Recording::off());
        assert_eq!(reel.recorder().history(), Recording::off(), "a program can switch it off");
        assert_eq!(
            simulated().history(program.clone()).build().unwrap().recorder().history(),
            wanted(program)
        );
        memreel::record_history(&Recording::all()).unwrap();
        let of_process = memreel::default_reel().unwrap().recorder().history();
        assert_eq!(of_process, wanted(Recording::all()));
    }) else {
        return;
    };
    assert!(ran.well().files().is_empty());
}

#[test]
fn triggers_alone_leave_recording_to_the_program() {
    let memreel = "dump=exit,file=snap.pickle";
    let Some(ran) = run(module_path!(), "triggers_alone_leave_recording_to_the_program", memreel, || {
        assert_eq!(simulated().build().unwrap().recorder().history(), Recording::off());
        let state = simulated().history(Recording::state()).build().unwrap();
        assert_eq!(state.recorder().history(), Recording::state());
    }) else {
        return;
    };
    assert!(ran.well().files().is_empty(), "both reels had no memory");
}

#[test]
fn off_is_off_whatever_the_program_wants() {
    let Some(ran) = run(module_path!(), "off_is_off_whatever_the_program_wants", "off", || {
        memreel::record_history(&Recording::all()).unwrap();
        drop(memreel::alloc(1000).unwrap());
        let snapshot = memreel::snapshot().unwrap();
        assert!(snapshot.device_traces.iter().all(Vec::is_empty));
    }) else {
        return;
    };
    ran.well();
}

#[test]
fn a_mistake_is_one_line_and_changes_nothing() {
    let memreel = "all,ring=5,dump=oom+exot";
    let Some(ran) = run(module_path!(), "a_mistake_is_one_line_and_changes_nothing", memreel, || {
        for _ in 0..3 {
            let program = Recording::all().max_entries(9);
            assert_eq!(simulated().history(program.clone()).build().unwrap().recorder().history(), program);
        }
        assert_eq!(simulated().build().unwrap().recorder().history(), Recording::off());
        drop(memreel::alloc(1000).unwrap());
    }) else {
        return;
    };
    let ran = ran.well();
    let wanted = "memreel: MEMREEL: unknown trigger \"exot\" at character 20 of \"all,ring=5,dump=oom+exot\"; the \
                  triggers are oom, exit, panic, signal, every:30s, every:10GiB and peak:10GiB; MEMREEL and \
                  MEMREEL_TAPE have no effect";
    assert_eq!((ran.lines(), ran.files()), (vec![wanted], Vec::new()));
}
