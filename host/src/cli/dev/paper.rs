//! What the author sees: the chat, the builder and the guest's own lines write to one terminal, or to two pipes, and none
//! into the middle of another's line.

use std::{
    io::{self, IsTerminal as _, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use crate::cli::chat::{Detail, Piece, Screen, Show};

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();

type Out = Box<dyn Write + Send>;

/// The paper that all write on. Cloning is shallow.
#[derive(Clone)]
pub(super) struct Paper {
    sheet: Arc<Mutex<Sheet>>,
}

/// What the paper is.
#[derive(Clone, Copy)]
struct Kind {
    terminal: bool,
    person: bool,
}

struct Sheet {
    screen: Screen<Out, Out>,
    /// Whether answers and remarks are seen on one terminal.
    terminal: bool,
    /// Whether a person types what is said.
    person: bool,
    /// Whether the prompt stands there, and waits.
    prompted: bool,
}

impl Paper {
    /// A terminal, or two pipes. `person` says whether somebody types there what is said.
    pub(super) fn new(person: bool) -> Self {
        let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        Self::on(Box::new(anstream::stdout()), Box::new(anstream::stderr()), Kind { terminal, person })
    }

    fn on(out: Out, err: Out, kind: Kind) -> Self {
        let Kind { terminal, person } = kind;
        let screen = Screen::new(out, err, Detail::Talk);
        Self { sheet: Arc::new(Mutex::new(Sheet { screen, terminal, person, prompted: false })) }
    }

    /// Whether a person types what is said.
    pub(super) fn is_a_persons(&self) -> bool {
        self.lock().person
    }

    /// Whether colours are seen on it.
    pub(super) fn has_colours() -> bool {
        anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
    }

    /// Asks for the next line, where a person is there to type it.
    pub(super) fn prompt(&self) -> io::Result<()> {
        let mut sheet = self.lock();
        if sheet.person {
            sheet.screen.prompt()?;
            sheet.prompted = true;
        }
        Ok(())
    }

    /// The line was typed: the cursor stands below it.
    pub(super) fn typed(&self) {
        self.lock().prompted = false;
    }

    /// Leaves the line on which the prompt waits.
    pub(super) fn leave(&self) {
        let mut sheet = self.lock();
        if std::mem::take(&mut sheet.prompted) {
            // Who does not see this sees nothing else either.
            drop(sheet.screen.new_line());
        }
    }

    /// Says something beside the chat, in its own style.
    pub(super) fn aside(&self, lines: &str) {
        let mut sheet = self.lock();
        let Sheet { screen, terminal, prompted, .. } = &mut *sheet;
        let said = (|| {
            if *prompted {
                screen.take_prompt()?;
            }
            screen.aside(lines, *terminal)?;
            if *prompted { screen.prompt() } else { Ok(()) }
        })();
        // A chat whose answers nobody reads ends by itself; remarks alone may be lost.
        drop(said);
    }

    /// Says what is only for whoever looks closely.
    pub(super) fn dim(&self, lines: &str) {
        self.aside(&format!("{DIM}{lines}{DIM:#}"));
    }

    /// Says what went wrong with the chat.
    pub(super) fn error(&self, text: &str) -> io::Result<()> {
        self.lock().screen.error(text)
    }

    /// Closes a turn.
    pub(super) fn end_turn(&self) -> io::Result<()> {
        self.lock().screen.end_turn()
    }

    fn lock(&self) -> MutexGuard<'_, Sheet> {
        self.sheet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Show for Paper {
    fn frame(&mut self, frame: &Value, piece: Piece) -> io::Result<()> {
        let screen = &mut self.lock().screen;
        match piece {
            // Why the agent failed is said here, and in no log.
            Piece::Stand(text) => {
                screen.frame(frame, Piece::Break)?;
                screen.frame(frame, Piece::Answer(text))
            }
            piece => screen.frame(frame, piece),
        }
    }

    fn hint(&mut self, text: &str) -> io::Result<()> {
        self.lock().screen.hint(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written, all of it in one place.
    #[derive(Clone, Default)]
    struct Ink(Arc<Mutex<Vec<u8>>>);

    impl Write for Ink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Ink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn chat(paper: &Paper, text: &str) {
        paper.clone().frame(&Value::Null, Piece::Answer(text.to_owned())).unwrap();
    }

    #[test]
    fn on_a_terminal_a_remark_has_its_own_line_and_the_prompt_comes_back() {
        let ink = Ink::default();
        let paper = Paper::on(Box::new(ink.clone()), Box::new(ink.clone()), Kind { terminal: true, person: true });
        paper.prompt().unwrap();
        paper.aside("live");
        paper.typed();
        chat(&paper, "one");
        paper.aside("log");
        chat(&paper, "two");
        paper.end_turn().unwrap();
        paper.leave();
        assert_eq!(ink.text(), "> \r\u{1b}[Klive\n> one\nlog\ntwo\n");
    }

    #[test]
    fn between_two_pipes_no_remark_breaks_an_answer() {
        let (out, err) = (Ink::default(), Ink::default());
        let paper = Paper::on(Box::new(out.clone()), Box::new(err.clone()), Kind { terminal: false, person: false });
        paper.prompt().unwrap();
        chat(&paper, "one");
        paper.aside("log");
        chat(&paper, " two");
        paper.end_turn().unwrap();
        assert_eq!((out.text().as_str(), err.text().as_str()), ("one two\n", "log\n"));
    }

    #[test]
    fn what_the_host_says_for_an_agent_has_no_hint_to_a_log() {
        let (out, err) = (Ink::default(), Ink::default());
        let mut paper =
            Paper::on(Box::new(out.clone()), Box::new(err.clone()), Kind { terminal: false, person: false });
        chat(&paper, "half");
        paper.frame(&Value::Null, Piece::Stand("Sorry".to_owned())).unwrap();
        paper.end_turn().unwrap();
        assert_eq!((out.text().as_str(), err.text().as_str()), ("half\nSorry\n", ""));
    }
}
