//! Scopes: named parts of a thread's work, which events carry as `user_metadata`.
#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    sync::Arc,
};

use super::{
    scope_names::{Annotation, ScopeId},
    shared::Shared,
};
use crate::process::{
    guard::Guard,
    until_end::{self, UntilEnd},
};
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::DeviceId;

thread_local! {
    /// The open scopes of this thread, of all recorders.
    static OPEN: UntilEnd<RefCell<Vec<Open>>> = const { UntilEnd::new(RefCell::new(Vec::new())) };
}

thread_local! {
    /// The innermost open scope. An event needs only this one, because most threads use one recorder.
    static INNERMOST: Cell<Open> = const { Cell::new(Open { recorder: 0, scope: ScopeId(0) }) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    /// [`Shared::number`]; 0 if no scope is open.
    recorder: u64,
    scope: ScopeId,
}

/// Returns the innermost open scope of a recorder on this thread.
#[inline]
pub(super) fn current(recorder: u64) -> ScopeId {
    match INNERMOST.try_with(Cell::get) {
        Ok(open) if open.recorder == recorder || open.recorder == 0 => open.scope,
        _ => current_of_several(recorder),
    }
}

/// Finds the innermost scope of a recorder when the thread's innermost scope is another recorder's.
#[cold]
fn current_of_several(recorder: u64) -> ScopeId {
    let innermost = |open: &RefCell<Vec<Open>>| {
        open.try_borrow().ok()?.iter().rev().find(|open| open.recorder == recorder).map(|open| open.scope)
    };
    until_end::with(&OPEN, innermost).flatten().unwrap_or_default()
}

/// Changes the list of this thread's open scopes and updates the innermost one. A signal handler that interrupts
/// a change changes nothing.
fn change(change: impl FnOnce(&mut Vec<Open>)) {
    let _ = until_end::with(&OPEN, |all| {
        let Ok(mut all) = all.try_borrow_mut() else { return };
        change(&mut all);
        let none = Open { recorder: 0, scope: ScopeId::default() };
        let _ = INNERMOST.try_with(|innermost| innermost.set(all.last().copied().unwrap_or(none)));
    });
}

/// An open scope, from [`Recorder::scope`](super::Recorder::scope); dropping it ends the scope.
///
/// A scope belongs to the thread that opened it. Scopes may end in any order.
pub struct Scope {
    shared: Arc<Shared>,
    open: Open,
    device: DeviceId,
    /// Not `Send`: the list of open scopes is a thread-local of the opening thread.
    not_send: PhantomData<*const ()>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("scope", &self.open.scope).finish_non_exhaustive()
    }
}

impl Scope {
    pub(super) fn open(shared: Arc<Shared>, name: &str, device: DeviceId) -> Scope {
        // Inside the process's allocator, the memory of the name must not be recorded here, under the lock.
        let _guard = Guard::enter();
        let parent = current(shared.number);
        let scope = lock(&shared.scopes).intern(parent, name);
        let open = Open { recorder: shared.number, scope };
        change(|all| all.push(open));
        let scope = Scope { shared, open, device, not_send: PhantomData };
        scope.annotate(true);
        scope
    }

    /// Records the start or the end of the scope, unless recording is off.
    fn annotate(&self, is_start: bool) {
        if self.shared.mode().is_off() {
            return;
        }
        let _guard = Guard::enter();
        let file = self.shared.tape_file();
        self.shared.switch.unless_off(&self.shared.annotations, |annotations| {
            let at = self.shared.clock.now();
            let annotation = Annotation { is_start, scope: self.open.scope, device: self.device, at };
            annotations.push(annotation);
            if let Some(file) = file {
                file.annotate(&annotation.to_note());
            }
        });
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
