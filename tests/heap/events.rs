//! What is recorded of allocations, frees and reallocations.

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc},
    hint::black_box,
    sync::Arc,
    time::Duration,
};

use memreel::{
    Action, DeviceId,
    analysis::{By, DeviceHistory, Site},
    integrate::{FrameSource, SourceFrame},
    recorder::{Context, Recording},
};

use crate::{
    own_process,
    system::failing,
    taken::{HEAP_DEVICE, events_at, functions_at, later_snapshot, live_at, sound_snapshot},
};

const LIMIT: Duration = Duration::from_secs(60);

const FREED: [Action; 2] = [Action::FreeRequested, Action::FreeCompleted];

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

#[inline(never)]
fn a_thousand_numbers() -> Vec<u64> {
    black_box(vec![7; 1000])
}

#[test]
fn a_block_has_its_size_its_stack_and_its_scope() {
    own_process::run(module_path!(), "a_block_has_its_size_its_stack_and_its_scope", LIMIT, || {
        assert_eq!(memreel::snapshot().unwrap().device_traces.len(), 1, "no heap before recording");
        let from_before = black_box(vec![1_u8; 5000]);
        memreel::record_history(&Recording::all()).unwrap();
        let before_address = from_before.as_ptr().addr();
        drop(from_before);
        let (kept, scope) = (a_thousand_numbers(), memreel::scope("forward").unwrap());
        let other = a_thousand_numbers();
        drop(scope);
        let (kept_at, other_at) = (kept.as_ptr().addr(), other.as_ptr().addr());
        drop(other);
        let snapshot = sound_snapshot();
        assert_eq!(live_at(&snapshot, kept_at), Some(8000));
        assert_eq!(events_at(&snapshot, kept_at).last(), Some(&(Action::Alloc, 8000)));
        assert!(functions_at(&snapshot, kept_at).iter().any(|name| name.contains("a_thousand_numbers")));
        let of_other = events_at(&snapshot, other_at);
        assert_eq!(
            of_other[of_other.len() - 3..],
            [(Action::Alloc, 8000), (FREED[0], 8000), (FREED[1], 8000)]
        );
        assert_eq!(live_at(&snapshot, other_at), None);
        let unknown = events_at(&snapshot, before_address);
        assert!(unknown.first().is_none_or(|(action, _)| *action == Action::Alloc), "{unknown:?}");
        let history = DeviceHistory::new(&snapshot, DeviceId(1));
        assert!(history.trust().is_whole(), "{:?}", history.trust());
        let by_scope = history.top(history.peak().moment, By::Scope);
        assert!(by_scope.iter().any(|group| matches!(&group.site, Site::Scope(name) if *name == "forward")));
    });
}

/// What a snapshot takes for itself is in none. What it gives to the caller is the program's.
#[test]
fn a_snapshot_is_no_event_of_the_heap() {
    own_process::run(module_path!(), "a_snapshot_is_no_event_of_the_heap", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        let _kept = a_thousand_numbers();
        drop(memreel::snapshot().unwrap());
        let snapshot = memreel::snapshot().unwrap();
        let entries = snapshot.device_traces[HEAP_DEVICE].iter();
        let blocks = entries.filter(|entry| entry.action == Some(Action::Alloc));
        let names = blocks.flat_map(|entry| snapshot.frames(entry.stack)).map(|frame| frame.name.to_string());
        let own: Vec<String> = names.filter(|name| name.starts_with("memreel::collect::collected")).collect();
        assert!(own.is_empty(), "{own:?}");
    });
}

#[test]
fn sums_are_those_of_the_layouts() {
    own_process::run(module_path!(), "sums_are_those_of_the_layouts", LIMIT, || {
        for context in [Context::None, Context::State, Context::Alloc, Context::All] {
            memreel::record_history(&Recording::all().clear_history(true).context(context)).unwrap();
            let scope = memreel::scope("oracle").unwrap();
            let (mut live, mut state) = (Vec::new(), 99_u64);
            let mut below = |limit: usize| {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                (state >> 33) as usize % limit
            };
            for _ in 0..4000 {
                if live.is_empty() || below(5) < 3 {
                    let layout = layout(1 + below(3000), 1 << below(8));
                    // SAFETY: the layout has a size.
                    live.push((unsafe { alloc(layout) }.addr(), layout));
                } else {
                    let (block, layout) = live.swap_remove(below(live.len()));
                    // SAFETY: a block of this layout, which is freed once.
                    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(block), layout) };
                }
            }
            drop(scope);
            let snapshot = later_snapshot();
            let history = DeviceHistory::new(&snapshot, DeviceId(1));
            let top = history.top(history.end(), By::Scope);
            // The vector of the live blocks, too, was allocated within the scope.
            let wanted: usize =
                live.iter().map(|(_, layout)| layout.size()).sum::<usize>() + size_of_val(&*live);
            let spare = (live.capacity() - live.len()) * size_of_val(&live[0]);
            let of_scope =
                top.iter().find(|group| matches!(&group.site, Site::Scope(name) if *name == "oracle"));
            assert_eq!(of_scope.unwrap().bytes, (wanted + spare) as u64, "{context:?}");
            assert_eq!(of_scope.unwrap().n_blocks, live.len() + 1);
            for (block, layout) in live {
                assert_eq!(live_at(&snapshot, block), Some(layout.size() as u64));
                // SAFETY: a block of this layout, which is freed once.
                unsafe { dealloc(std::ptr::with_exposed_provenance_mut(block), layout) };
            }
        }
    });
}

#[test]
fn a_block_that_is_resized_is_freed_and_allocated() {
    own_process::run(module_path!(), "a_block_that_is_resized_is_freed_and_allocated", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        // SAFETY: layouts with a size; each block is resized and freed with its own.
        unsafe {
            // Far above the size from which blocks are mapped alone, and shrunk: it stays where it is.
            let in_place = alloc(layout(1 << 20, 16));
            let shrunk = realloc(in_place, layout(1 << 20, 16), 900_000);
            assert_eq!(in_place.addr(), shrunk.addr(), "the system shrinks in place");
            let small = alloc(layout(40, 16));
            let behind = alloc(layout(40, 16));
            let moved = realloc(small, layout(40, 16), 50_000);
            assert_ne!(small.addr(), moved.addr());
            let failed = failing(|| realloc(moved, layout(50_000, 16), 60_000));
            assert!(failed.is_null());
            let zeroed = alloc_zeroed(layout(3000, 16));
            assert!((0..3000).all(|at| *zeroed.add(at) == 0));
            let aligned = alloc(layout(100, 1 << 16));
            let aligned_more = realloc(aligned, layout(100, 1 << 16), 200_000);
            assert_eq!(aligned_more.addr() % (1 << 16), 0);
            let snapshot = sound_snapshot();
            let resized = [
                (Action::Alloc, 1 << 20),
                (FREED[0], 1 << 20),
                (FREED[1], 1 << 20),
                (Action::Alloc, 900_000),
            ];
            let events = events_at(&snapshot, shrunk.addr());
            assert_eq!(events[events.len() - 4..], resized);
            let events = events_at(&snapshot, small.addr());
            assert!(events.windows(2).any(|pair| pair == [(FREED[0], 40), (FREED[1], 40)]), "{events:?}");
            assert_eq!(live_at(&snapshot, moved.addr()), Some(50_000), "a failure leaves the block");
            assert_eq!(live_at(&snapshot, zeroed.addr()), Some(3000));
            assert_eq!(live_at(&snapshot, aligned_more.addr()), Some(200_000));
            dealloc(shrunk, layout(900_000, 16));
            dealloc(behind, layout(40, 16));
            dealloc(moved, layout(50_000, 16));
            dealloc(zeroed, layout(3000, 16));
            dealloc(aligned_more, layout(200_000, 1 << 16));
            let snapshot = sound_snapshot();
            for block in [shrunk, behind, moved, zeroed, aligned_more] {
                assert_eq!(events_at(&snapshot, block.addr()).last().unwrap().0, Action::FreeCompleted);
            }
        }
    });
}

#[test]
fn what_is_freed_while_recording_is_off_is_gone() {
    own_process::run(module_path!(), "what_is_freed_while_recording_is_off_is_gone", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        let (kept, freed) = (black_box(vec![1_u8; 7000]), black_box(vec![1_u8; 7001]));
        let (kept_at, freed_at) = (kept.as_ptr().addr(), freed.as_ptr().addr());
        memreel::record_history(&Recording::off()).unwrap();
        drop(freed);
        let unseen = black_box(vec![1_u8; 7002]);
        memreel::record_history(&Recording::all()).unwrap();
        let later = black_box(vec![1_u8; 7003]);
        let snapshot = later_snapshot();
        assert_eq!(live_at(&snapshot, kept_at), Some(7000), "it is live from before the history");
        assert_ne!(live_at(&snapshot, freed_at), Some(7001));
        assert_ne!(live_at(&snapshot, unseen.as_ptr().addr()), Some(7002));
        assert_eq!(live_at(&snapshot, later.as_ptr().addr()), Some(7003));
        assert!(!DeviceHistory::new(&snapshot, DeviceId(1)).trust().is_whole());
        drop(kept);
        assert_eq!(live_at(&later_snapshot(), kept_at), None);
    });
}

#[test]
fn a_ring_that_lost_events_has_what_is_live() {
    own_process::run(module_path!(), "a_ring_that_lost_events_has_what_is_live", LIMIT, || {
        memreel::record_history(&Recording::all().max_entries(2000)).unwrap();
        let kept = black_box(vec![1_u8; 6000]);
        (0..20_000).for_each(|n| drop(black_box(vec![1_u8; 1 + n % 100])));
        let snapshot = memreel::snapshot().unwrap();
        let history = DeviceHistory::new(&snapshot, DeviceId(1));
        assert!(history.trust().has_lost);
        assert_eq!(history.trust().n_contradictions, 0);
        assert_eq!(live_at(&snapshot, kept.as_ptr().addr()), Some(6000));
    });
}

/// A frame source that allocates at each capture, as an interpreter may.
struct Allocates;

impl FrameSource for Allocates {
    fn capture(&self, words: &mut [usize]) -> usize {
        let own = black_box(vec![1_u8; 12_345]);
        words[0] = own.len();
        1
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        vec![SourceFrame { name: format!("of {word}"), filename: "source".into(), line: 1 }]
    }
}

#[test]
fn what_the_recorder_allocates_is_not_recorded() {
    own_process::run(module_path!(), "what_the_recorder_allocates_is_not_recorded", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        assert!(memreel::default_reel().unwrap().recorder().set_frame_source(Arc::new(Allocates)));
        let long = "a".repeat(54_321);
        drop(memreel::scope(&long).unwrap());
        let kept = a_thousand_numbers();
        let snapshot = sound_snapshot();
        assert!(functions_at(&snapshot, kept.as_ptr().addr()).iter().any(|name| name == "of 12345"));
        let sizes: Vec<u64> = snapshot.device_traces[1].iter().map(|entry| entry.size).collect();
        assert!(!sizes.contains(&12_345));
        assert_eq!(
            sizes.iter().filter(|size| **size == 54_321).count(),
            1,
            "not the copy of the scope's name"
        );
    });
}
