//! The view settings of the screen, which the user changes with keys: scroll positions, filter and help.

use super::keys::Key;

/// A part of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    Clusters,
    #[default]
    Bindings,
    Events,
}

/// Effect of a pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    Draw,
    Quit,
}

/// Settings of the view.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The pane that the keys scroll.
    pub(super) focus: Pane,
    /// Number of hidden lines above the shown clusters.
    clusters: usize,
    /// Number of hidden lines above the shown bindings.
    bindings: usize,
    /// Number of hidden lines below the shown events. The newest event is the last line.
    events: usize,
    pub(super) filter: String,
    /// True while the user edits the filter.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    /// Number of visible lines of the focused pane.
    page: usize,
}

impl View {
    /// Reports whether a text passes the filter.
    pub(super) fn admits(&self, text: &str) -> bool {
        self.filter.is_empty() || text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Returns the index of the first visible line of a pane with `count` lines, of which `height` lines fit. Limits
    /// the scroll position, so that the user cannot scroll beyond the last line.
    pub(super) fn first(&mut self, pane: Pane, count: usize, height: usize) -> usize {
        if pane == self.focus {
            self.page = height;
        }
        let last = count.saturating_sub(height);
        let offset = self.offset(pane);
        *offset = (*offset).min(last);
        match pane {
            Pane::Events => last - *offset,
            Pane::Clusters | Pane::Bindings => *offset,
        }
    }

    fn offset(&mut self, pane: Pane) -> &mut usize {
        match pane {
            Pane::Clusters => &mut self.clusters,
            Pane::Bindings => &mut self.bindings,
            Pane::Events => &mut self.events,
        }
    }

    /// Updates the settings after a key press.
    pub(super) fn press(&mut self, key: Key) -> Reaction {
        if self.is_typing {
            self.edit(key);
            return Reaction::Draw;
        }
        if self.shows_help {
            self.shows_help = false;
            return if key == Key::Char('q') {
                Reaction::Quit
            } else {
                Reaction::Draw
            };
        }
        let page = self.page.max(1);
        match key {
            Key::Char('q') => return Reaction::Quit,
            Key::Char('?') => self.shows_help = true,
            Key::Char('/') => self.is_typing = true,
            Key::Escape => self.filter.clear(),
            Key::Tab => {
                self.focus = match self.focus {
                    Pane::Clusters => Pane::Bindings,
                    Pane::Bindings => Pane::Events,
                    Pane::Events => Pane::Clusters,
                }
            }
            Key::Up | Key::Char('k') => self.scroll(1, Direction::Up),
            Key::Down | Key::Char('j') => self.scroll(1, Direction::Down),
            Key::PageUp => self.scroll(page, Direction::Up),
            Key::PageDown | Key::Char(' ') => self.scroll(page, Direction::Down),
            Key::Home | Key::Char('g') => self.scroll(usize::MAX, Direction::Up),
            Key::End | Key::Char('G') => self.scroll(usize::MAX, Direction::Down),
            Key::Enter | Key::Backspace | Key::Char(_) => {}
        }
        Reaction::Draw
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(c) => self.filter.push(c),
            _ => {}
        }
    }

    fn scroll(&mut self, lines: usize, direction: Direction) {
        let counts_from_end = self.focus == Pane::Events;
        let offset = self.offset(self.focus);
        *offset = if (direction == Direction::Down) == counts_from_end {
            offset.saturating_sub(lines)
        } else {
            offset.saturating_add(lines)
        };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, keys: &str) -> Reaction {
        let keys = keys.chars().map(Key::Char);
        keys.fold(Reaction::Draw, |_, key| view.press(key))
    }

    #[test]
    fn scrolling_stops_at_both_ends() {
        let mut view = View::default();
        let first = |view: &mut View| view.first(Pane::Bindings, 100, 10);
        assert_eq!(first(&mut view), 0);
        for (key, expected) in [
            (Key::Up, 0),
            (Key::Down, 1),
            (Key::Char('j'), 2),
            (Key::Char('k'), 1),
            (Key::PageDown, 11),
            (Key::PageUp, 1),
            (Key::End, 90),
            (Key::Down, 90),
            (Key::Up, 89),
            (Key::Home, 0),
        ] {
            assert_eq!(view.press(key), Reaction::Draw);
            assert_eq!(first(&mut view), expected, "{key:?}");
        }
        assert_eq!(view.first(Pane::Bindings, 5, 10), 0);
    }

    #[test]
    fn the_events_pane_initially_shows_the_newest_events() {
        let mut view = View::default();
        assert_eq!(view.first(Pane::Events, 50, 10), 40);
        view.press(Key::Tab);
        assert_eq!(view.first(Pane::Events, 50, 10), 40);
        for (key, expected) in [
            (Key::Up, 39),
            (Key::PageUp, 29),
            (Key::Home, 0),
            (Key::End, 40),
        ] {
            view.press(key);
            assert_eq!(view.first(Pane::Events, 50, 10), expected, "{key:?}");
        }
    }

    #[test]
    fn a_filter_is_edited_kept_and_cleared() {
        let mut view = View::default();
        assert_eq!(press(&mut view, "/Wqb"), Reaction::Draw);
        view.press(Key::Backspace);
        assert_eq!(view.filter, "Wq");
        assert!(view.admits("the wq one") && !view.admits("the other"));
        view.press(Key::Enter);
        assert!(!view.is_typing && view.filter == "Wq");
        view.press(Key::Escape);
        assert!(view.admits("the other"));
        press(&mut view, "/x");
        view.press(Key::Escape);
        assert!(!view.is_typing && view.filter.is_empty());
    }

    #[test]
    fn q_quits_and_any_key_closes_the_help() {
        let mut view = View::default();
        press(&mut view, "?");
        assert!(view.shows_help);
        assert_eq!(press(&mut view, "x"), Reaction::Draw);
        assert!(!view.shows_help);
        assert_eq!(press(&mut view, "?q"), Reaction::Quit);
        assert_eq!(press(&mut view, "q"), Reaction::Quit);
    }
}
