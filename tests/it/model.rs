//! The caching allocator against a model so simple that it is plainly right.
//!
//! The model keeps a list of segments, each a list of pieces, and finds
//! everything by looking at all of it.

use std::{collections::BTreeMap, sync::Arc};

use memreel::{
    Address, Allocation, CachingAllocator, DeviceId, Inventory, StreamId,
    device::{Device, Limit, Simulated},
    recorder::{Context, History, Recorder},
    snapshot::{Dialect, collect},
};
use proptest::{prelude::*, test_runner::RngSeed};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 120 * MIB;

#[derive(Clone, Debug)]
enum Request {
    Alloc { bytes: u64, stream: u64 },
    Free(usize),
    EmptyCache,
}

fn request() -> impl Strategy<Value = Request> {
    let bytes = prop_oneof![
        4 => 1..4096_u64,
        3 => 4096..2 * MIB,
        2 => MIB..12 * MIB,
        1 => 10 * MIB..60 * MIB,
        1 => prop::sample::select(vec![512, MIB, MIB + 1, 10 * MIB, 10 * MIB - 512, 10 * MIB - 511]),
    ];
    prop_oneof![
        5 => (bytes, 0..2_u64).prop_map(|(bytes, stream)| Request::Alloc { bytes, stream }),
        4 => any::<prop::sample::Index>().prop_map(|index| Request::Free(index.index(1000))),
        1 => Just(Request::EmptyCache),
    ]
}

#[derive(Clone, PartialEq, Debug)]
struct Piece {
    bytes: u64,
    requested: Option<u64>,
}

#[derive(Debug)]
struct Model {
    /// A device of its own, which gives the same addresses when asked the same.
    device: Simulated,
    /// By address: stream, and pieces in order.
    segments: BTreeMap<u64, (u64, Vec<Piece>)>,
    events: Vec<(&'static str, u64, u64)>,
}

impl Model {
    fn reserved(&self) -> u64 {
        self.segments.values().flat_map(|(_, pieces)| pieces).map(|piece| piece.bytes).sum()
    }

    /// Every piece with its segment, place and address.
    fn pieces(&self) -> impl Iterator<Item = (u64, usize, u64, u64, &Piece)> {
        self.segments.iter().flat_map(|(start, (stream, pieces))| {
            let mut address = *start;
            pieces.iter().enumerate().map(move |(place, piece)| {
                let at = address;
                address += piece.bytes;
                (*start, place, at, *stream, piece)
            })
        })
    }

    fn is_small(&self, segment: u64) -> bool {
        self.segments[&segment].1.iter().map(|piece| piece.bytes).sum::<u64>() == 2 * MIB
    }

    fn best_fit(&self, rounded: u64, stream: u64) -> Option<(u64, usize)> {
        self.pieces()
            .filter(|(segment, _, _, on, piece)| {
                piece.requested.is_none()
                    && *on == stream
                    && piece.bytes >= rounded
                    && self.is_small(*segment) == (rounded <= MIB)
            })
            .min_by_key(|(_, _, address, _, piece)| (piece.bytes, *address))
            .map(|(segment, place, ..)| (segment, place))
    }

    fn new() -> Model {
        Model { device: Simulated::new(80 << 30), segments: BTreeMap::new(), events: Vec::new() }
    }

    fn alloc(&mut self, bytes: u64, stream: u64) -> Option<u64> {
        let rounded = bytes.div_ceil(512) * 512;
        let segment_bytes = match rounded {
            r if r <= MIB => 2 * MIB,
            r if r < 10 * MIB => 20 * MIB,
            r => r.div_ceil(2 * MIB) * 2 * MIB,
        };
        let found = self.best_fit(rounded, stream).or_else(|| {
            if self.reserved() + segment_bytes > CAPACITY {
                self.empty_cache();
            }
            if self.reserved() + segment_bytes > CAPACITY {
                return None;
            }
            let address = self.device.segment_alloc(segment_bytes).unwrap().unwrap().0;
            self.segments.insert(address, (stream, vec![Piece { bytes: segment_bytes, requested: None }]));
            self.events.push(("segment_alloc", address, segment_bytes));
            Some((address, 0))
        });
        let Some((segment, place)) = found else {
            self.events.push(("oom", CAPACITY - self.reserved(), rounded));
            return None;
        };
        let address = self.pieces().find(|(s, p, ..)| (*s, *p) == (segment, place)).unwrap().2;
        let pieces = &mut self.segments.get_mut(&segment).unwrap().1;
        let rest = pieces[place].bytes - rounded;
        if if rounded <= MIB { rest >= 512 } else { rest > MIB } {
            pieces[place].bytes = rounded;
            pieces.insert(place + 1, Piece { bytes: rest, requested: None });
        }
        pieces[place].requested = Some(bytes);
        self.events.push(("alloc", address, bytes));
        Some(address)
    }

    fn free(&mut self, address: u64) {
        let (segment, place, ..) =
            self.pieces().find(|(_, _, at, _, p)| *at == address && p.requested.is_some()).unwrap();
        let pieces = &mut self.segments.get_mut(&segment).unwrap().1;
        let bytes = pieces[place].requested.take().unwrap();
        self.events.push(("free_requested", address, bytes));
        self.events.push(("free_completed", address, bytes));
        let mut merged: Vec<Piece> = Vec::new();
        for piece in pieces.drain(..) {
            match merged.last_mut() {
                Some(last) if last.requested.is_none() && piece.requested.is_none() => {
                    last.bytes += piece.bytes
                }
                _ => merged.push(piece),
            }
        }
        *pieces = merged;
    }

    fn empty_cache(&mut self) {
        let mut unused: Vec<_> = self
            .segments
            .iter()
            .filter(|(_, (_, pieces))| matches!(&pieces[..], [Piece { requested: None, .. }]))
            .map(|(address, (stream, pieces))| {
                (pieces[0].bytes == 2 * MIB, *stream, pieces[0].bytes, *address)
            })
            .collect();
        unused.sort_unstable();
        for (_, _, bytes, address) in unused {
            self.segments.remove(&address);
            // SAFETY: the device gave this segment, and its addresses are never followed.
            unsafe { self.device.segment_free(Address(address), bytes) };
            self.events.push(("segment_free", address, bytes));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(2011), ..ProptestConfig::default() })]

    #[test]
    fn the_allocator_equals_the_model(requests in prop::collection::vec(request(), 1..120)) {
        let device = Arc::new(Simulated::new(80 << 30));
        let recorder = Recorder::new();
        recorder.record_history(&History::all().context(Context::None));
        let limit = Limit::new(device.clone(), CAPACITY);
        let allocator = CachingAllocator::new(limit, &recorder.track(DeviceId(0)));
        let mut model = Model::new();
        let mut live: Vec<Allocation> = Vec::new();
        for request in requests {
            match request {
                Request::Alloc { bytes, stream } => {
                    let expected = model.alloc(bytes, stream);
                    match allocator.alloc(bytes, StreamId(stream)) {
                        Ok(block) => {
                            prop_assert_eq!(Some(block.address().0), expected);
                            live.push(block);
                        }
                        Err(error) => {
                            prop_assert!(error.is_out_of_memory());
                            prop_assert_eq!(expected, None);
                        }
                    }
                }
                Request::Free(index) if !live.is_empty() => {
                    let block = live.swap_remove(index % live.len());
                    model.free(block.address().0);
                    block.free().unwrap();
                }
                Request::Free(_) => {}
                Request::EmptyCache => {
                    model.empty_cache();
                    allocator.empty_cache().unwrap();
                }
            }
        }
        let snapshot = collect(&recorder, &[&allocator as &dyn Inventory], Dialect::default());
        let events: Vec<_> =
            snapshot.device_traces[0].iter().map(|e| (e.action.unwrap().name(), e.address, e.size)).collect();
        prop_assert_eq!(events, model.events.clone());
        let ours: Vec<_> = snapshot
            .segments
            .iter()
            .flat_map(|s| s.blocks.iter().map(|b| (b.address, b.size, b.state.unwrap().is_active())))
            .collect();
        let theirs: Vec<_> = model.pieces().map(|(_, _, at, _, p)| (at, p.bytes, p.requested.is_some())).collect();
        prop_assert_eq!(ours, theirs);
        let stats = allocator.stats();
        prop_assert_eq!(stats.reserved_bytes.all.current.cast_unsigned(), model.reserved());
        let inactive = model.pieces().filter(|(s, _, _, _, p)| p.requested.is_none() && model.segments[s].1.len() > 1);
        let (n, bytes) = inactive.fold((0, 0), |(n, bytes), (.., p)| (n + 1, bytes + p.bytes));
        prop_assert_eq!(stats.inactive_split.all.current, n);
        prop_assert_eq!(stats.inactive_split_bytes.all.current.cast_unsigned(), bytes);
        drop(live);
        drop(allocator);
        prop_assert_eq!(device.n_segments(), 0, "every segment went back when the allocator went");
    }
}
