//! The actions of the screen's keys.

#![forbid(unsafe_code)]

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::View;

/// What a key requests of the program, outside the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyRequest {
    Nothing,
    /// The figures of the selected process are to be made again.
    Figures,
    /// Write a snapshot of the selected process.
    Snapshot,
    /// Write a snapshot and show it in a browser.
    Page,
    Quit,
}

/// The keys with their actions.
pub(super) const KEYS: [(&str, &str); 9] = [
    ("up, down, k, j", "select a process"),
    ("page up, page down", "scroll"),
    ("o", "order by bytes, allocations or rank"),
    ("/", "show only lines that contain a text; Esc cancels"),
    ("f, space", "freeze or resume the screen"),
    ("s", "write a snapshot of the process"),
    ("p", "write a snapshot and open its page"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// Changes the view as a key asks.
pub(super) fn press(view: &mut View, key: KeyEvent) -> KeyRequest {
    if key.kind == KeyEventKind::Release {
        return KeyRequest::Nothing;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if has_control => return KeyRequest::Quit,
        KeyCode::Char(c) if view.is_typing => view.filter.push(c),
        KeyCode::Backspace if view.is_typing => drop(view.filter.pop()),
        KeyCode::Enter if view.is_typing => view.is_typing = false,
        KeyCode::Esc if view.has_help => view.has_help = false,
        KeyCode::Esc => {
            view.filter.clear();
            view.is_typing = false;
        }
        KeyCode::Char('q') => return KeyRequest::Quit,
        KeyCode::Char('s') => return KeyRequest::Snapshot,
        KeyCode::Char('p') => return KeyRequest::Page,
        KeyCode::Char('f' | ' ') => view.is_frozen = !view.is_frozen,
        KeyCode::Char('?' | 'h') => view.has_help = !view.has_help,
        KeyCode::Char('/') => view.is_typing = true,
        KeyCode::Char('o') => {
            view.order = view.order.next();
            view.sort();
        }
        KeyCode::Up | KeyCode::Char('k') => {
            view.select(-1);
            return KeyRequest::Figures;
        }
        KeyCode::Down | KeyCode::Char('j') => {
            view.select(1);
            return KeyRequest::Figures;
        }
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(10),
        KeyCode::PageDown => view.scroll = view.scroll.saturating_add(10),
        _ => {}
    }
    KeyRequest::Nothing
}
