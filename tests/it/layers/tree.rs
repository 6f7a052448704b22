//! The files of a package and which of them import from which, read with `syn`.
//!
//! An import is followed through re-exports to the file that defines the item. What a file declares
//! (`mod x;`) or only passes on (`pub use x::Item`) is not an import. Unit tests are not looked at.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Item, UseTree, Visibility,
    visit::{self, Visit},
};

/// A module's path below the crate's root: `["stack", "unwind"]`.
type ModulePath = Vec<String>;

/// One source file.
struct Source {
    path: PathBuf,
    /// Names that `use` brings into the module, with their paths from the crate's root.
    aliases: BTreeMap<String, ModulePath>,
    /// Paths from the crate's root that the file itself needs.
    needs: BTreeSet<ModulePath>,
    /// Paths that it only passes on.
    passed_on: BTreeSet<ModulePath>,
}

/// The files of one package by their modules.
pub(crate) struct Tree {
    sources: BTreeMap<ModulePath, Source>,
}

impl Tree {
    /// Reads the package whose root file (`lib.rs` or `main.rs`) is given.
    pub(crate) fn read(root: &Path) -> Tree {
        let mut sources = BTreeMap::new();
        let folder = root.parent().expect("a folder").to_owned();
        let mut open = vec![(Vec::new(), root.to_owned())];
        while let Some((module, path)) = open.pop() {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for child in children(&file.items) {
                let below: PathBuf = folder.join(module.iter().collect::<PathBuf>());
                let candidates = [below.join(format!("{child}.rs")), below.join(&child).join("mod.rs")];
                if let Some(found) = candidates.into_iter().find(|path| path.exists()) {
                    open.push(([&module[..], &[child]].concat(), found));
                }
            }
            sources.insert(module.clone(), source(path, &module, &file));
        }
        Tree { sources }
    }

    /// How many files there are.
    pub(crate) fn n_files(&self) -> usize {
        self.sources.len()
    }

    /// For every file, the files that it imports from.
    pub(crate) fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        self.targets(|source| source.needs.iter().collect())
    }

    /// For every file, the files that it imports from, and those whose items it passes on.
    pub(crate) fn imports_and_exports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        self.targets(|source| source.needs.union(&source.passed_on).collect())
    }

    fn targets(&self, paths: impl Fn(&Source) -> Vec<&ModulePath>) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let targets_of = |(module, source): (&ModulePath, &Source)| {
            let targets = paths(source).into_iter().filter_map(|path| self.definer(path, 0));
            targets
                .filter(|target| *target != module)
                .map(|target| self.sources[target].path.as_path())
                .collect()
        };
        self.sources.iter().map(|entry| (entry.1.path.as_path(), targets_of(entry))).collect()
    }

    /// The module that defines the item of a path; `None` outside the package.
    fn definer(&self, path: &[String], depth: usize) -> Option<&ModulePath> {
        const DEEPEST: usize = 16;
        let n_module = (0..=path.len()).rev().find(|n| self.sources.contains_key(&path[..*n]))?;
        let (module, source) = self.sources.get_key_value(&path[..n_module])?;
        let Some(name) = path.get(n_module).filter(|_| depth < DEEPEST) else { return Some(module) };
        if let Some(alias) = source.aliases.get(name) {
            let rest = &path[n_module + 1..];
            return self.definer(&[&alias[..], rest].concat(), depth + 1);
        }
        Some(module)
    }
}

/// The modules that a file declares, those of unit tests left out.
fn children(items: &[Item]) -> Vec<String> {
    let declared = items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && !is_test(&module.attrs) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    declared.collect()
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

fn source(path: PathBuf, module: &[String], file: &syn::File) -> Source {
    let mut reader = Reader {
        module,
        imported: Vec::new(),
        globs: Vec::new(),
        needs: BTreeSet::new(),
        names: BTreeSet::new(),
    };
    reader.visit_file(file);
    let is_needed = |import: &&Imported| !import.is_passed_on || reader.names.contains(&import.name);
    let mut needs = reader.needs;
    needs.extend(reader.imported.iter().filter(is_needed).map(|import| import.path.clone()));
    needs.extend(reader.globs.iter().cloned());
    let passed_on = reader.imported.iter().map(|import| import.path.clone()).collect();
    let aliases = reader.imported.into_iter().map(|import| (import.name, import.path)).collect();
    Source { path, aliases, needs, passed_on }
}

/// One name that a `use` brings in.
struct Imported {
    name: String,
    path: ModulePath,
    is_passed_on: bool,
}

struct Reader<'a> {
    module: &'a [String],
    imported: Vec<Imported>,
    globs: Vec<ModulePath>,
    needs: BTreeSet<ModulePath>,
    /// Every name in the file's own code.
    names: BTreeSet<String>,
}

impl Reader<'_> {
    /// The path from the crate's root; `None` for another crate's.
    fn absolute(&self, segments: &[String]) -> Option<ModulePath> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([self.module, rest].concat()),
            "super" => {
                let n_up = segments.iter().take_while(|segment| *segment == "super").count();
                let above = &self.module[..self.module.len().checked_sub(n_up)?];
                Some([above, &segments[n_up..]].concat())
            }
            _ => None,
        }
    }

    fn import(&mut self, before: &mut ModulePath, tree: &UseTree, is_passed_on: bool, declared: &[String]) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(before, &path.tree, is_passed_on, declared);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(before, tree, is_passed_on, declared));
            }
            UseTree::Name(name) => {
                self.name(before, &name.ident.to_string(), &name.ident.to_string(), is_passed_on, declared)
            }
            UseTree::Rename(name) => {
                self.name(before, &name.ident.to_string(), &name.rename.to_string(), is_passed_on, declared);
            }
            UseTree::Glob(_) => {
                if let Some(path) = self.below(before, declared) {
                    self.globs.push(path);
                }
            }
        }
    }

    fn name(&mut self, before: &[String], item: &str, name: &str, is_passed_on: bool, declared: &[String]) {
        let (mut segments, mut name) = (before.to_vec(), name.to_owned());
        if item == "self" {
            name = segments.last().cloned().unwrap_or(name);
        } else {
            segments.push(item.to_owned());
        }
        if let Some(path) = self.below(&segments, declared) {
            self.imported.push(Imported { name, path, is_passed_on });
        }
    }

    /// [`Reader::absolute`], also for a path that begins with a module declared in this file.
    fn below(&self, segments: &[String], declared: &[String]) -> Option<ModulePath> {
        let is_declared = segments.first().is_some_and(|first| declared.contains(first));
        if is_declared { Some([self.module, segments].concat()) } else { self.absolute(segments) }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_file(&mut self, file: &'ast syn::File) {
        let declared = children(&file.items);
        for item in &file.items {
            if let Item::Use(import) = item {
                let is_passed_on = !matches!(import.vis, Visibility::Inherited);
                self.import(&mut Vec::new(), &import.tree, is_passed_on, &declared);
            }
        }
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(path) = self.absolute(&segments).filter(|_| segments.len() > 1) {
            self.needs.insert(path);
        }
        self.names.extend(segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.names.extend(words(&call.tokens.to_string()));
        visit::visit_macro(self, call);
    }
}

/// The words of a macro's arguments.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
