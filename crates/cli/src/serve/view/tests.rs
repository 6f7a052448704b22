//! Compares the server's answers with those of the simplest possible code on the same history.

use std::sync::OnceLock;

use memreel_snapshot::{Snapshot, history::Moment};
use serde_json::Value;

use super::{
    block,
    device::Device,
    figures::moment,
    groups::Colour,
    icicle, list, picture,
    reading::Source,
    recording::Recording,
    route::Files,
    samples::{request, snapshot, with_device},
    state,
    sums::sums,
    window::Window,
};

const SEEDS: std::ops::Range<u64> = 0..12;

/// A picture, read again.
struct Picture {
    n_columns: usize,
    n_rows: usize,
    are_all: bool,
    low: f64,
    high: f64,
    moments: Vec<u32>,
    /// The least and the most of allocated, active and reserved bytes.
    figures: [Vec<f32>; 6],
    lives: Vec<u32>,
    raster: Vec<u16>,
}

fn read(bytes: &[u8]) -> Picture {
    assert_eq!(&bytes[..4], b"MRP1");
    let mut at = 4;
    let mut take = |n: usize| {
        at += n;
        &bytes[at - n..at]
    };
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let [n_columns, n_rows, n_lives] = [(); 3].map(|()| word(take(4)) as usize);
    let [flags, _n_moments] = [(); 2].map(|()| word(take(4)));
    let [_from, _to, low, high] = [(); 4].map(|()| f64::from_le_bytes(take(8).try_into().unwrap()));
    let words = |bytes: &[u8]| bytes.chunks_exact(4).map(word).collect::<Vec<u32>>();
    let moments = words(take(4 * n_columns));
    let figures = [(); 6].map(|()| words(take(4 * n_columns)).into_iter().map(f32::from_bits).collect());
    let lives = words(take(4 * n_lives));
    take(4 * n_lives + 8 * n_lives + n_lives);
    take((4 - (4 + 20 + 32 + 28 * n_columns + 17 * n_lives) % 4) % 4);
    let raster = take(2 * n_columns * n_rows).chunks_exact(2);
    let raster = raster.map(|place| u16::from_le_bytes([place[0], place[1]])).collect();
    assert_eq!(at, bytes.len());
    Picture { n_columns, n_rows, are_all: flags & 1 == 1, low, high, moments, figures, lives, raster }
}

fn drawn(device: &Device<'_>, query: &str) -> Picture {
    read(&picture::answer(&request(&format!("picture?{query}")), device).unwrap())
}

/// Returns the lives at a moment in the order of the picture, older blocks below newer ones, each with the height of its top.
fn lives_at(device: &Device<'_>, moment: Moment) -> Vec<(u32, f64)> {
    let lives = device.history.lives();
    let mut live: Vec<u32> =
        (0..).take(lives.len()).filter(|number| lives[*number as usize].is_active_at(moment)).collect();
    live.sort_by_key(|number| (lives[*number as usize].from, *number));
    let mut top = 0.0;
    let with_top = live.into_iter().map(|number| {
        top += lives[number as usize].requested_bytes as f64;
        (number, top)
    });
    with_top.collect()
}

#[test]
fn a_picture_shows_the_blocks_of_each_column() {
    for seed in SEEDS {
        let snapshot = snapshot(seed, 300);
        with_device(&snapshot, |device| {
            for query in
                ["rows=64", "rows=200&level=2&index=3", "rows=64&rise=1&shelf=1", "rows=64&axis=time"]
            {
                let picture = drawn(device, query);
                assert!(picture.are_all, "seed {seed}: {query}");
                let row_bytes = (picture.high - picture.low) / picture.n_rows as f64;
                for (column, places) in picture.raster.chunks(picture.n_rows).enumerate() {
                    let lives = lives_at(device, Moment(picture.moments[column]));
                    for (row, place) in places.iter().enumerate() {
                        let middle = picture.low + row_bytes * (row as f64 + 0.5);
                        let expected = lives.iter().find(|(_, top)| middle < *top).map(|(number, _)| *number);
                        let found = (*place >= 2).then(|| picture.lives[usize::from(*place) - 2]);
                        assert_ne!(*place, 1, "nothing is summed up");
                        assert_eq!(found, expected, "seed {seed}: {query}, column {column}");
                    }
                }
            }
        });
    }
}

#[test]
fn the_figures_of_a_column_are_those_of_its_moments() {
    for seed in SEEDS {
        let snapshot = snapshot(seed, 700);
        with_device(&snapshot, |device| {
            let totals: Vec<_> = device.history.totals().collect();
            for level in 0..6 {
                for index in 0..(2 << level) - 1 {
                    let query = format!("rows=64&level={level}&index={index}");
                    let picture = drawn(device, &query);
                    let window = Window::of(&request(&format!("picture?{query}")), device).unwrap();
                    let columns = window.columns(device);
                    assert_eq!(columns.len(), picture.n_columns);
                    for (column, (from, until)) in columns.iter().enumerate() {
                        let all = &totals[*from..*until];
                        let most = all.iter().map(|totals| totals.active_bytes).max().unwrap();
                        let first = all.iter().find(|totals| totals.active_bytes == most).unwrap();
                        assert_eq!(picture.moments[column], first.moment.0, "{query}");
                        let figure = |figure: fn(&memreel_snapshot::analysis::Totals) -> u64| {
                            let all = all.iter().map(figure);
                            [all.clone().min().unwrap() as f32, all.max().unwrap() as f32]
                        };
                        let expected = [
                            figure(|totals| totals.allocated_bytes),
                            figure(|totals| totals.active_bytes),
                            figure(|totals| totals.reserved_bytes),
                        ];
                        let found: Vec<f32> = picture.figures.iter().map(|all| all[column]).collect();
                        assert_eq!(found, expected.concat(), "{query}, column {column}");
                    }
                }
            }
        });
    }
}

#[test]
fn the_columns_of_a_window_have_each_moment_once() {
    let snapshot = snapshot(3, 5000);
    with_device(&snapshot, |device| {
        for (level, index) in [(0, 0), (1, 0), (1, 1), (1, 2), (3, 7), (9, 500)] {
            let query = format!("picture?level={level}&index={index}");
            let columns = Window::of(&request(&query), device).unwrap().columns(device);
            assert!(columns.windows(2).all(|pair| pair[0].1 == pair[1].0), "{query}: {columns:?}");
        }
    });
}

#[test]
fn the_figures_of_any_stretch_are_exact() {
    let snapshot = snapshot(5, 1500);
    with_device(&snapshot, |device| {
        let totals: Vec<_> = device.history.totals().collect();
        let mut random = super::samples::Random::new(1);
        for _ in 0..2000 {
            let from = random.index(totals.len());
            let until = from + 1 + random.index(totals.len() - from);
            let found = device.figures.between(&device.history, from, until);
            let all = &totals[from..until];
            let reserved = all.iter().map(|totals| totals.reserved_bytes);
            assert_eq!(found.reserved, [reserved.clone().min().unwrap(), reserved.max().unwrap()]);
            assert_eq!(found.active[1], all.iter().map(|totals| totals.active_bytes).max().unwrap());
            assert_eq!(device.figures.at(&device.history, moment(from)), totals[from]);
        }
    });
}

#[test]
fn small_blocks_are_summed_up_where_there_are_many() {
    let snapshot = snapshot(7, 400);
    with_device(&snapshot, |device| {
        let lives = device.history.lives();
        let ends = [Moment::START, device.history.end()];
        let shown = device.sizes.shown(lives, ends, 4000, [10, 1000], |_| true);
        let mut expected: Vec<u32> = (0..)
            .take(lives.len())
            .filter(|number| lives[*number as usize].requested_bytes >= 4000)
            .collect();
        let mut found = shown.lives;
        found.sort_unstable();
        expected.sort_unstable();
        assert!(!shown.are_all && found.len() > 10 && found.len() < lives.len());
        assert_eq!(found, expected);
    });
}

#[test]
fn the_small_blocks_of_a_group_are_summed_up_in_each_column() {
    let snapshot = snapshot(19, 500);
    with_device(&snapshot, |device| {
        let lives = device.history.lives();
        let figures: Vec<_> = (0..device.figures.n_moments())
            .step_by(13)
            .map(|from| device.figures.between(&device.history, from, from + 13))
            .collect();
        let groups = device.groups(Colour::Size);
        let small = (0..).zip(lives).filter(|(_, life)| life.requested_bytes < 10_000);
        let found = sums(groups, &figures, small);
        assert!(found.len() > 5);
        for sum in found {
            for (column, bytes) in figures.iter().zip(&sum.bytes) {
                let expected = (0..).zip(lives).filter(|(number, life)| {
                    life.is_active_at(column.highest)
                        && life.requested_bytes < 10_000
                        && groups.number(life, *number) == sum.group
                });
                assert_eq!(*bytes, expected.map(|(_, life)| life.requested_bytes).sum::<u64>());
            }
        }
    });
}

#[test]
fn a_state_is_that_of_the_program_at() {
    for seed in SEEDS {
        let snapshot = snapshot(seed, 200);
        with_device(&snapshot, |device| {
            for at in (0..=device.history.end().0).step_by(17) {
                let found = state::answer(&request(&format!("state?moment={at}")), device).unwrap();
                let totals = device.history.totals_at(Moment(at));
                assert_eq!(found["totals"]["active_bytes"], totals.active_bytes);
                let layout = device.history.layout(Moment(at));
                let segments = found["segments"].as_array().unwrap();
                assert_eq!(segments.len(), layout.len());
                for (segment, expected) in segments.iter().zip(&layout) {
                    assert_eq!(segment["address"], expected.range.address.to_string());
                    let blocks = segment["blocks"].as_array().unwrap();
                    assert_eq!(blocks.len(), expected.blocks.len());
                    for (block, life) in blocks.iter().zip(&expected.blocks) {
                        let number = block[0].as_u64().unwrap();
                        assert_eq!(device.history.lives()[usize::try_from(number).unwrap()], **life);
                        assert_eq!(block[1], life.address - expected.range.address);
                    }
                }
            }
        });
    }
}

#[test]
fn a_list_is_sorted_and_filtered() {
    let snapshot = snapshot(13, 400);
    with_device(&snapshot, |device| {
        let rows = |query: &str| -> Vec<Value> {
            let found = list::answer(&request(query), device).unwrap();
            found["rows"].as_array().unwrap().clone()
        };
        let bytes =
            |rows: &[Value]| rows.iter().map(|row| row["bytes"].as_u64().unwrap()).collect::<Vec<_>>();
        assert!(bytes(&rows("list?count=1000")).is_sorted_by(|one, other| one >= other));
        assert!(bytes(&rows("list?descending=0&count=1000")).is_sorted());
        let all = rows("list?sort=from&descending=0&count=1000");
        assert_eq!(all.len(), device.history.lives().len().min(1000));
        assert_eq!(rows("list?sort=from&descending=0&offset=5&count=10"), all[5..15]);
        let large = rows("list?least_bytes=5000&most_bytes=20000&count=1000");
        let expected = device.history.lives().iter().filter(|life| (5000..=20000).contains(&life.bytes));
        assert_eq!(large.len(), expected.count());
        assert!(
            list::answer(&request("list?sort=colour"), device).unwrap_err().why.contains("is not an order")
        );
    });
}

#[test]
fn an_address_finds_every_block_that_had_it() {
    for seed in SEEDS {
        let snapshot = snapshot(seed, 300);
        with_device(&snapshot, |device| {
            let lives = device.history.lives();
            for life in lives.iter().step_by(17).filter(|life| life.bytes > 1) {
                let inside = life.address.0 + life.bytes / 2;
                let has = |of: &&memreel_snapshot::history::Life| {
                    (of.address.0..of.address.0 + of.bytes).contains(&inside)
                };
                let found = list::answer(&request(&format!("list?search={inside:#x}")), device).unwrap();
                assert_eq!(found["n"], lives.iter().filter(has).count(), "seed {seed}: {inside:#x}");
            }
        });
    }
}

#[test]
fn a_tree_has_every_byte_of_its_interval() {
    let snapshot = snapshot(17, 300);
    with_device(&snapshot, |device| {
        let end = device.history.end().0;
        let lives = device.history.lives();
        let (from, to) = (end / 4, end / 2);
        let sum = |has: &dyn Fn(&memreel_snapshot::history::Life) -> bool| {
            lives.iter().filter(|life| has(life)).map(|life| life.requested_bytes).sum::<u64>()
        };
        let within = |moment: Moment| from < moment.0 && moment.0 <= to;
        for (what, expected) in [
            (format!("what=live&moment={to}"), sum(&|life| life.is_active_at(Moment(to)))),
            (format!("what=allocated&from={from}&to={to}"), sum(&|life| within(life.from))),
            (format!("what=freed&from={from}&to={to}"), sum(&|life| within(life.until))),
        ] {
            let found = icicle::answer(&request(&format!("icicle?{what}")), device).unwrap();
            assert_eq!(found["bytes"], expected, "{what}");
            let branches = found["branches"].as_array().unwrap();
            let outermost = branches.iter().filter(|branch| branch["depth"] == 0);
            let shown = outermost.map(|branch| branch["bytes"].as_u64().unwrap()).sum::<u64>();
            // Branches of less than a 4000th of the whole are left out.
            assert!((expected - expected / 100..=expected).contains(&shown), "{what}: {shown} of {expected}");
            let depths: Vec<u64> = branches.iter().map(|branch| branch["depth"].as_u64().unwrap()).collect();
            assert!(depths.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{depths:?}");
        }
    });
}

#[test]
fn names_of_megabytes_make_no_answer_of_megabytes() {
    let mut snapshot = snapshot(29, 60);
    let long = "n".repeat(1 << 20);
    let shape = snapshot.shapes.intern(memreel_snapshot::model::raw::Shape::from_fields(&[]));
    let frame = memreel_snapshot::model::Frame {
        name: long.as_str().into(),
        filename: format!("/{long}").into(),
        line: 1,
        shape,
    };
    let frame = snapshot.stacks.intern_frame(frame);
    let stack = snapshot.stacks.intern_stack(&vec![frame; 1000]);
    snapshot.device_traces[0].iter_mut().for_each(|entry| entry.stack = Some(stack));
    with_device(&snapshot, |device| {
        let begun = device.history.lives().iter().position(|life| life.stack == Some(stack)).unwrap();
        let block = format!("block?life={begun}");
        let sizes = [
            block::answer(&request(&block), device).unwrap(),
            list::answer(&request("list?count=1000"), device).unwrap(),
            icicle::answer(&request("icicle?what=allocated"), device).unwrap(),
        ]
        .map(|answer| answer.to_string().len());
        assert!(sizes.iter().all(|size| *size < 1_000_000), "{sizes:?}");
        assert_eq!(block::answer(&request(&block), device).unwrap()["n_frames"], 1000);
    });
}

#[test]
fn the_next_moment_is_on_the_side_that_was_asked_for() {
    let snapshot = snapshot(31, 200);
    with_device(&snapshot, |device| {
        let peak = device.peak.moment.0;
        let next = |moment: u32, direction: i32, kind: &str| {
            let query = format!("next?moment={moment}&direction={direction}&kind={kind}");
            state::next(&request(&query), device).unwrap()["moment"].as_u64()
        };
        assert_eq!(
            [next(0, 1, "peak"), next(peak, 1, "peak"), next(peak, -1, "peak")],
            [Some(u64::from(peak)), None, None]
        );
        let entries = device.history.entries();
        for moment in 0..=device.history.end().0 {
            let is_free =
                |at: &usize| entries[*at].action.is_some_and(|action| action.name().starts_with("free"));
            let after = (moment as usize..entries.len()).find(is_free).map(|at| at as u64 + 1);
            assert_eq!(next(moment, 1, "free"), after);
        }
    });
}

/// Runs a function on the files of a page: one, of this name, that is read.
fn with_file<T>(name: &str, snapshot: Snapshot, ask: impl FnOnce(&Files<'_>) -> T) -> T {
    let sources = [Source::of(name, snapshot)];
    let recordings = [OnceLock::new()];
    let files = Files { sources: &sources, recordings: &recordings, make: crate::program::program };
    let found = sources[0].snapshot.get().unwrap().as_ref().unwrap();
    recordings[0].get_or_init(|| Recording::new(found));
    ask(&files)
}

fn answered(files: &Files<'_>, url: &str) -> (u16, Value) {
    let answer = files.answer(&request(url));
    (answer.status, serde_json::from_slice(&answer.bytes).unwrap())
}

/// Returns the words of lines: those of a page are not wrapped.
fn words<'t>(lines: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    lines.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn lines_of(answer: &Value) -> impl Iterator<Item = &str> {
    answer["lines"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[test]
fn answers_in_words_are_those_of_the_commands() {
    for seed in SEEDS.take(4) {
        let snapshot = snapshot(seed, 200);
        let named =
            crate::NamedSnapshot { name: "a".to_owned(), snapshot: std::sync::Arc::new(snapshot.clone()) };
        let printed = |words: &[&str]| crate::ask(std::slice::from_ref(&named), words).unwrap();
        with_file("a", snapshot, |files| {
            let (status, summary) = answered(files, "answer?file=0&device=0");
            assert_eq!(status, 200);
            let parts = summary["parts"].as_array().unwrap();
            let of_command = printed(&["summary", "a"]).text;
            let (_, of_device) = of_command.split_once("\n\n").unwrap();
            let (of_device, next) = of_device.split_once("\nnext:\n").unwrap();
            assert_eq!(words(parts.iter().flat_map(lines_of)), words(of_device.lines()));
            for step in summary["next"].as_array().unwrap() {
                let (command, what) = (step["command"].as_str().unwrap(), step["what"].as_str().unwrap());
                assert!(
                    next.lines()
                        .any(|line| line.contains(&format!("memreel {command} a")) && line.contains(what))
                );
            }
            let peak = parts.iter().find(|part| part["topic"] == "peak").unwrap();
            let moment = peak["place"]["moment"].as_u64().unwrap();
            let event = format!("after event {} of", moment - 1);
            assert!(
                lines_of(peak).any(|line| line.contains(&event) || line.contains("at the end")),
                "{peak}"
            );
            for (question, command) in [("oom", "oom"), ("leaks", "leaks")] {
                let (_, answer) = answered(files, &format!("answer?device=0&question={question}"));
                let printed = printed(&[command, "a"]);
                assert_eq!(words(lines_of(&answer)), words(printed.text.lines()), "{question}");
                assert_eq!(answer["status"], printed.status);
            }
        });
    }
}

#[test]
fn answers_in_words_refuse_with_a_reason() {
    with_file("a", snapshot(3, 50), |files| {
        for (url, why) in [
            ("answer?question=why", "is not a question"),
            ("answer?device=7", "no such device"),
            ("answer?file=4&question=oom", "there is no file 4"),
            ("answer?question=fit", "give each file its size"),
            ("answer?question=fit&sizes=0=4", "two"),
        ] {
            let (status, answer) = answered(files, url);
            let text = answer["error"].as_str().unwrap();
            assert!((400..500).contains(&status) && text.contains(why), "{url}: {status} {text}");
        }
    });
}

#[test]
fn a_page_that_is_one_file_has_its_note_however_full_it_is() {
    with_file("a", snapshot(37, 100), pack_has_its_note);
}

fn pack_has_its_note(files: &Files<'_>) {
    for room_bytes in [0, 20_000, 14_400_000] {
        let pack = super::pack::pack(files, room_bytes).unwrap();
        let length = u32::from_le_bytes(pack[..4].try_into().unwrap()) as usize;
        let mut index = String::new();
        std::io::Read::read_to_string(&mut flate2::read::ZlibDecoder::new(&pack[4..4 + length]), &mut index)
            .unwrap();
        let index: Value = serde_json::from_str(&index).unwrap();
        for key in ["files", "note", "kept?device=0&file=0"] {
            assert!(index.get(key).is_some(), "{key} with room for {room_bytes}");
        }
        let whole = "picture?axis=events&colour=stack&device=0&file=0&index=0&level=0&rise=0&shelf=0";
        assert_eq!(index.get(whole).is_some(), room_bytes > 20_000);
        // The page sorts the parameters of what it looks up.
        for key in index.as_object().unwrap().keys().filter_map(|key| key.split('?').nth(1)) {
            assert!(key.split('&').is_sorted(), "{key}");
        }
    }
}
