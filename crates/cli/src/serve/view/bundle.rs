//! The page as one file: its modules as one script, its styles and the answers inside it.

#![forbid(unsafe_code)]

use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

use super::page;

const ENDS_SCRIPT: &str = "a module of the page contains the end of a script";

/// The module that starts the page.
const MAIN: &str = "main.js";

/// Returns the page with the answers in it, and the view to begin with: `pack` is what `offline.js` reads.
pub(super) fn html(pack: &[u8], view: &str) -> Result<String, String> {
    let pack = BASE64_STANDARD.encode(pack);
    bundled(
        &format!("<script type=\"text/plain\" id=\"pack\" data-start=\"#view={view}\">{pack}</script>"),
        "",
    )
}

/// The script of the page's workers.
const WORKER: &str = "web_worker.js";

/// Returns the page with memreel in it, which opens the files that a reader drops on it: `module` is `crates/web` as
/// WebAssembly, compressed with gzip.
///
/// # Errors
/// The page's modules cannot be bundled.
pub fn page_with(module: &[u8]) -> Result<String, String> {
    let module = BASE64_STANDARD.encode(module);
    let worker = text(WORKER);
    if worker.contains("</script") {
        return Err(ENDS_SCRIPT.to_owned());
    }
    // Nothing leaves the browser: `default-src` forbids every connection.
    let policy = " 'wasm-unsafe-eval'; worker-src blob:; connect-src 'none'";
    bundled(
        &format!(
            "<script type=\"text/plain\" id=\"worker\">{worker}</script>\n\
             <script type=\"text/plain\" id=\"module\">{module}</script>"
        ),
        policy,
    )
}

/// Returns the page as one file, with some data in it. The policy has some more that its scripts may do.
fn bundled(data: &str, more: &str) -> Result<String, String> {
    let script = script()?;
    let style: String = ["style.css", "views.css"].map(text).concat();
    let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
    // Views are loaded by name, and everything else is in the file.
    let policy = format!(
        "default-src 'none'; script-src {}{more}; style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    let page = text("index.html");
    let (before, rest) = page.split_once("<link rel=\"stylesheet\"").ok_or("the page has no styles")?;
    let (_, body) = rest.split_once("</head>").ok_or("the page has no head")?;
    let (before, after) = (before.replace("<meta charset=\"utf-8\">", &head(&policy)), body);
    let (body, end) = after.rsplit_once("</body>").ok_or("the page has no body")?;
    Ok(format!(
        "{before}<style>{style}</style>\n</head>{body}{data}\n<script type=\"module\">{script}</script>\n</body>{end}"
    ))
}

fn head(policy: &str) -> String {
    format!("<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")
}

fn text(name: &str) -> String {
    page::file(name).map_or_else(String::new, |(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns one script that does what the modules do together: each is a function that returns what it exports, and is
/// after those that it imports.
fn script() -> Result<String, String> {
    let mut out = String::from("const modules = {};\n");
    let mut done = Vec::new();
    let views = page::names().filter(|name| text(MAIN).contains(&format!("\"./{name}\"")));
    for name in views.chain([MAIN]) {
        add(name, &mut done, &mut Vec::new(), &mut out)?;
    }
    // A browser ends a script at this word, wherever it is.
    if out.contains("</script") {
        return Err(ENDS_SCRIPT.to_owned());
    }
    Ok(out)
}

fn add(name: &str, done: &mut Vec<String>, open: &mut Vec<String>, out: &mut String) -> Result<(), String> {
    if done.iter().any(|other| other == name) {
        return Ok(());
    }
    if open.iter().any(|other| other == name) {
        return Err(format!("the modules of the page import in a circle: {} → {name}", open.join(" → ")));
    }
    open.push(name.to_owned());
    let module = Module::read(name, &text(name))?;
    for import in &module.imports {
        add(import, done, open, out)?;
    }
    open.pop();
    out.push_str(&format!(
        "modules[\"{name}\"] = (() => {{\n{}return {{{}}};\n}})();\n",
        module.body,
        module.exports.join(", ")
    ));
    done.push(name.to_owned());
    Ok(())
}

/// A module without its imports and exports, in the forms that the page's modules have: one import a line, and exports of
/// functions, classes and constants.
struct Module {
    imports: Vec<String>,
    exports: Vec<String>,
    body: String,
}

impl Module {
    fn read(name: &str, text: &str) -> Result<Module, String> {
        let mut module = Module { imports: Vec::new(), exports: Vec::new(), body: String::new() };
        for line in text.lines() {
            let line = match line.strip_prefix("import ") {
                Some(rest) => module
                    .import(rest)
                    .ok_or_else(|| format!("{name}: {line:?} is another form of import"))?,
                None => match line.strip_prefix("export ") {
                    Some(rest) => {
                        let exported = exported(rest)
                            .ok_or_else(|| format!("{name}: {line:?} is another form of export"))?;
                        module.exports.push(exported);
                        rest.to_owned()
                    }
                    None => line.to_owned(),
                },
            };
            module.body.push_str(&line.replace("await import(path)", "modules[path.slice(2)]"));
            module.body.push('\n');
        }
        Ok(module)
    }

    /// Reads what follows the word `import`: `{a, b as c} from "./x.js";` or `* as x from "./x.js";`.
    fn import(&mut self, rest: &str) -> Option<String> {
        let (what, from) = rest.split_once(" from ")?;
        let name = from.strip_prefix("\"./")?.strip_suffix("\";")?;
        self.imports.push(name.to_owned());
        Some(match what.strip_prefix("* as ") {
            Some(whole) => format!("const {whole} = modules[\"{name}\"];"),
            None => {
                let names = what.strip_prefix('{')?.strip_suffix('}')?;
                format!("const {{{}}} = modules[\"{name}\"];", names.replace(" as ", ": "))
            }
        })
    }
}

/// Returns the name that a line exports, given what follows the word `export`.
fn exported(rest: &str) -> Option<String> {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let rest = ["function ", "class ", "const "].into_iter().find_map(|word| rest.strip_prefix(word))?;
    let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_become_one_script() {
        let script = script().unwrap();
        // The page that follows programs is another one, and a worker's script has no imports.
        let is_here = |name: &&str| name.ends_with(".js") && !["live.js", WORKER].contains(name);
        for name in page::names().filter(is_here) {
            assert!(script.contains(&format!("modules[\"{name}\"] = ")), "{name} is not in the script");
        }
        assert!(!script.lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
        assert!(!script.contains("import(") && script.contains("was left out of the file"));
    }

    #[test]
    fn other_forms_are_refused() {
        for line in [
            "import \"./x.js\";",
            "import x from \"./x.js\";",
            "export default 5;",
            "export {x};",
            "import {x} from 'y';",
        ] {
            assert!(Module::read("a.js", line).is_err(), "{line}");
        }
        let module = Module::read(
            "a.js",
            "import {b as c, d} from \"./x.js\";\nexport async function f() {}\nexport const E = 5;\n",
        )
        .unwrap();
        assert_eq!(
            (module.imports, module.exports),
            (vec!["x.js".to_owned()], vec!["f".to_owned(), "E".to_owned()])
        );
        assert_eq!(
            module.body,
            "const {b: c, d} = modules[\"x.js\"];\nasync function f() {}\nconst E = 5;\n"
        );
    }

    #[test]
    fn the_answers_and_the_policy_are_in_the_page() {
        let page = html(b"pack", "state").unwrap();
        assert!(page.contains("id=\"pack\" data-start=\"#view=state\">cGFjaw==</script>"));
        assert!(page.contains("script-src 'sha256-") && !page.contains("src=\"main.js\""));
        // It names nothing outside, but the namespace of drawings.
        let rest = page.replace("http://www.w3.org/", "");
        assert!(!rest.contains("http://") && !rest.contains("https://"));
    }
}
