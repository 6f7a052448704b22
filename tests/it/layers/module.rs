//! What the text of one module names: its imports, its own items and the paths of its code, read with `syn`.
//!
//! Paths are read in macros and attributes too, where they are only words. Unit tests are not looked at.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::{
    Attribute, ImplItem, Item, UseTree, Visibility,
    visit::{self, Visit},
};

/// A path as it is written: `["super", "unwind", "walk"]`.
pub(super) type Segments = Vec<String>;

/// One module, of a file or inside one.
#[derive(Default)]
pub(super) struct Module {
    /// Names that `use` brings in, with the paths behind them.
    pub(super) aliases: Vec<(String, Segments)>,
    /// The modules whose names are all brought in.
    pub(super) globs: Vec<Segments>,
    /// The names of the items that are defined here.
    pub(super) items: BTreeSet<String>,
    /// Paths that the module's own code needs.
    pub(super) needs: BTreeSet<Segments>,
    /// Paths that the module only makes public under its own name.
    pub(super) passed_on: BTreeSet<Segments>,
    /// The modules that are declared here.
    pub(super) children: Vec<Child>,
}

/// The declaration of a module.
pub(super) struct Child {
    pub(super) name: String,
    /// Its text, if that is in the same file.
    pub(super) content: Option<Vec<Item>>,
    /// The file that `#[path]` names.
    pub(super) path: Option<String>,
}

impl Module {
    /// Reads the items of a module, without those of the modules declared in it.
    pub(super) fn read(items: &[Item]) -> Module {
        let mut reader = Reader::default();
        items.iter().for_each(|item| reader.visit_item(item));
        let Reader { mut module, passed_on, globs, names, .. } = reader;
        let named = passed_on.into_iter().map(|(name, path)| (names.contains(&name), path));
        let all = globs.into_iter().map(|path| (!names.is_empty(), path));
        for (is_used, path) in named.chain(all) {
            let paths = if is_used { &mut module.needs } else { &mut module.passed_on };
            paths.insert(path);
        }
        module
    }
}

#[derive(Default)]
struct Reader {
    module: Module,
    /// Names that are brought in by `pub use`, which are needed if the code uses them.
    passed_on: Vec<(String, Segments)>,
    /// Modules whose names are all made public; they are needed if there is any code.
    globs: Vec<Segments>,
    /// The first words of every path.
    names: BTreeSet<String>,
    /// Whether the code is that of a macro's definition.
    is_definition: bool,
}

impl Reader {
    fn import(&mut self, before: &[String], tree: &UseTree, is_public: bool) {
        let path = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(inner) => self.import(&path(&inner.ident), &inner.tree, is_public),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree, is_public)),
            UseTree::Name(name) if name.ident == "self" => {
                self.name(before.last().expect("a module").clone(), before.to_vec(), is_public);
            }
            UseTree::Name(name) => self.name(name.ident.to_string(), path(&name.ident), is_public),
            UseTree::Rename(name) if name.ident == "self" => {
                self.name(name.rename.to_string(), before.to_vec(), is_public);
            }
            UseTree::Rename(name) => self.name(name.rename.to_string(), path(&name.ident), is_public),
            UseTree::Glob(_) => {
                self.module.globs.push(before.to_vec());
                if is_public {
                    self.globs.push(before.to_vec());
                } else {
                    self.module.needs.insert(before.to_vec());
                }
            }
        }
    }

    fn name(&mut self, name: String, path: Segments, is_public: bool) {
        if is_public {
            self.passed_on.push((name.clone(), path.clone()));
        } else {
            self.module.needs.insert(path.clone());
        }
        self.module.aliases.push((name, path));
    }

    /// A path of the code. A single word is not a path: it may be a variable. In the definition of a macro, `self` and
    /// `super` are modules of the code that calls it.
    fn path(&mut self, segments: Segments) {
        let is_of_caller = self.is_definition && ["self", "super"].contains(&segments[0].as_str());
        self.names.extend(segments.first().cloned());
        if segments.len() > 1 && !is_of_caller {
            self.module.needs.insert(segments);
        }
    }

    /// The paths among the tokens of a macro or an attribute.
    fn tokens(&mut self, tokens: TokenStream, in_texts: bool) {
        for word in self.text(tokens, in_texts).split_whitespace() {
            self.path(word.split("::").map(str::to_owned).collect());
        }
    }

    /// The words and paths of tokens, with spaces between them. Groups are read at once. The texts of attributes may be
    /// paths (`serialize_with = "a::f"`), those of macros are messages and documentation.
    fn text(&mut self, tokens: TokenStream, in_texts: bool) -> String {
        let mut text = String::new();
        for token in tokens {
            match token {
                TokenTree::Ident(word) if text.ends_with("::") => text.push_str(&word.to_string()),
                TokenTree::Ident(word) => text.push_str(&format!(" {word}")),
                TokenTree::Punct(mark) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint => {
                    text.push_str("::");
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && text.ends_with("::") => {}
                TokenTree::Literal(literal) if in_texts => {
                    text.push_str(&format!(" {} ", literal.to_string().trim_matches('"')));
                }
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), in_texts);
                    text.push(' ');
                }
                _ => text.push(' '),
            }
        }
        text
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = attributes_and_name(item);
        if is_test(attributes) {
            return;
        }
        self.module.items.extend(name);
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let ImplItem::Fn(function) = item else { return visit::visit_impl_item(self, item) };
        if !is_test(&function.attrs) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let content = module.content.as_ref().map(|(_, items)| items.clone());
        self.module.children.push(Child {
            name: module.ident.to_string(),
            content,
            path: path_of(&module.attrs),
        });
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        // What begins with `::` is another crate's.
        if import.leading_colon.is_none() {
            self.import(&[], &import.tree, !matches!(import.vis, Visibility::Inherited));
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.is_definition = item.ident.is_some();
        visit::visit_item_macro(self, item);
        self.is_definition = false;
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone(), false);
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, attribute: &'ast syn::MetaList) {
        self.tokens(attribute.tokens.clone(), true);
    }
}

fn attributes_and_name(item: &Item) -> (&[Attribute], Option<String>) {
    let (attributes, name) = match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, None),
        Item::Use(item) => (&item.attrs, None),
        Item::ForeignMod(item) => (&item.attrs, None),
        _ => return (&[], None),
    };
    (attributes, name.map(ToString::to_string))
}

/// Whether an item is compiled for unit tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    let asks = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => needs_test(list.tokens.clone()),
        _ => false,
    };
    attributes.iter().any(asks)
}

/// Whether a condition is `test`, or all of several of which one is.
fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(all), TokenTree::Group(conditions)] if all == "all" => {
            let conditions: Vec<TokenTree> = conditions.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
            conditions.split(is_comma).any(|one| needs_test(one.iter().cloned().collect()))
        }
        [TokenTree::Ident(word)] => word == "test",
        _ => false,
    }
}

/// The file that `#[path = "…"]` names.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}
