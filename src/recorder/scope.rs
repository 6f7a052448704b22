//! Named stretches of a thread's work.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    sync::Arc,
};

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::{Shared, clock::Ticks, lock};
use crate::{event::DeviceId, sync::thread_local};

/// The number of a scope's path; 0 is outside any.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ScopeId(pub(crate) u32);

/// The beginning or the end of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Annotation {
    pub(crate) is_start: bool,
    pub(crate) scope: ScopeId,
    pub(crate) device: DeviceId,
    pub(crate) at: Ticks,
}

thread_local! {
    /// The open scopes of this thread, of all recorders.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// The innermost of them: what an event asks for, and most threads have one recorder.
    static INNERMOST: Cell<Open> = const { Cell::new(Open { recorder: 0, scope: ScopeId(0) }) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    /// 0 is none's.
    recorder: u64,
    scope: ScopeId,
}

/// The innermost open scope of a recorder on this thread.
#[inline]
pub(super) fn current(recorder: u64) -> ScopeId {
    match INNERMOST.try_with(Cell::get) {
        Ok(open) if open.recorder == recorder || open.recorder == 0 => open.scope,
        _ => current_of_several(recorder),
    }
}

/// The innermost scope is another recorder's.
#[cold]
fn current_of_several(recorder: u64) -> ScopeId {
    let innermost = |open: &RefCell<Vec<Open>>| {
        open.try_borrow().ok()?.iter().rev().find(|open| open.recorder == recorder).map(|open| open.scope)
    };
    OPEN.try_with(innermost).ok().flatten().unwrap_or_default()
}

/// Changes the open scopes of this thread.
fn change(change: impl FnOnce(&mut Vec<Open>)) {
    let _ = OPEN.try_with(|all| {
        let mut all = all.borrow_mut();
        change(&mut all);
        let none = Open { recorder: 0, scope: ScopeId::default() };
        let _ = INNERMOST.try_with(|innermost| innermost.set(all.last().copied().unwrap_or(none)));
    });
}

/// Every path of scopes seen, by number.
#[derive(Debug)]
pub(super) struct ScopeNames(IndexSet<Arc<str>, FxBuildHasher>);

impl Default for ScopeNames {
    fn default() -> Self {
        ScopeNames(std::iter::once("".into()).collect())
    }
}

impl ScopeNames {
    /// The number of a name inside a parent.
    fn intern(&mut self, parent: ScopeId, name: &str) -> ScopeId {
        let path: Arc<str> = match self.0.get_index(parent.0 as usize) {
            Some(parent) if !parent.is_empty() => format!("{parent}/{name}").into(),
            _ => name.into(),
        };
        let (index, _) = self.0.insert_full(path);
        ScopeId(u32::try_from(index).unwrap_or_default())
    }

    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.0.iter().cloned().collect()
    }
}

/// An open scope; dropping it ends the scope.
///
/// It belongs to its thread. Scopes may end in any order.
pub struct Scope {
    shared: Arc<Shared>,
    open: Open,
    device: DeviceId,
    /// A scope sent elsewhere would end on a thread that never opened it.
    not_send: PhantomData<*const ()>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("scope", &self.open.scope).finish_non_exhaustive()
    }
}

impl Scope {
    pub(super) fn open(shared: Arc<Shared>, name: &str, device: DeviceId) -> Scope {
        let parent = current(shared.number);
        let scope = lock(&shared.scopes).intern(parent, name);
        let open = Open { recorder: shared.number, scope };
        change(|all| all.push(open));
        let scope = Scope { shared, open, device, not_send: PhantomData };
        scope.annotate(true);
        scope
    }

    fn annotate(&self, is_start: bool) {
        if self.shared.mode().is_off() {
            return;
        }
        let mut annotations = lock(&self.shared.annotations);
        // Asked again under the lock, as a track does: nothing slips in behind the erasing.
        if self.shared.mode().is_off() {
            return;
        }
        let at = self.shared.clock.now();
        annotations.push(Annotation { is_start, scope: self.open.scope, device: self.device, at });
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.annotate(false);
        change(|all| {
            if let Some(place) = all.iter().rposition(|open| *open == self.open) {
                all.remove(place);
            }
        });
    }
}
