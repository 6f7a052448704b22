//! The roles of frames: one table of rules (`role_rules`) decides which frames identify the code that allocated.
//!
//! Most frames of a real stack are the same for every allocation: the recorder, the allocator, the
//! dispatch of an operator, the interpreter, the standard library, the beginning of a thread.

use std::ops::RangeInclusive;

use super::{
    function_name::FunctionName,
    role_rules::{
        BARE_RULES,
        Compared::{self, Bare, Begin, File, Folder, Library, Name, Whole},
        RULES,
        Role::{self, Dispatch, Entry, Interpreter, Native, Python, Runtime, Workspace},
        Rule,
    },
};
use crate::{
    model::Frame,
    words::paths::{base_name, with_slashes},
};

/// Functions of `torch/nn/modules/module.py` that every call of a module passes through.
const MODULE_CALLS: [&str; 2] = ["_call_impl", "_wrapped_call_impl"];

impl Role {
    #[cfg(test)]
    fn of(frame: &Frame) -> Role {
        Decision::of(frame).role
    }

    /// Returns the roles of the frames that identify the code that allocated, given those of all frames of a
    /// stack.
    pub(super) fn identifying(roles: impl Iterator<Item = Role> + Clone) -> RangeInclusive<Role> {
        let mut highest = roles.clone().max().unwrap_or(Runtime);
        if highest == Entry && roles.clone().any(|role| role == Interpreter) {
            // In a process of Python, `main` is the interpreter's.
            highest = roles.clone().filter(|role| *role != Entry).max().unwrap_or(Runtime);
        }
        let lowest = match highest {
            // If no frame identifies anything, all of them are shown.
            Interpreter => Runtime,
            Workspace if roles.clone().any(|role| role == Python) => Python,
            Workspace => Native,
            _ => highest,
        };
        lowest..=highest
    }
}

/// A frame's role, with the part and the text of the rule that decided it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) role: Role,
    pub(super) by: Option<(Compared, &'static str)>,
}

impl Decision {
    pub(super) fn of(frame: &Frame) -> Decision {
        Decision::new(&NameFacts::of(&frame.name), &FileFacts::of(&frame.filename))
    }

    fn new(name: &NameFacts, file: &FileFacts) -> Decision {
        if file.is_python(name) {
            let call = name.module_call.filter(|_| file.is_module);
            let role = if call.is_some() { Dispatch } else { Python };
            return Decision { role, by: call.map(|call| (Whole, call)) };
        }
        let needs_no_file = if file.is_unknown { u64::MAX } else { !BARE_RULES };
        let fitting = name.rules.fits & needs_no_file | file.rules.fits;
        let number = fitting.trailing_zeros() as usize;
        let Some(Rule(role, part, texts)) = RULES.get(number) else {
            return Decision { role: Native, by: None };
        };
        let rules = if matches!(part, Folder | File) { &file.rules } else { &name.rules };
        let text = texts.get(usize::from(rules.texts[number])).copied();
        Decision { role: *role, by: text.map(|text| (*part, text)) }
    }
}

/// The rules that a name or a path fits, which are compared with it once: many frames share one text.
#[derive(Clone, Copy, Debug)]
struct Fitting {
    /// A bit for each rule.
    fits: u64,
    /// The text that the name or path contains, by rule.
    texts: [u8; RULES.len()],
}

impl Fitting {
    fn new(is_in: impl Fn(Compared, &[&'static str]) -> bool) -> Fitting {
        let mut fitting = Fitting { fits: 0, texts: [0; RULES.len()] };
        for (number, Rule(_, part, texts)) in RULES.iter().enumerate() {
            if is_in(*part, texts) {
                fitting.fits |= 1 << number;
                // A method of a type and a trait may need two texts; either of them names the rule.
                let text = (0..).zip(*texts).find(|(_, text)| is_in(*part, &[text]));
                fitting.texts[number] = text.map_or(0, |(at, _)| at);
            }
        }
        fitting
    }
}

/// The facts about a frame's name that rules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameFacts {
    rules: Fitting,
    is_compiled: bool,
    module_call: Option<&'static str>,
}

impl NameFacts {
    pub(super) fn of(name: &str) -> NameFacts {
        let function = FunctionName::of(name);
        NameFacts {
            rules: Fitting::new(|part, texts| part.is_in_name(name, &function, texts)),
            is_compiled: is_compiled(name),
            module_call: MODULE_CALLS.into_iter().find(|call| *call == function.path),
        }
    }
}

/// The facts about the path of a frame's source file that rules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileFacts {
    rules: Fitting,
    is_unknown: bool,
    /// Whether it is a Python file; `None` if the name of the function decides.
    is_python: Option<bool>,
    is_module: bool,
}

impl FileFacts {
    pub(super) fn of(filename: &str) -> FileFacts {
        let filename = &*with_slashes(filename);
        FileFacts {
            rules: Fitting::new(|part, texts| part.is_in_file(filename, texts)),
            is_unknown: is_unknown(filename),
            is_python: is_python_file(filename),
            is_module: filename.ends_with("module.py"),
        }
    }

    /// Returns whether a frame is Python's: in a Python file, in generated code such as `<eval_with_key>.3`, or in a
    /// script whose name has no extension.
    fn is_python(&self, name: &NameFacts) -> bool {
        self.is_python.unwrap_or(!name.is_compiled)
    }
}

/// Returns the role of a frame with this name and this file.
pub(super) fn role(name: &NameFacts, file: &FileFacts) -> Role {
    Decision::new(name, file).role
}

impl Compared {
    /// Returns whether one of the texts is in this part of a frame with a name, if the part is of the name.
    fn is_in_name(self, name: &str, function: &FunctionName, texts: &[&str]) -> bool {
        match self {
            Name => texts.iter().any(|text| function.path.contains(text)),
            Begin => function.begins_with(texts),
            Whole | Bare => texts.contains(&&*function.path),
            Library => library_without_names(name)
                .is_some_and(|library| texts.iter().any(|text| library.starts_with(text))),
            Folder | File => false,
        }
    }

    /// Returns whether one of the texts is in this part of a frame with a path, if the part is of the path.
    fn is_in_file(self, filename: &str, texts: &[&str]) -> bool {
        match self {
            Folder => texts.iter().any(|text| filename.contains(text)),
            File => texts.iter().any(|text| filename.ends_with(text)),
            Name | Begin | Whole | Bare | Library => false,
        }
    }
}

/// Returns whether a frame is Python's, by its file and, if that does not show it, its name.
pub(super) fn is_python(frame: &Frame) -> bool {
    is_python_file(&frame.filename).unwrap_or_else(|| !is_compiled(&frame.name))
}

/// Returns whether a name belongs to compiled code. Python names contain none of these characters.
fn is_compiled(name: &str) -> bool {
    name.contains("::") || name.contains(['(', ' '])
}

/// Returns whether a frame has no source file.
pub(super) fn is_unknown(filename: &str) -> bool {
    matches!(filename, "" | "??")
}

/// Returns whether a path is Python's; `None` if the name of the function decides.
fn is_python_file(filename: &str) -> Option<bool> {
    match base_name(filename).rsplit_once('.') {
        _ if filename.starts_with('<') => Some(true),
        Some((_, ending)) => Some(matches!(ending, "py" | "pyw" | "pyc")),
        // C++ has headers without an extension.
        None if is_unknown(filename) || with_slashes(filename).contains("/include/") => Some(false),
        None => None,
    }
}

/// Returns the library of a function without a name: `libfoo.so` in `libfoo.so+0x1234`.
pub(super) fn library_without_names(name: &str) -> Option<&str> {
    let (library, offset) = name.rsplit_once("+0x")?;
    let is_offset = !offset.is_empty() && offset.bytes().all(|c| c.is_ascii_hexdigit());
    is_offset.then_some(library)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::frames::{disguise::disguised, known_owners::of_function, viewer_filter::is_shown};

    fn frame(name: &str, filename: &str) -> Frame {
        Frame { name: name.into(), filename: filename.into(), ..Frame::default() }
    }

    #[test]
    fn every_text_of_a_rule_decides_and_is_disguised() {
        for Rule(role, part, texts) in RULES {
            for text in *texts {
                let of = match part {
                    Name | Begin => frame(&format!("{text}x(int)"), "??"),
                    Whole | Bare => frame(text, "??"),
                    Library => frame(&format!("{text}x.so+0x1f"), "??"),
                    Folder => frame("step", &format!("/a{text}x.c")),
                    File => frame("step", &format!("/a/{text}")),
                };
                assert_eq!(Role::of(&of), *role, "{text}");
                let (name, filename) = disguised(&of, "function1", "file1");
                assert_eq!(Role::of(&frame(&name, &filename)), *role, "{text}: {name} {filename}");
                assert_eq!(is_shown(&name, &filename), is_shown(&of.name, &of.filename), "{text}");
                // The names of PyTorch are everybody's.
                let is_public = of_function(&of.name).is_some();
                assert!(is_public || name != *of.name && !name.ends_with("x"), "{name}");
            }
        }
    }

    /// A program's own function ranks above the runtime's, whether the runtime is a library or linked into the program.
    #[test]
    fn the_runtime_of_cuda_only_passes_requests_on() {
        for name in [
            "libcudart_static_8b3fb4b4e2f8be7e23f33b3f2d8b8f0a6f0a1b2c",
            "cudaHostAlloc",
            "cudaGraphInstantiate",
            "cuMemCreate",
            "libcudart.so.12+0x1f2a0",
            "libcuda.so.1+0x2b4",
        ] {
            assert!(Role::of(&frame(name, "??")) < Role::of(&frame("main", "??")), "{name}");
        }
    }

    #[test]
    fn source_files_decide_what_is_python() {
        for (filename, role) in [
            ("/a/train.py", Python),
            ("/a/bin/train", Python),
            ("<eval_with_key>.3", Python),
            ("<stdin>", Python),
            ("/a/train.rs", Native),
            ("/usr/include/c++/12/vector", Dispatch),
            ("/usr/local/include/Eigen/Core", Native),
            (r"D:\code\train.py", Python),
            (r"D:\code.d\train", Python),
            (r"C:\include\Eigen\Core", Native),
            (r"C:\rust\library\core\src\ops.rs", Dispatch),
            ("", Native),
        ] {
            let of = frame("step", filename);
            assert_eq!(Role::of(&of), role, "{filename}");
            let (name, disguised) = disguised(&of, "function1", "file1");
            assert_eq!(Role::of(&frame(&name, &disguised)), role, "{disguised}");
        }
        assert_eq!(Role::of(&frame("model::step(int)", "/a/bin/train")), Native);
    }
}
