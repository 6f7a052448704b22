//! The files of the page, which are built into the program.

#![forbid(unsafe_code)]

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// The name of each file, and its bytes.
        const FILES: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("../../../viewer/", $name)))),*];
    };
}

files![
    "address.js",
    "allocator.js",
    "answer.js",
    "app.js",
    "branches.js",
    "chart.js",
    "colours.js",
    "compare.js",
    "console.js",
    "controls.js",
    "copy.js",
    "curves.js",
    "details.js",
    "drawing.js",
    "filters.js",
    "gestures.js",
    "icicle.js",
    "index.html",
    "keys.js",
    "latest_request.js",
    "legend.js",
    "lens.js",
    "list.js",
    "live.html",
    "live.js",
    "main.js",
    "minimap.js",
    "notice.js",
    "offline.js",
    "offline_answers.js",
    "pages.js",
    "painter.js",
    "picture.js",
    "picture_drawing.js",
    "ranks.js",
    "ruler.js",
    "scene.js",
    "segment_rows.js",
    "segments.js",
    "source.js",
    "status.js",
    "steps.js",
    "style.css",
    "surface.js",
    "text.js",
    "tiles.js",
    "timeline.js",
    "timeline_keys.js",
    "tip.js",
    "verdict.js",
    "views.css",
    "virtual.js",
    "web.js",
    "web_files.js",
    "web_worker.js",
    "whatif.js",
    "windows.js"
];

/// Returns the names of the files.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Returns a file of the page with its content type.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static [u8])> {
    let path = if path.is_empty() { "index.html" } else { path };
    let (name, bytes) = FILES.iter().find(|(name, _)| *name == path)?;
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    Some((kind, bytes))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
        let mut there: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            // Notes, and what the checks of types read.
            .filter(|name| ![".md", ".d.ts", ".json"].iter().any(|end| name.ends_with(end)))
            .collect();
        there.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        listed.sort_unstable();
        assert_eq!(listed, there);
    }
}
