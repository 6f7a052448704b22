//! A caching allocator so simple that it is plainly right: what `programs` holds the real one against.
//!
//! It follows caching-allocator.md sentence by sentence on plain vectors, and
//! finds everything by looking at all of it: no ordered sets, no links, no
//! arena, no running totals. A block is known by its address. The device is
//! one of its own that gives the same answers when asked the same, so a call
//! too many, too few or in another order shows. (Over 400 lines, because the
//! rules of every setting only make sense together.)

use std::collections::{BTreeMap, BTreeSet};

use memreel::{
    Address, BlockState, PoolId, StreamId,
    allocator::{PoolOptions, Settings},
    device::{Device, Mark, Simulated},
};

use super::invariants::sum;

const MIB: u64 = 1 << 20;
const DEFAULT: PoolId = PoolId::DEFAULT;

/// What happened: action, address, size, stream, pool.
pub(crate) type Told = (&'static str, u64, u64, u64, PoolId);

/// The misuse of a pool.
#[derive(Debug)]
pub(crate) struct Refused;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Since how many searches of the default large pool.
    Free(u64),
    Held,
    /// Freed by the program; a stream may still use it.
    Waiting,
    /// Addresses without memory.
    Unmapped,
}

#[derive(Clone, Debug)]
struct Piece {
    bytes: u64,
    state: State,
    requested: u64,
    uses: BTreeSet<StreamId>,
    uses_while_routing: BTreeSet<StreamId>,
    n_marks: usize,
}

impl Piece {
    fn new(bytes: u64, state: State) -> Piece {
        let (uses, uses_while_routing) = (BTreeSet::new(), BTreeSet::new());
        Piece { bytes, state, requested: 0, uses, uses_while_routing, n_marks: 0 }
    }

    fn is_free(&self) -> bool {
        matches!(self.state, State::Free(_))
    }

    fn is_mapped(&self) -> bool {
        self.state != State::Unmapped
    }
}

/// A segment, or the reserved range of an expandable one.
#[derive(Debug)]
struct Span {
    start: u64,
    stream: StreamId,
    home: Home,
    /// The page of an expandable segment.
    page: Option<u64>,
    pieces: Vec<Piece>,
}

impl Span {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    fn address(&self, place: usize) -> u64 {
        self.start + self.pieces[..place].iter().map(|piece| piece.bytes).sum::<u64>()
    }

    fn place(&self, address: u64) -> Option<usize> {
        (0..self.pieces.len()).find(|place| self.address(*place) == address)
    }

    /// What a free piece could grow to: itself and the unmapped one behind it.
    fn extended(&self, place: usize) -> u64 {
        let room = self.pieces.get(place + 1).filter(|next| !next.is_mapped());
        self.pieces[place].bytes + room.map_or(0, |next| next.bytes)
    }

    /// Cuts a piece so that its first `bytes` are a piece of their own.
    fn cut(&mut self, place: usize, bytes: u64) {
        let rest = self.pieces[place].bytes - bytes;
        if rest > 0 {
            self.pieces[place].bytes = bytes;
            self.pieces.insert(place + 1, Piece::new(rest, self.pieces[place].state));
        }
    }

    /// Free neighbours become one, and so do unmapped ones.
    fn merge(&mut self, now: u64) {
        let mut merged: Vec<Piece> = Vec::new();
        for piece in self.pieces.drain(..) {
            match merged.last_mut() {
                Some(last) if last.is_free() && piece.is_free() => {
                    *last = Piece::new(last.bytes + piece.bytes, State::Free(now));
                }
                Some(last) if !last.is_mapped() && !piece.is_mapped() => last.bytes += piece.bytes,
                _ => merged.push(piece),
            }
        }
        self.pieces = merged;
    }
}

/// A pool, and whether it is the small one of the two.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Home {
    pool: PoolId,
    is_small: bool,
}

#[derive(Clone, Debug)]
struct Request {
    rounded: u64,
    segment: u64,
    stream: StreamId,
    home: Home,
    is_expandable: bool,
}

#[derive(Debug)]
struct Private {
    options: PoolOptions,
    n_users: u32,
    n_device_allocs: i64,
}

/// Counts of one kind of pool, by looking.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) allocation: i64,
    pub(crate) segment: i64,
    pub(crate) active: i64,
    pub(crate) inactive_split: i64,
    pub(crate) allocated_bytes: i64,
    pub(crate) reserved_bytes: i64,
    pub(crate) active_bytes: i64,
    pub(crate) inactive_split_bytes: i64,
    pub(crate) requested_bytes: i64,
}

/// A mapped stretch: start, stream, pool, small, expandable, and its blocks
/// as size, requested size (of those in use) and state.
pub(crate) type Stretch = (u64, u64, PoolId, bool, bool, Vec<(u64, u64, BlockState)>);

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) device: Simulated,
    pub(crate) settings: Settings,
    pub(crate) limit: Option<u64>,
    pub(crate) events: Vec<Told>,
    pub(crate) n_retries: i64,
    pub(crate) n_ooms: i64,
    pub(crate) n_syncs: i64,
    pub(crate) n_device_allocs: i64,
    pub(crate) n_device_frees: i64,
    pub(crate) oversize_allocations: i64,
    pub(crate) oversize_segments: i64,
    /// The most reserved at any moment, also within a request.
    pub(crate) reserved_peak: u64,
    spans: Vec<Span>,
    n_searches: u64,
    /// In the order of marking: stream, mark, block.
    waiting: Vec<(StreamId, Mark, u64)>,
    deferred: Vec<u64>,
    private: BTreeMap<PoolId, Private>,
    /// Last begun last, with the streams routed there; none is all.
    routes: Vec<(PoolId, Option<u64>)>,
    n_pools: [u64; 2],
}

impl Model {
    pub(crate) fn new(total: u64, settings: Settings) -> Model {
        let mut model = Model {
            device: Simulated::new(total),
            limit: None,
            events: Vec::new(),
            n_retries: 0,
            n_ooms: 0,
            n_syncs: 0,
            n_device_allocs: 0,
            n_device_frees: 0,
            oversize_allocations: 0,
            oversize_segments: 0,
            reserved_peak: 0,
            spans: Vec::new(),
            n_searches: 0,
            waiting: Vec::new(),
            deferred: Vec::new(),
            private: BTreeMap::new(),
            routes: Vec::new(),
            n_pools: [0; 2],
            settings,
        };
        model.set_fraction(model.settings.per_process_memory_fraction);
        model
    }

    pub(crate) fn set_fraction(&mut self, fraction: f64) {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let allowed = (fraction * self.device.total_bytes() as f64).floor() as u64;
        self.limit = if fraction == 1.0 { None } else { Some(allowed) };
    }

    // What can be read off.

    pub(crate) fn reserved(&self) -> u64 {
        self.spans.iter().flat_map(|span| &span.pieces).filter(|p| p.is_mapped()).map(|p| p.bytes).sum()
    }

    /// The sums of all pools, of the small and of the large ones.
    pub(crate) fn sums(&self) -> [Sums; 3] {
        let mut both = [Sums::default(); 2];
        for span in &self.spans {
            let sums = &mut both[usize::from(!span.home.is_small)];
            sums.segment += i64::from(span.page.is_none());
            for piece in span.pieces.iter().filter(|piece| piece.is_mapped()) {
                let bytes = piece.bytes.cast_signed();
                sums.reserved_bytes += bytes;
                if piece.state == State::Held {
                    sums.allocation += 1;
                    sums.allocated_bytes += bytes;
                }
                if !piece.is_free() {
                    sums.active += 1;
                    sums.active_bytes += bytes;
                    sums.requested_bytes += piece.requested.cast_signed();
                } else if span.page.is_none() && span.pieces.len() > 1 {
                    sums.inactive_split += 1;
                    sums.inactive_split_bytes += bytes;
                }
            }
        }
        let [small, large] = both;
        [sum(small, large), small, large]
    }

    /// Each stretch of mapped pieces, by address.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for span in &self.spans {
            let mut is_new = true;
            for (place, piece) in span.pieces.iter().enumerate() {
                if is_new && piece.is_mapped() {
                    let Home { pool, is_small } = span.home;
                    let (at, stream) = (span.address(place), span.stream.handle());
                    stretches.push((at, stream, pool, is_small, span.page.is_some(), Vec::new()));
                }
                is_new = !piece.is_mapped();
                let block = match piece.state {
                    State::Held => (piece.bytes, piece.requested, BlockState::ActiveAllocated),
                    State::Waiting => (piece.bytes, piece.requested, BlockState::ActivePendingFree),
                    State::Free(_) => (piece.bytes, 0, BlockState::Inactive),
                    State::Unmapped => continue,
                };
                stretches.last_mut().expect("it begins with a mapped piece").5.push(block);
            }
        }
        stretches.sort_by_key(|stretch| stretch.0);
        stretches
    }

    fn tell(&mut self, what: &'static str, address: u64, bytes: u64, stream: StreamId, home: Home) {
        self.events.push((what, address, bytes, stream.handle(), home.pool));
    }

    /// Where a block stands that was not completed.
    fn find(&self, address: u64) -> (usize, usize) {
        let found = self.spans.iter().enumerate().find_map(|(s, span)| Some((s, span.place(address)?)));
        found.expect("the program holds it")
    }

    fn piece(&mut self, address: u64) -> &mut Piece {
        let (span, place) = self.find(address);
        &mut self.spans[span].pieces[place]
    }

    /// The free pieces of a pool in order: stream, size, address; then where they are.
    fn free_pieces(&self, home: Home) -> Vec<(StreamId, u64, u64, usize, usize)> {
        let mut free = Vec::new();
        for (s, span) in self.spans.iter().enumerate().filter(|(_, span)| span.home == home) {
            for (place, piece) in span.pieces.iter().enumerate().filter(|(_, piece)| piece.is_free()) {
                free.push((span.stream, piece.bytes, span.address(place), s, place));
            }
        }
        free.sort_unstable();
        free
    }

    fn is_oversize(&self, bytes: u64) -> bool {
        self.settings.max_split_bytes.is_some_and(|max| bytes >= max)
    }

    fn ages_count(&self) -> bool {
        self.limit.is_some() && self.settings.garbage_collection_threshold > 0.0
    }

    // Sizes (1).

    fn round(&self, n: u64) -> u64 {
        if n < 512 {
            return 512;
        }
        let interval = (0..15).find(|i| n < MIB << (i + 1)).unwrap_or(15);
        let divisions = u64::from(self.settings.roundup_power2_divisions[interval]);
        if divisions > 1 && n > 512 * divisions {
            let power = 1 << n.ilog2();
            let steps = (0..=divisions).map(|step| power + power / divisions * step);
            return steps.into_iter().find(|size| *size >= n).expect("the last is twice the power");
        }
        n.div_ceil(512) * 512
    }

    fn request(&self, n: u64, stream: StreamId) -> Request {
        let rounded = self.round(n);
        let segment = match rounded {
            r if r <= MIB => 2 * MIB,
            r if r < 10 * MIB => self.settings.large_segment_bytes,
            r => r.div_ceil(2 * MIB) * 2 * MIB,
        };
        let accepts = |streams: &Option<u64>| streams.is_none_or(|only| only == stream.handle());
        let route = self.routes.iter().rev().find(|(_, streams)| accepts(streams));
        let home = Home { pool: route.map_or(DEFAULT, |(id, _)| *id), is_small: rounded <= MIB };
        Request { rounded, segment, stream, home, is_expandable: self.settings.expandable_segments }
    }

    // A request (3).

    /// Where the block stands, or `None` out of memory.
    pub(crate) fn alloc(&mut self, n: u64, stream: StreamId) -> Option<u64> {
        if self.routes.is_empty() {
            self.complete_passed();
        }
        let request = self.request(n, stream);
        if let Some(at) = self.search(&request) {
            return Some(self.hand_out(at, n, &request));
        }
        self.collect_garbage();
        if let Some(at) = self.grow(&request) {
            return Some(self.hand_out(at, n, &request));
        }
        if let Some((at, request)) = self.borrow(&request) {
            return Some(self.hand_out(at, n, &request));
        }
        if let Some(at) = self.last_resorts(&request) {
            return Some(self.hand_out(at, n, &request));
        }
        self.n_ooms += 1;
        let free = self.device.free_bytes();
        self.tell("oom", free, request.rounded, stream, request.home);
        None
    }

    /// Best fit, by looking at every free piece (2.3).
    fn search(&mut self, request: &Request) -> Option<u64> {
        if self.ages_count() && request.home == (Home { pool: DEFAULT, is_small: false }) {
            self.n_searches += 1;
        }
        let mut fits = self.free_pieces(request.home);
        fits.retain(|(stream, bytes, ..)| *stream == request.stream && *bytes >= request.rounded);
        let is_paged = |at: usize| self.spans[fits[at].3].page.is_some();
        let room = |at: usize| self.spans[fits[at].3].extended(fits[at].4);
        let mut best = 0;
        if request.is_expandable {
            while best + 1 < fits.len() && is_paged(best) && room(best + 1) < room(best) {
                best += 1;
            }
        } else {
            best = (0..fits.len()).find(|at| !is_paged(*at))?;
        }
        let (_, bytes, address, ..) = *fits.get(best)?;
        let rounding = self.settings.max_non_split_rounding_bytes;
        let is_refused = match self.is_oversize(request.rounded) {
            false => self.is_oversize(bytes),
            true => bytes - request.rounded >= rounding,
        };
        (!is_refused).then_some(address)
    }

    fn grow(&mut self, request: &Request) -> Option<u64> {
        if self.limit.is_some_and(|limit| self.reserved() + request.segment > limit) {
            return None;
        }
        let address =
            if request.is_expandable { self.grow_range(request) } else { self.grow_segment(request) }?;
        self.count(request.home.pool, 1);
        Some(address)
    }

    fn grow_segment(&mut self, request: &Request) -> Option<u64> {
        let Request { segment: bytes, stream, home, .. } = *request;
        let start = self.device.segment_alloc(bytes).unwrap()?.0;
        let pieces = vec![Piece::new(bytes, State::Free(self.n_searches))];
        self.spans.push(Span { start, stream, home, page: None, pieces });
        self.n_device_allocs += 1;
        self.oversize_segments += i64::from(self.is_oversize(bytes));
        self.reserved_peak = self.reserved_peak.max(self.reserved());
        self.tell("segment_alloc", start, bytes, stream, home);
        Some(start)
    }

    /// Maps pages behind the first row of free pieces that is long enough, until they are (6.3).
    fn grow_range(&mut self, request: &Request) -> Option<u64> {
        let begin = match self.find_row(request) {
            Some(begin) => begin,
            None => self.reserve(request)?,
        };
        loop {
            let (s, place) = self.find(begin);
            let piece = &self.spans[s].pieces[place];
            let have = if piece.is_free() { piece.bytes } else { 0 };
            if have >= request.rounded {
                return Some(begin);
            }
            let next = if piece.is_free() { place + 1 } else { place };
            let bytes = (request.rounded - have).min(self.spans[s].pieces[next].bytes);
            self.map(s, next, bytes)?;
        }
    }

    fn find_row(&self, request: &Request) -> Option<u64> {
        let is_ours = |span: &&Span| span.home == request.home && span.stream == request.stream;
        let mut spans: Vec<&Span> = self.spans.iter().filter(is_ours).collect();
        spans.sort_by_key(|span| span.start);
        for span in spans {
            for place in (0..span.pieces.len()).filter(|place| !span.pieces[*place].is_mapped()) {
                let begin = if place > 0 && span.pieces[place - 1].is_free() { place - 1 } else { place };
                let row = span.pieces[begin..].iter().take_while(|p| p.is_free() || !p.is_mapped());
                if row.map(|piece| piece.bytes).sum::<u64>() >= request.rounded {
                    return Some(span.address(begin));
                }
            }
        }
        None
    }

    fn reserve(&mut self, request: &Request) -> Option<u64> {
        // A device has pages of whole 2 MiB, so an odd large segment has larger ones.
        let large = self.settings.large_segment_bytes.div_ceil(2 * MIB) * 2 * MIB;
        let page = if request.home.is_small { 2 * MIB } else { large };
        let total = self.device.total_bytes();
        let bytes = (total + total / 8).div_ceil(page) * page;
        if bytes < request.rounded {
            return None;
        }
        let start = self.device.range_reserve(bytes, page).unwrap()?.0;
        let pieces = vec![Piece::new(bytes, State::Unmapped)];
        let Request { stream, home, .. } = *request;
        self.spans.push(Span { start, stream, home, page: Some(page), pieces });
        Some(start)
    }

    fn map(&mut self, s: usize, place: usize, bytes: u64) -> Option<()> {
        let bytes = bytes.next_multiple_of(self.spans[s].page.unwrap());
        let (address, stream, home) =
            (self.spans[s].address(place), self.spans[s].stream, self.spans[s].home);
        // SAFETY: unmapped pages of a range of this device, whose addresses are never followed.
        if !unsafe { self.device.range_map(Address(address), bytes) }.unwrap() {
            return None;
        }
        self.spans[s].cut(place, bytes);
        self.spans[s].pieces[place].state = State::Free(self.n_searches);
        self.spans[s].merge(self.n_searches);
        self.n_device_allocs += 1;
        self.reserved_peak = self.reserved_peak.max(self.reserved());
        self.tell("segment_map", address, bytes, stream, home);
        Some(())
    }

    /// From a pool that lends when the device has no more (3.4).
    fn borrow(&mut self, request: &Request) -> Option<(u64, Request)> {
        if request.home.pool != DEFAULT {
            return None;
        }
        let lenders: Vec<PoolId> =
            self.private.iter().filter(|(_, p)| p.options.use_on_oom).map(|(id, _)| *id).collect();
        lenders.into_iter().find_map(|pool| {
            let home = Home { pool, ..request.home };
            let request = Request { home, is_expandable: false, ..request.clone() };
            Some((self.search(&request)?, request))
        })
    }

    fn last_resorts(&mut self, request: &Request) -> Option<u64> {
        if self.release_available(request)
            && let Some(at) = self.grow(request)
        {
            return Some(at);
        }
        if !self.routes.is_empty() {
            return None;
        }
        self.empty_cache(DEFAULT);
        self.n_retries += 1;
        self.grow(request)
    }

    fn hand_out(&mut self, at: u64, n: u64, request: &Request) -> u64 {
        let never = self.private.get(&request.home.pool).is_some_and(|pool| pool.options.no_split);
        let (s, place) = self.find(at);
        let rest = self.spans[s].pieces[place].bytes - request.rounded;
        let splits = match request.home.is_small || request.is_expandable {
            true => rest >= 512,
            false => !self.is_oversize(request.rounded) && rest > MIB,
        };
        if splits && !never {
            self.spans[s].cut(place, request.rounded);
        }
        let piece = &mut self.spans[s].pieces[place];
        (piece.state, piece.requested) = (State::Held, n);
        let bytes = piece.bytes;
        self.oversize_allocations += i64::from(self.is_oversize(bytes));
        self.tell("alloc", at, n, request.stream, request.home);
        at
    }

    // A free (4).

    pub(crate) fn free(&mut self, at: u64) {
        let (s, place) = self.find(at);
        let (stream, home) = (self.spans[s].stream, self.spans[s].home);
        let piece = &mut self.spans[s].pieces[place];
        piece.state = State::Waiting;
        let (bytes, requested, is_unused) = (piece.bytes, piece.requested, piece.uses.is_empty());
        self.oversize_allocations -= i64::from(self.is_oversize(bytes));
        self.tell("free_requested", at, requested, stream, home);
        match is_unused {
            true => self.complete(at),
            false if self.routes.is_empty() => self.mark_uses(at),
            false => self.deferred.push(at),
        }
    }

    pub(crate) fn record_stream(&mut self, at: u64, stream: StreamId) {
        let (s, place) = self.find(at);
        if stream != self.spans[s].stream {
            let piece = &mut self.spans[s].pieces[place];
            piece.uses.insert(stream);
            if !self.routes.is_empty() {
                piece.uses_while_routing.insert(stream);
            }
        }
    }

    fn mark_uses(&mut self, at: u64) {
        let uses = std::mem::take(&mut self.piece(at).uses);
        self.piece(at).n_marks = uses.len();
        for stream in uses {
            self.waiting.push((stream, self.device.mark(stream).unwrap(), at));
        }
    }

    fn take_up_deferred(&mut self) {
        for at in std::mem::take(&mut self.deferred) {
            let captured = std::mem::take(&mut self.piece(at).uses_while_routing);
            self.piece(at).uses.retain(|stream| !captured.contains(stream));
            match self.piece(at).uses.is_empty() {
                true => self.complete(at),
                false => self.mark_uses(at),
            }
        }
    }

    fn complete_passed(&mut self) {
        self.take_up_deferred();
        let is_passed = |(_, mark, _): &(_, Mark, _)| self.device.is_passed(*mark).unwrap();
        let (passed, left) = std::mem::take(&mut self.waiting).into_iter().partition(is_passed);
        self.waiting = left;
        self.pass(passed);
    }

    /// Waits for the marks of one pool's blocks, or of all.
    fn synchronize(&mut self, only: Option<PoolId>) {
        self.n_syncs += 1;
        if self.routes.is_empty() {
            self.take_up_deferred();
        }
        let is_of = |at: u64| only.is_none_or(|pool| self.spans[self.find(at).0].home.pool == pool);
        let (ours, others): (Vec<_>, _) = self.waiting.iter().copied().partition(|(.., at)| is_of(*at));
        self.waiting = others;
        ours.iter().for_each(|(_, mark, _)| self.device.wait(*mark).unwrap());
        self.pass(ours);
    }

    fn pass(&mut self, marks: Vec<(StreamId, Mark, u64)>) {
        for (.., at) in marks {
            self.piece(at).n_marks -= 1;
            if self.piece(at).n_marks == 0 {
                self.complete(at);
            }
        }
    }

    fn complete(&mut self, at: u64) {
        let now = self.n_searches;
        let (s, place) = self.find(at);
        let (stream, home) = (self.spans[s].stream, self.spans[s].home);
        let Piece { bytes, requested, .. } = self.spans[s].pieces[place];
        self.tell("free_completed", at, requested, stream, home);
        self.spans[s].pieces[place] = Piece::new(bytes, State::Free(now));
        self.spans[s].merge(now);
    }

    // Giving back (2.6, 3.3, 5, 6.4).

    fn release(&mut self, at: u64) {
        let place = self.spans.iter().position(|span| span.start == at).unwrap();
        let span = self.spans.remove(place);
        assert!(span.page.is_none() && span.pieces.len() == 1 && span.pieces[0].is_free());
        self.n_device_frees += 1;
        self.oversize_segments -= i64::from(self.is_oversize(span.bytes()));
        self.count(span.home.pool, -1);
        self.tell("segment_free", at, span.bytes(), span.stream, span.home);
        // SAFETY: the device gave this segment, and its addresses are never followed.
        unsafe { self.device.segment_free(Address(at), span.bytes()) };
    }

    fn is_whole(&self, s: usize) -> bool {
        self.spans[s].page.is_none() && self.spans[s].pieces.len() == 1
    }

    fn collect_garbage(&mut self) {
        let Some(limit) = self.limit.filter(|_| self.ages_count()) else { return };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let goal = (self.settings.garbage_collection_threshold * limit as f64).floor() as u64;
        let before = self.reserved();
        while before > goal && before - self.reserved() < before - goal {
            let mut whole = self.free_pieces(Home { pool: DEFAULT, is_small: false });
            whole.retain(|(.., s, _)| self.is_whole(*s));
            let age = |s: usize| match self.spans[s].pieces[0].state {
                State::Free(since) => self.n_searches - since,
                _ => unreachable!("only free pieces are listed"),
            };
            let sum: u64 = whole.iter().map(|(.., s, _)| age(*s)).sum();
            // At least the mean, without dividing.
            let is_old = |s: usize| age(s) * whole.len() as u64 >= sum;
            let old: Vec<u64> = whole.iter().filter(|(.., s, _)| is_old(*s)).map(|w| w.2).collect();
            if old.is_empty() {
                return;
            }
            old.into_iter().for_each(|at| self.release(at));
        }
    }

    fn release_available(&mut self, request: &Request) -> bool {
        let Some(max) = self.settings.max_split_bytes else { return false };
        let key = max.max(request.rounded);
        let mut free = self.free_pieces(request.home);
        free.retain(|(stream, bytes, ..)| *stream == request.stream && *bytes >= max);
        let first = free.iter().find(|(_, bytes, ..)| *bytes >= key);
        if let Some((_, _, at, s, _)) = first
            && self.is_whole(*s)
        {
            self.release(*at);
            return true;
        }
        let below: Vec<(u64, u64, bool)> = free
            .iter()
            .rev()
            .filter(|(_, bytes, ..)| *bytes < key)
            .map(|(_, bytes, at, s, _)| (*bytes, *at, self.is_whole(*s)))
            .collect();
        let mut released = 0;
        for (bytes, at, is_whole) in below {
            if released < key && is_whole {
                self.release(at);
                released += bytes;
            }
        }
        released >= key
    }

    pub(crate) fn empty_cache(&mut self, only: PoolId) {
        if only == DEFAULT && self.routes.is_empty() {
            self.synchronize(None);
            self.release_home(Home { pool: DEFAULT, is_small: false });
            self.release_home(Home { pool: DEFAULT, is_small: true });
        }
        let freeable: Vec<PoolId> =
            self.private.iter().filter(|(_, pool)| pool.n_users == 0).map(|(id, _)| *id).collect();
        for pool in freeable.into_iter().filter(|pool| only == DEFAULT || only == *pool) {
            if only != DEFAULT {
                self.synchronize(Some(pool));
            }
            self.release_home(Home { pool, is_small: true });
            self.release_home(Home { pool, is_small: false });
            self.erase_if_spent(pool);
        }
    }

    fn release_home(&mut self, home: Home) {
        let free = self.free_pieces(home);
        let is_paged = |s: usize| self.spans[s].page.is_some();
        let pages: Vec<u64> = free.iter().filter(|f| is_paged(f.3)).map(|f| f.2).collect();
        let whole: Vec<u64> = free.iter().filter(|f| self.is_whole(f.3)).map(|f| f.2).collect();
        whole.into_iter().for_each(|at| self.release(at));
        pages.into_iter().for_each(|at| self.unmap(at));
    }

    fn unmap(&mut self, at: u64) {
        let (s, place) = self.find(at);
        let now = self.n_searches;
        let span = &mut self.spans[s];
        let (page, base) = (span.page.unwrap(), span.start);
        let start = base + (at - base).div_ceil(page) * page;
        let end = base + (at + span.pieces[place].bytes - base) / page * page;
        if start >= end {
            return;
        }
        let (stream, home) = (span.stream, span.home);
        let mut place = place;
        if start > at {
            span.cut(place, start - at);
            place += 1;
        }
        span.cut(place, end - start);
        span.pieces[place].state = State::Unmapped;
        span.merge(now);
        self.n_device_frees += 1;
        self.count(home.pool, -1);
        self.tell("segment_unmap", start, end - start, stream, home);
        // SAFETY: mapped pages of a range of this device, whose addresses are never followed.
        unsafe { self.device.range_unmap(Address(start), end - start) };
        if self.spans[s].pieces.len() == 1 {
            self.unreserve(s);
        }
    }

    fn unreserve(&mut self, s: usize) {
        let span = self.spans.remove(s);
        // SAFETY: the range is the device's, and none of its pages has memory.
        unsafe { self.device.range_release(Address(span.start), span.bytes()) };
    }

    // Private pools (2.5).

    fn count(&mut self, pool: PoolId, by: i64) {
        if let Some(pool) = self.private.get_mut(&pool) {
            pool.n_device_allocs += by;
        }
    }

    /// A pool goes when its count is zero and it has no memory left (the
    /// count alone can be zero too early: one growth may be unmapped in two
    /// parts), unless requests are still routed to it.
    fn erase_if_spent(&mut self, pool: PoolId) {
        let has_memory = |span: &Span| span.home.pool == pool && span.pieces.iter().any(Piece::is_mapped);
        let is_begun = self.routes.iter().any(|(begun, _)| *begun == pool);
        if !is_begun && self.private[&pool].n_device_allocs == 0 && !self.spans.iter().any(has_memory) {
            while let Some(s) = self.spans.iter().position(|span| span.home.pool == pool) {
                self.unreserve(s);
            }
            self.private.remove(&pool);
        }
    }

    pub(crate) fn create_pool(&mut self, is_capture: bool, options: PoolOptions) -> PoolId {
        let n = &mut self.n_pools[usize::from(is_capture)];
        *n += 1;
        let id = if is_capture { PoolId::of_graph(*n) } else { PoolId::of_user(*n) };
        self.private.insert(id, Private { options, n_users: 1, n_device_allocs: 0 });
        id
    }

    pub(crate) fn begin(&mut self, id: PoolId, only: Option<u64>) -> Result<(), Refused> {
        let is_begun = self.routes.iter().any(|(begun, _)| *begun == id);
        let pool = self.private.get_mut(&id).filter(|_| !is_begun).ok_or(Refused)?;
        pool.n_users += 1;
        self.routes.push((id, only));
        Ok(())
    }

    pub(crate) fn end(&mut self, id: PoolId) -> Result<(), Refused> {
        let place = self.routes.iter().position(|(begun, _)| *begun == id).ok_or(Refused)?;
        self.routes.remove(place);
        Ok(())
    }

    pub(crate) fn release_pool(&mut self, id: PoolId) -> Result<(), Refused> {
        let pool = self.private.get_mut(&id).filter(|pool| pool.n_users > 0).ok_or(Refused)?;
        pool.n_users -= 1;
        Ok(())
    }
}
