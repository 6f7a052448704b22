//! Screens of all sizes, after keys.

use memreel::{Reel, device::Simulated, recorder::Recording};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use super::*;
use crate::{
    run::{all::All, detail::Detail, found::Source},
    watch::keys::{KeyRequest, press},
};

fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(view, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| format!("{}\n", row(y).trim_end())).collect()
}

fn type_keys(view: &mut View, keys: &str) -> KeyRequest {
    let press = |c| press(view, KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    keys.chars().map(press).last().unwrap()
}

#[test]
fn a_process_is_shown_in_all_sizes_and_keys_change_what_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let tape = |name: &str| folder.path().join(name);
    let record = |name: &str, bytes| {
        let history = Recording::all().tape(tape(name));
        let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
        let block = reel.alloc(bytes).unwrap();
        (reel, block)
    };
    let reels = [record("1-0-rank0.tape", 3 << 20), record("2-0-rank1.tape", 9 << 20)];
    drop(reels[1].0.alloc(2 << 30));
    let mut all = All::new(vec![Source::Run(folder.path().to_owned())], Detail::by_a_person(5));
    all.find().unwrap();
    all.look();
    let mut kept = Vec::new();
    (0..20).for_each(|_| kept.push(reels[1].0.alloc(1 << 20).unwrap()));
    (0..2).for_each(|_| all.look());
    let mut view = View::default();
    view.take(&mut all);
    let wide = screen(&view, 80, 30);
    for part in [
        "memreel watch: 2 processes by bytes",
        ">    1",
        "rank 1 device 0",
        "live 29.00 MiB",
        "out of memory",
        "1 failed request, the latest for 2.00 GiB: ",
        "grew most since the watch started",
        "20.00 MiB  ",
        "? help",
    ] {
        assert!(wide.contains(part), "{part}:\n{wide}");
    }
    for (width, height) in [(40, 30), (40, 5), (10, 3), (1, 1), (300, 100)] {
        let small = screen(&view, width, height);
        assert!(small.lines().all(|line| line.chars().count() <= usize::from(width)), "{small}");
        assert!(width < 40 || small.contains("memreel watch: 2 processes"), "{small}");
    }
    // The other process is selected, by the list and by a filter.
    view.select(1);
    view.take(&mut all);
    assert!(screen(&view, 80, 30).contains("rank 0 device 0"));
    type_keys(&mut view, "/rank 1");
    view.take(&mut all);
    let filtered = screen(&view, 80, 30);
    assert!(filtered.contains("rank 1 device 0") && filtered.contains("show only: rank 1_"), "{filtered}");
    assert!(!filtered.contains(">    0"), "{filtered}");
    press(&mut view, KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    type_keys(&mut view, "f?");
    let help = screen(&view, 80, 30);
    assert!(help.contains("frozen") && help.contains("write a snapshot and open its page"), "{help}");
    type_keys(&mut view, "?oo");
    assert!(screen(&view, 80, 30).contains("by rank"));
    assert_eq!(view.processes[0].rank.as_deref(), Some("0"));
    assert_eq!(
        [type_keys(&mut view, "s"), type_keys(&mut view, "p"), type_keys(&mut view, "q")],
        [KeyRequest::Snapshot, KeyRequest::Page, KeyRequest::Quit]
    );
    drop((reels, kept));
    (0..2).for_each(|_| all.look());
    view.take(&mut all);
    assert!(screen(&view, 80, 30).contains("ended") && !all.is_running());
}
