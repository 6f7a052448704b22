//! The blocks that a reader selected: by stream, pool, owner, scope, size, action, or a text.

#![forbid(unsafe_code)]

use memreel_snapshot::{Address, StreamId, history::Life, model::StackIndex};

use super::{
    action_filter::ActionFilter,
    device::Device,
    groups::{Colour, Groups},
    refusal::Refusal,
    request::Request,
};

/// The parameters of a request that choose blocks.
pub(super) const FILTERS: [&str; 8] =
    ["stream", "pool", "owner", "scope", "least_bytes", "most_bytes", "action", "search"];

/// The requested blocks of a device. All conditions must hold.
pub(super) struct Choice<'d> {
    stream: Option<StreamId>,
    named: Vec<(&'d Groups, String)>,
    least_bytes: u64,
    most_bytes: u64,
    action: Option<ActionFilter>,
    search: Option<Search>,
}

impl<'d> Choice<'d> {
    /// Reads the filters of a request; the search is one of them only if it `filters`.
    pub(super) fn of(
        request: &Request,
        device: &'d Device<'_>,
        filters: bool,
    ) -> Result<Choice<'d>, Refusal> {
        let named = [("pool", Colour::Pool), ("owner", Colour::Owner), ("scope", Colour::Scope)];
        let group =
            |(name, colour): (&str, Colour)| Some((device.groups(colour), request.text(name)?.to_owned()));
        Ok(Choice {
            stream: request.number("stream")?.map(StreamId),
            named: named.into_iter().filter_map(group).collect(),
            least_bytes: request.number("least_bytes")?.unwrap_or(0),
            most_bytes: request.number("most_bytes")?.unwrap_or(u64::MAX),
            action: request.text("action").map(ActionFilter::parse).transpose()?,
            search: filters.then(|| Search::of(request, device)).flatten(),
        })
    }

    /// Whether every block is chosen.
    pub(super) fn is_all(&self) -> bool {
        self.stream.is_none()
            && self.named.is_empty()
            && self.least_bytes == 0
            && self.most_bytes == u64::MAX
            && self.action.is_none()
            && self.search.is_none()
    }

    pub(super) fn holds(&self, life: &Life, number: u32) -> bool {
        self.stream.is_none_or(|stream| stream == life.stream)
            && (self.least_bytes..=self.most_bytes).contains(&life.bytes)
            && self.named.iter().all(|(groups, name)| is_in(groups.name(life, number), name))
            && self.action.as_ref().is_none_or(|action| action.holds(life))
            && self.search.as_ref().is_none_or(|search| search.finds(life, number))
    }
}

/// Whether a name is another one, or a scope inside it.
fn is_in(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A text that is looked for in the frames of a block's stack, in its names and in its address.
pub(super) struct Search {
    text: String,
    /// By stack, whether one of its frames has the text.
    stacks: Vec<bool>,
    /// The numbers of the lives whose names have it, rising.
    named: Vec<u32>,
    /// The address that the whole text is, if it is one.
    address: Option<Address>,
}

/// Whether a block has the byte at an address.
fn covers(life: &Life, address: Address) -> bool {
    life.address <= address && address < life.address.saturating_add(life.bytes)
}

impl Search {
    pub(super) fn of(request: &Request, device: &Device<'_>) -> Option<Search> {
        request.text("search").map(|text| Search::new(text, device))
    }

    fn new(text: &str, device: &Device<'_>) -> Search {
        let text = text.to_lowercase();
        let has = |part: &str| part.to_lowercase().contains(&text);
        let stacks = &device.history.snapshot().stacks;
        let frames: Vec<bool> =
            stacks.all_frames().map(|frame| has(&frame.name) || has(&frame.filename)).collect();
        let of_stack = |members: &[_]| {
            members.iter().any(|frame: &memreel_snapshot::model::FrameIndex| frames[frame.index()])
        };
        let stacks = stacks.all_stacks().map(of_stack).collect();
        let named = device.named().iter().filter(|(_, names)| names.iter().any(|name| has(name)));
        let address =
            text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Address);
        Search { stacks, named: named.map(|(number, _)| *number).collect(), text, address }
    }

    pub(super) fn finds(&self, life: &Life, number: u32) -> bool {
        life.stack.map(StackIndex::index).is_some_and(|stack| self.stacks[stack])
            || self.named.binary_search(&number).is_ok()
            || self.text.starts_with("0x") && life.address.to_string().starts_with(&self.text)
            || self.address.is_some_and(|address| covers(life, address))
    }
}
