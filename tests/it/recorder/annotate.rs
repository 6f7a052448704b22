//! Names of live blocks: which entry they become, under which options, and what keeps them.
#![forbid(unsafe_code)]

use memreel::{
    Action, Address, Allocation, DeviceId, Reel, Snapshot, StreamId,
    analysis::{By, DeviceHistory, Site},
    device::Simulated,
    pickle,
    recorder::{Context, Recorder, Recording},
    rewrite::{Part, Slim, Window, fix, merge},
    snapshot::{Dialect, SnapshotSource, TraceEntry, collect},
    validate,
};

const MIB: u64 = 1 << 20;
const NAME: &str = "weights of layer 3";

fn reel(history: Recording) -> Reel {
    Reel::builder().device(Simulated::new(80 << 30)).history(history).build().unwrap()
}

#[inline(never)]
fn names_here(block: &Allocation, name: &str) {
    std::hint::black_box(block).annotate(name);
}

fn named(snapshot: &Snapshot) -> Vec<&TraceEntry> {
    let entries = snapshot.device_traces.iter().flatten();
    entries.filter(|entry| entry.action == Some(Action::Annotate)).collect()
}

#[test]
fn a_name_is_an_entry_with_pytorchs_keys() {
    for (dialect, further) in [(Dialect::Torch2_11, ""), (Dialect::Torch2_15, " pool_id")] {
        let reel = Reel::builder().history(Recording::all()).dialect(dialect).build().unwrap();
        let step = reel.scope("step");
        let block = reel.allocator(0).unwrap().alloc(1000, StreamId(0)).unwrap();
        names_here(&block, NAME);
        let other = reel.alloc(1000).unwrap();
        drop((other, step));
        let snapshot = reel.snapshot();
        assert!(validate::validate(&snapshot).is_empty(), "{:?}", validate::validate(&snapshot));
        let [entry] = named(&snapshot)[..] else { panic!("one entry") };
        assert_eq!((entry.address, entry.size, entry.stream), (block.address(), 1000, StreamId(0)));
        assert_eq!(snapshot.user_metadata(entry), NAME);
        let json = serde_json::to_value(&snapshot).unwrap();
        let keys: Vec<&str> =
            json["device_traces"][0][2].as_object().unwrap().keys().map(String::as_str).collect();
        let wanted = format!("action addr size stream time_us compile_context user_metadata{further} frames");
        assert_eq!(keys.join(" "), wanted);
        let frame = snapshot.frames(entry.stack).next().unwrap();
        assert!(frame.name.contains("names_here"), "the stack is that of the naming: {}", frame.name);
        let scopes: Vec<&str> = snapshot.device_traces[0].iter().map(|e| snapshot.user_metadata(e)).collect();
        assert_eq!(scopes, ["step", "step", NAME, "step", "step", "step"], "the scope goes on");
    }
}

#[test]
fn options_decide_whether_a_name_is_recorded() {
    let n_of = |history: Recording, bytes: u64, name: &str| {
        let reel = reel(history);
        let block = reel.alloc(bytes).unwrap();
        names_here(&block, name);
        let snapshot = reel.snapshot();
        (named(&snapshot).len(), named(&snapshot).first().is_some_and(|entry| entry.stack.is_some()))
    };
    assert_eq!(n_of(Recording::all(), 1000, NAME), (1, true));
    assert_eq!(n_of(Recording::all().context(Context::Alloc), 1000, NAME), (1, true));
    assert_eq!(n_of(Recording::all().context(Context::State), 1000, NAME), (1, false));
    assert_eq!(n_of(Recording::all().context(Context::None), 1000, NAME), (1, false));
    assert_eq!(n_of(Recording::off(), 1000, NAME).0, 0);
    assert_eq!(n_of(Recording::all().skip_actions([Action::Annotate]), 1000, NAME).0, 0);
    assert_eq!(n_of(Recording::all().min_size(4096), 1000, NAME).0, 0, "its block is filtered out");
    assert_eq!(n_of(Recording::all().min_size(4096), 5000, NAME).0, 1);
    assert_eq!(n_of(Recording::all(), 1000, "").0, 0);
}

#[test]
fn raw_blocks_buffers_and_reported_blocks_have_names_too() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    let allocator = reel.allocator(0).unwrap();
    let raw = allocator.alloc_raw(1000, StreamId::DEFAULT).unwrap();
    assert!(allocator.annotate_raw(raw, "raw"));
    allocator.free_raw(raw).unwrap().unwrap();
    assert!(!allocator.annotate_raw(raw, "raw"), "the block is free");
    let buffer = memreel::Buffer::<f32>::zeros(allocator, &[10]).unwrap();
    buffer.annotate("buffer");
    let snapshot = reel.snapshot();
    let names: Vec<&str> = named(&snapshot).iter().map(|entry| snapshot.user_metadata(entry)).collect();
    assert_eq!(names, ["raw", "buffer"]);

    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let ledger = recorder.ledger(DeviceId(0));
    ledger.alloc(Address(0x10000), 4096, StreamId(7)).unwrap();
    ledger.annotate(Address(0x10000), "reported").unwrap();
    assert!(ledger.annotate(Address(0x20000), "nothing").is_err());
    ledger.free_requested(Address(0x10000)).unwrap();
    assert!(ledger.annotate(Address(0x10000), "no longer live").is_err());
    assert_eq!(ledger.n_contradictions(), 2);
    let snapshot = collect(&recorder, [&ledger], Dialect::default());
    let [entry] = named(&snapshot)[..] else { panic!("one entry") };
    assert_eq!((entry.address, entry.size, entry.stream), (Address(0x10000), 4096, StreamId(7)));
    assert_eq!(snapshot.user_metadata(entry), "reported");
}

/// Two named blocks, one of them with two names, and one without that reuses a named block's address.
fn session() -> (Snapshot, [Address; 3]) {
    let reel = reel(Recording::all());
    let [weights, gradient, gone] = [8 * MIB, 4 * MIB, 2 * MIB].map(|bytes| reel.alloc(bytes).unwrap());
    names_here(&weights, NAME);
    names_here(&gradient, "gradient");
    names_here(&gradient, "of layer 3");
    names_here(&gradient, "gradient");
    names_here(&gone, "gone");
    let [at, on, of_gone] = [&weights, &gradient, &gone].map(Allocation::address);
    drop(gone);
    let reused = reel.alloc(2 * MIB).unwrap();
    assert_eq!(reused.address(), of_gone);
    (reel.snapshot(), [at, on, of_gone])
}

#[test]
fn answers_have_the_names_of_their_blocks() {
    let (snapshot, [weights, gradient, reused]) = session();
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let names = |address: Address| {
        let lives = history.lives_at(history.end());
        lives
            .filter(|life| life.address == address)
            .flat_map(|life| history.names_of(life))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(weights), [NAME]);
    assert_eq!(names(gradient), ["gradient", "of layer 3"]);
    assert!(names(reused).is_empty(), "a name ends with its block");
    let groups = history.top(history.end(), By::Name);
    let sites: Vec<(Site, u64)> = groups.into_iter().map(|group| (group.site, group.bytes)).collect();
    let site = |name: &str| Site::Name(name.split(", ").collect());
    assert_eq!(
        sites,
        [(site(NAME), 8 * MIB), (site("gradient, of layer 3"), 4 * MIB), (Site::NoName, 2 * MIB)]
    );
    let groups = history.top(history.peak().moment, By::Stack);
    let names: Vec<&str> = groups[0].names.iter().map(|name| &**name).collect();
    assert_eq!(names, [NAME, "gradient", "of layer 3", "gone"]);
}

#[test]
fn a_name_from_after_the_beginning_of_a_ring_is_that_of_the_block() {
    let (mut snapshot, [weights, ..]) = session();
    let trace = &mut snapshot.device_traces[0];
    let first = trace.iter().position(|entry| entry.action == Some(Action::Annotate)).unwrap();
    trace.drain(..first);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let life = history.lives_at(history.end()).find(|life| life.address == weights).unwrap();
    assert!(life.is_from_before());
    assert_eq!(history.names_of(life), [NAME]);
}

#[test]
fn names_survive_every_way_through_a_file() {
    let (snapshot, _) = session();
    let names = |snapshot: &Snapshot| -> Vec<String> {
        named(snapshot).iter().map(|entry| snapshot.user_metadata(entry).to_owned()).collect()
    };
    let wanted = [NAME, "gradient", "of layer 3", "gradient", "gone"];
    pickle::save(&snapshot, crate::written("named-blocks.pickle")).unwrap();
    assert_eq!(names(&snapshot), wanted);
    let file = pickle::from_slice(&pickle::to_vec(&snapshot)).unwrap();
    assert_eq!(names(&file), wanted);
    let json: Snapshot = serde_json::from_value(serde_json::to_value(&file).unwrap()).unwrap();
    assert_eq!(names(&json), wanted);
    let fixed = fix(file.clone());
    assert!(fixed.changes.is_empty(), "{:?}", fixed.changes);
    assert_eq!(names(&fixed.snapshot), wanted);
    let parts = [0, 1].map(|rank| Part::new(file.clone()).rank(rank));
    assert_eq!(names(&merge(parts).unwrap()).len(), 2 * wanted.len());
    // A window that begins with the free of the last block begins with the names of the others.
    let n_gone = file.device_traces[0].iter().position(|e| e.action == Some(Action::FreeCompleted)).unwrap();
    let window = Slim::new().window(Window::Events { device: None, range: n_gone + 1..usize::MAX });
    let cut = window.apply(file.clone()).unwrap();
    assert_eq!(names(&cut), wanted[..4]);
    assert_eq!(cut.device_traces[0].len(), 4 + file.device_traces[0].len() - n_gone - 1);
    assert!(cut.device_traces[0].is_sorted_by_key(|entry| entry.time_us));
    let findings = validate::validate(&cut);
    let is_expected = |finding: &validate::Finding| finding.rule == validate::Rule::FinalState;
    assert!(findings.iter().all(is_expected), "{findings:?}");
    let history = DeviceHistory::new(&cut, DeviceId(0));
    assert_eq!(history.top(history.end(), By::Name)[0].site, Site::Name([NAME].into_iter().collect()));
    let lazy = pickle::to_vec(&file);
    let lazy = pickle::lazy(&lazy).unwrap();
    let of_file = window.over(&lazy).unwrap().to_snapshot().unwrap();
    assert_eq!(pickle::to_vec(&of_file), pickle::to_vec(&cut));
    assert_eq!(names(&Slim::new().min_bytes(3 * MIB).apply(file.clone()).unwrap()), wanted[..4]);
    let hidden = names(&Slim::new().anonymise(true).apply(file).unwrap());
    assert!(hidden.len() == 5 && hidden.iter().all(|name| !name.contains("layer")), "{hidden:?}");
}
