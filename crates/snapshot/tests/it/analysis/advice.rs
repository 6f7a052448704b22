//! No text of advice is made but in the table of PyTorch's options.

use std::{fs, path::Path};

/// The files that may have a variable with a value: the table, PyTorch's own sentence, and what reads it in a log.
const MAY: [&str; 3] = ["torch_options.rs", "out_of_memory.rs", "form.rs"];

fn look(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            look(&path, found);
        } else if (name.ends_with(".rs") || name.ends_with(".js") || name.ends_with(".py"))
            && !MAY.contains(&&*name)
        {
            let text = fs::read_to_string(&path).unwrap();
            let of_advice = text.lines().filter(|line| {
                line.contains("PYTORCH_") && line.contains("ALLOC_CONF=")
                    || line.contains("in PYTORCH_ALLOC_CONF") && !line.trim_start().starts_with("//")
            });
            found.extend(of_advice.map(|line| format!("{}: {line}", path.display())));
        }
    }
}

#[test]
fn no_text_of_advice_is_made_elsewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut found = Vec::new();
    for folder in [
        "crates/snapshot/src",
        "src",
        "crates/answers/src",
        "crates/cli/src",
        "crates/cli/viewer",
        "crates/mcp/src",
        "python/memreel",
        "python/src",
    ] {
        look(&root.join(folder), &mut found);
    }
    found.retain(|line| !line.contains("\"\"\""));
    assert_eq!(found, Vec::<String>::new());
}
