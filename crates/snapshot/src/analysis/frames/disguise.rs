//! Hides the names of a program in a frame, so that every answer about the frame stays the same.
//!
//! The names of PyTorch, of CUDA's libraries and of other frameworks are everybody's and stay: they tell a gradient from
//! an activation. So do the few words by which PyTorch calls a program's own code, such as `forward`.

use super::{
    function_name::FunctionName,
    generated::is_generated,
    known_owners::{is_known_package, of_function},
    made::{Made, is_way_back},
    owner::{INSTALLED, is_standard_library},
    role::{Decision, is_python, is_unknown},
    role_rules::{
        Compared::{self, Bare, Begin, File, Folder, Library, Name, Whole},
        Role::{self, Python},
    },
    viewer_filter::is_shown,
};
use crate::{
    model::Frame,
    words::paths::{base_name, with_slashes},
};

/// The names of Python functions that say nothing about a program.
const WORDS: [&str; 12] = [
    "<module>",
    "__init__",
    "_apply",
    "_call_impl",
    "_engine_run_backward",
    "_init_group",
    "_wrapped_call_impl",
    "apply",
    "backward",
    "forward",
    "from_pretrained",
    "step",
];

/// The parts of the names of a program's functions that decide what a block is.
const PARTS: [&str; 10] = [
    "AccumulateGrad",
    "Backward0::",
    "Engine::evaluate_function",
    "Engine::thread_main",
    "capture",
    "load",
    "_load_",
    "backward",
    "hook",
    "unpack",
];

/// Returns the name and the path that hide a frame; `function` and `file` stand for what is the program's. Viewers show or
/// hide the result like the frame, and it identifies an allocation as well as the frame.
pub(crate) fn disguised(frame: &Frame, function: &str, file: &str) -> (String, String) {
    if let Some(path) = path_in_framework(frame) {
        return (frame.name.to_string(), path);
    }
    let Decision { role, by } = Decision::of(frame);
    let filename = disguised_path(frame, role, by, file);
    if is_python(frame) && WORDS.contains(&&*frame.name) {
        return (frame.name.to_string(), filename);
    }
    if let Some(name) = name_of_framework(frame, function) {
        return (name, filename);
    }
    let end = if matches!(by, Some((Library, _))) { "+0x0" } else { "" };
    let name = match by {
        Some((Whole | Bare, "")) => format!("??{function}"),
        Some((Whole | Bare, text)) => format!("{text}({function})"),
        Some((Name, text)) => format!("{text} {function}"),
        Some((Begin | Library, text)) => format!("{text}{function}"),
        Some((Folder | File, _)) | None => with_part(frame, function, &filename),
    };
    let is_hidden = !is_shown(&frame.name, &frame.filename) && is_shown(&name, &filename);
    let hidden = if is_hidden { "(_start)" } else { "" };
    (format!("{name}{hidden}{end}"), filename)
}

/// Returns the folder that a disguised file of Python is in, with the number that stands for its package: whether code is
/// a program's own, an installed package's or the standard library's decides who owns memory.
pub(crate) fn folder(frame: &Frame, package: impl FnOnce(&str) -> String) -> String {
    let path = &*with_slashes(&frame.filename);
    if !is_python(frame) || path.starts_with('<') {
        return String::new();
    }
    match INSTALLED.iter().find_map(|folder| path.rsplit_once(folder)) {
        Some((_, rest)) => {
            let name = rest.split('/').next().unwrap_or(rest);
            format!("{}{}/", INSTALLED[0], package(name.strip_suffix(".py").unwrap_or(name)))
        }
        None if is_generated(path) => "/torchinductor_/".to_owned(),
        None if is_standard_library(path) => "/lib/python3/".to_owned(),
        None => String::new(),
    }
}

/// Returns the path of a file of a framework's Python package, without the folders that it is installed in.
fn path_in_framework(frame: &Frame) -> Option<String> {
    let path = &*with_slashes(&frame.filename);
    let (folder, rest) = INSTALLED.iter().find_map(|folder| Some((folder, path.rsplit_once(folder)?.1)))?;
    let package = rest.split('/').next()?;
    (is_python(frame) && is_known_package(package)).then(|| format!("{folder}{rest}"))
}

/// Returns the name of a framework's compiled function. A template may be of the program's types, so of these only the
/// function's path stays.
fn name_of_framework(frame: &Frame, function: &str) -> Option<String> {
    let is_public = !is_python(frame) && of_function(&frame.name).is_some();
    let has_types = |name: &str| name.contains('<');
    match is_public.then(|| FunctionName::of(&frame.name).path)? {
        _ if !has_types(&frame.name) => Some(frame.name.to_string()),
        path if !has_types(&path) => Some(format!("{path}({function})")),
        _ => None,
    }
}

/// Returns a name that creates what the frame does.
fn with_part(frame: &Frame, function: &str, filename: &str) -> String {
    let created = |name: &str| {
        let of = Frame { name: name.into(), filename: filename.into(), ..frame.clone() };
        (Made::by(&of), is_way_back([&of].into_iter()))
    };
    let expected = (Made::by(frame), is_way_back([frame].into_iter()));
    let names =
        PARTS.iter().filter(|part| frame.name.contains(**part)).map(|part| format!("{part}{function}"));
    let fits = |name: &String| created(name) == expected;
    std::iter::once(function.to_owned()).chain(names).find(fits).unwrap_or_else(|| function.to_owned())
}

fn disguised_path(frame: &Frame, role: Role, by: Option<(Compared, &str)>, file: &str) -> String {
    const ENDINGS: [&str; 8] = ["c", "cc", "cpp", "cu", "cuh", "h", "hpp", "rs"];
    let filename = &*frame.filename;
    let ending = base_name(filename).rsplit_once('.').map(|(_, ending)| ending);
    // A compiled file without an extension would be taken for a script.
    let ending = ending.filter(|ending| ENDINGS.contains(ending)).unwrap_or("c");
    match by {
        _ if is_unknown(filename) => filename.to_owned(),
        _ if role == Python && filename.starts_with('<') => format!("<{file}>"),
        Some((Whole, _)) if is_python(frame) => format!("{file}/module.py"),
        _ if role == Python
            && &*frame.name == "step"
            && base_name(&with_slashes(filename)).contains("optim") =>
        {
            format!("{file}_optim.py")
        }
        _ if role == Python => format!("{file}.py"),
        Some((Folder, text)) => format!("{text}{file}.{ending}"),
        Some((File, text)) => format!("{file}/{text}"),
        _ => format!("{file}.{ending}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::frames::is_own;

    /// What a block is, and whose, is decided by names.
    #[test]
    fn every_answer_about_a_frame_stays() {
        let installed = "/home/me/env/lib/python3.12/site-packages/";
        for (name, path, is_left) in [
            ("torch::autograd::generated::ConvolutionBackward0::apply", "??", true),
            ("torch::autograd::Engine::evaluate_function(std::shared_ptr<Secret>&)", "??", false),
            ("torch::autograd::CppNode<Secret>::apply", "??", false),
            ("secret::MulBackward0::apply", "??", false),
            ("step", &format!("{installed}torch/optim/adamw.py"), true),
            ("_call_impl", &format!("{installed}torch/nn/modules/module.py"), true),
            ("_call_impl", "/opt/secret/module.py", true),
            ("step", "/secret/my_optim.py", true),
            ("forward", "/secret/model.py", true),
            ("load_secret", "/secret/model.py", false),
            ("secret_load_weights", "/secret/model.py", false),
            ("capture_secret", "/secret/model.py", false),
            ("secret_hook", "/secret/model.py", false),
            ("secret", &format!("{installed}secret/model.py"), false),
            ("secret", "/usr/lib/python3.12/secret.py", false),
            ("call", "/tmp/torchinductor_me/xy/secret.py", false),
        ] {
            let of = Frame { name: name.into(), filename: path.into(), ..Frame::default() };
            let file = format!("{}file1", folder(&of, |_| "package1".into()));
            let (name, filename) = disguised(&of, "function1", &file);
            let hidden =
                Frame { name: name.as_str().into(), filename: filename.as_str().into(), ..of.clone() };
            assert_eq!(*hidden.name == *of.name, is_left, "{name}");
            for text in [&name, &filename] {
                assert!(!text.to_lowercase().contains("secret") && !text.contains("/me/"), "{text}");
            }
            assert_eq!(Made::by(&hidden), Made::by(&of), "{name} {filename}");
            assert_eq!(is_way_back([&hidden].into_iter()), is_way_back([&of].into_iter()), "{name}");
            assert_eq!(is_own(&hidden), is_own(&of), "{name} {filename}");
            assert_eq!(is_generated(&filename), is_generated(path), "{filename}");
        }
    }
}
