//! Names that the tapes of one run share: each address of a library is looked up once, whichever process it is from.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustc_hash::FxHashMap;

use super::{
    super::modules::Module,
    image::Probe,
    missing,
    target::{self, Named, Target},
};

/// The names of a run, for all its threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedNames(Arc<Mutex<Known>>);

/// What is known, by the module's file and build.
#[derive(Debug, Default)]
struct Known(FxHashMap<(PathBuf, u64), OfModule>);

#[derive(Debug, Default)]
struct OfModule {
    named: FxHashMap<Probe, Named>,
    /// Why names cannot be read from the file, once that was checked.
    missing: Option<Option<&'static str>>,
}

impl SharedNames {
    /// Names sorted targets, in order.
    pub(super) fn name_all(&self, targets: &[Target]) -> Vec<Named> {
        let mut named: Vec<Option<Named>> = self.lock().known(targets);
        let is_unknown = |(_, named): &(&Target, &Option<Named>)| named.is_none();
        let unknown: Vec<Target> =
            targets.iter().zip(&named).filter(is_unknown).map(|(target, _)| target.clone()).collect();
        let mut new = target::name_all(&unknown).into_iter();
        let mut known = self.lock();
        for (target, named) in targets.iter().zip(&mut named).filter(|(_, named)| named.is_none()) {
            *named = new.next();
            if let (Some((module, probe)), Some(named)) = (in_file(target), &*named) {
                known.of_mut(module).named.insert(probe, named.clone());
            }
        }
        named.into_iter().flatten().collect()
    }

    /// Returns why names cannot be read from a module's file: it is gone, or another build.
    pub(super) fn missing(&self, module: &Module) -> Option<&'static str> {
        let known = self.lock().of_mut(module).missing;
        known.unwrap_or_else(|| {
            let why = missing::why(module);
            self.lock().of_mut(module).missing = Some(why);
            why
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns the names of targets; `None` for those that must be looked up.
    fn known(&self, targets: &[Target]) -> Vec<Option<Named>> {
        let mut named = Vec::with_capacity(targets.len());
        for targets in targets.chunk_by(Target::is_of_same_module) {
            let of_module = targets[0].module().and_then(|module| self.0.get(&key(module)));
            let known = |target| of_module?.named.get(&in_file(target)?.1).cloned();
            named.extend(targets.iter().map(known));
        }
        named
    }

    fn of_mut(&mut self, module: &Module) -> &mut OfModule {
        self.0.entry(key(module)).or_default()
    }
}

fn key(module: &Module) -> (PathBuf, u64) {
    (module.path.clone(), module.fingerprint.bits())
}

/// Returns the position of a target in its file. Code in no file may be other code in another process.
fn in_file(target: &Target) -> Option<(&Module, Probe)> {
    let module = target.module().filter(|module| Path::has_root(&module.path))?;
    Some((module, target.probe(module)))
}
