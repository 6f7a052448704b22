//! The files of a package and which of them import from which.
//!
//! An import is followed through names that `use` brings in, through child modules and through re-exports to the file
//! that defines the item. What a file declares (`mod x;`) or only passes on (`pub use x::Item`) is not an import.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    slice::from_ref,
};

use syn::Item;

use super::module::{Module, Segments};

/// Which files or rooms import from which.
pub(crate) type Imports<'a, T> = BTreeMap<&'a T, BTreeSet<&'a T>>;

/// The files of one package by their modules, each a path below the crate's root: `["stack", "unwind"]`.
pub(crate) struct Tree {
    modules: BTreeMap<Segments, (PathBuf, Module)>,
}

impl Tree {
    /// Reads the package whose root file (`lib.rs` or `main.rs`) is given.
    pub(crate) fn read(root: &Path) -> Tree {
        let mut tree = Tree { modules: BTreeMap::new() };
        tree.read_file(Vec::new(), root, root.parent().expect("a folder"));
        tree
    }

    /// Reads a module's file and those of its children, which are in `folder`.
    fn read_file(&mut self, at: Segments, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_module(at, &parsed.items, file, folder);
    }

    fn read_module(&mut self, at: Segments, items: &[Item], file: &Path, folder: &Path) {
        let module = Module::read(items);
        for child in &module.children {
            let (at, below) = ([&at[..], from_ref(&child.name)].concat(), folder.join(&child.name));
            if let Some(items) = &child.content {
                self.read_module(at, items, file, &below);
            } else if let Some(path) = &child.path {
                let path = file.with_file_name(path);
                self.read_file(at, &path, path.parent().expect("a folder"));
            } else {
                let beside = below.with_extension("rs");
                let path = if beside.exists() { beside } else { below.join("mod.rs") };
                self.read_file(at, &path, &below);
            }
        }
        self.modules.insert(at, (file.to_owned(), module));
    }

    /// For every file, the files that it imports from.
    pub(crate) fn imports(&self) -> Imports<'_, Path> {
        self.between(|_, (file, _)| Some(file.as_path()), false)
    }

    /// For every module, those that it imports from or whose items it passes on.
    pub(crate) fn arrows(&self) -> Imports<'_, [String]> {
        self.between(|at, _| Some(at.as_slice()), true)
    }

    /// The modules that have others in files below them, the root first.
    pub(crate) fn parents(&self) -> BTreeSet<&[String]> {
        let in_own_file = |at: &&Segments| {
            self.modules.get(&at[..at.len() - 1]).is_some_and(|parent| parent.0 != self.modules[*at].0)
        };
        self.modules
            .keys()
            .filter(|at| !at.is_empty())
            .filter(in_own_file)
            .map(|at| &at[..at.len() - 1])
            .collect()
    }

    /// For every room, which is a module below a parent, the rooms beside it from which it imports, or whose items it passes on,
    /// itself or in what is below it.
    pub(crate) fn children(&self, parent: &[String]) -> Imports<'_, str> {
        self.between(|at, _| at.strip_prefix(parent)?.first().map(String::as_str), true)
    }

    /// The imports between the places of modules; those within a place are left out.
    fn between<'a, T: Ord + ?Sized>(
        &'a self,
        place: impl Fn(&'a Segments, &'a (PathBuf, Module)) -> Option<&'a T>,
        has_exports: bool,
    ) -> Imports<'a, T> {
        let mut imports = Imports::new();
        for (at, source) in &self.modules {
            let Some(from) = place(at, source) else { continue };
            let targets = imports.entry(from).or_default();
            let exports = source.1.passed_on.iter().filter(|_| has_exports);
            for path in source.1.needs.iter().chain(exports) {
                let definers = self.definers(at, path, 0).into_iter();
                targets
                    .extend(definers.filter_map(|at| place(at, &self.modules[at])).filter(|to| *to != from));
            }
        }
        imports
    }

    /// The modules that define what a path means in a module; none outside the package.
    fn definers(&self, at: &[String], path: &[String], depth: usize) -> BTreeSet<&Segments> {
        match path[0].as_str() {
            "crate" => self.below(&[], &path[1..], depth),
            "self" => self.below(at, &path[1..], depth),
            "super" => {
                let n_up = path.iter().take_while(|segment| *segment == "super").count();
                self.below(&at[..at.len().saturating_sub(n_up)], &path[n_up..], depth)
            }
            _ => self.named(at, path, depth),
        }
    }

    /// The modules that define what a path below a module means: the module itself if it only names an item of it.
    fn below(&self, at: &[String], path: &[String], depth: usize) -> BTreeSet<&Segments> {
        let found = if path.is_empty() { BTreeSet::new() } else { self.named(at, path, depth) };
        let itself = || self.modules.get_key_value(at).map(|(at, _)| at).into_iter().collect();
        if found.is_empty() { itself() } else { found }
    }

    /// The modules that define what a path means that begins with a name of a module; none if it has no such name.
    fn named(&self, at: &[String], path: &[String], depth: usize) -> BTreeSet<&Segments> {
        const DEEPEST: usize = 16;
        let Some((at, (_, module))) = self.modules.get_key_value(at).filter(|_| depth < DEEPEST) else {
            return BTreeSet::new();
        };
        let (name, rest) = path.split_first().expect("a name");
        let child = [&at[..], from_ref(name)].concat();
        if self.modules.contains_key(&child) {
            return self.below(&child, rest, depth);
        }
        if module.items.contains(name) {
            return BTreeSet::from([at]);
        }
        let aliases = module.aliases.iter().filter(|(alias, _)| alias == name);
        let from_alias =
            aliases.flat_map(|(_, path)| self.definers(at, &[&path[..], rest].concat(), depth + 1));
        let from_glob = module.globs.iter().flat_map(|glob| {
            let globs = self.definers(at, glob, depth + 1).into_iter();
            globs.flat_map(|glob| self.named(glob, path, depth + 1)).collect::<Vec<_>>()
        });
        from_alias.chain(from_glob).collect()
    }
}
