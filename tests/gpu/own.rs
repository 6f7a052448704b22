//! Runs a recorded training's requests again with the recorded addresses and compares the events.

use memreel::{Action, pickle};

use super::replay::{Event, Scenario};

/// Returns whether each file's requests give the same events again. Needs no GPU.
pub(crate) fn repeat(paths: &[String]) -> bool {
    // Reports each file, also after one that failed.
    let n_failed = paths.iter().filter(|path| !repeat_one(path)).count();
    n_failed == 0
}

fn repeat_one(path: &str) -> bool {
    let snapshot = pickle::load(path).unwrap();
    let told = |entry: &&memreel::snapshot::TraceEntry| {
        !matches!(entry.action, Some(Action::Snapshot | Action::Annotate))
    };
    let event = |entry: &memreel::snapshot::TraceEntry| -> Event {
        let action = entry.action.expect("every entry has one").name();
        (action.into(), entry.address.0, entry.size, entry.stream.handle())
    };
    let recorded: Vec<Event> = snapshot.device_traces[0].iter().filter(told).map(event).collect();
    let ours = Scenario::of(&recorded, 80 << 30).run_events().events;
    let differs = (0..ours.len().max(recorded.len())).find(|at| ours.get(*at) != recorded.get(*at));
    match differs {
        None => println!("{path}: {} events, all repeated", recorded.len()),
        Some(at) => println!("{path}: event {at}: {:?}, recorded {:?}", ours.get(at), recorded.get(at)),
    }
    differs.is_none()
}
