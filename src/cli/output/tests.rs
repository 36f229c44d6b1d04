//! Tests which text goes to which stream.

use super::*;
use crate::cli::OpErrorKind;
use crate::ops::NextStep;

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Pipe {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn wired(around: TerminalInfo, flags: &GlobalArgs) -> (Output, Pipe, Pipe) {
    let (out, err) = (Pipe::default(), Pipe::default());
    let output = Output::new(Box::new(out.clone()), Box::new(err.clone()), around, flags);
    (output, out, err)
}

fn piped(flags: &GlobalArgs) -> (Output, Pipe, Pipe) {
    wired(TerminalInfo { width: Some(80), ..TerminalInfo::default() }, flags)
}

#[test]
fn a_failure_is_printed_as_text_and_as_json() {
    let (output, out, err) = piped(&GlobalArgs { json: true, ..GlobalArgs::default() });
    let failure =
        CliError::new(OpErrorKind::Vault, "bad \u{1b}[2J").details(["one".into()]).hint("do");
    output.failure(&failure);
    assert_eq!(err.text(), "error: bad \\u{1b}[2J\n  one\nhint: do\n");
    assert!(out.text().starts_with(r#"{"format":1,"error":{"kind":"vault""#));
}

#[test]
fn quiet_keeps_answers_and_warnings() {
    let (output, out, err) = piped(&GlobalArgs { quiet: true, ..GlobalArgs::default() });
    output.note("note");
    output.summary("summary").unwrap();
    output.warn("warning");
    output.line("answer").unwrap();
    assert_eq!((out.text().as_str(), err.text().as_str()), ("answer\n", "warning: warning\n"));
}

#[test]
fn a_summary_goes_to_stderr_with_json() {
    let (output, out, err) = piped(&GlobalArgs { json: true, ..GlobalArgs::default() });
    output.summary("summary").unwrap();
    output.json(&serde_json::json!({"format": 1})).unwrap();
    assert_eq!((out.text().as_str(), err.text().as_str()), ("{\"format\":1}\n", "summary\n"));
}

#[test]
fn a_table_is_wrapped_only_where_the_width_is_known() {
    let lines = |width| {
        let around = TerminalInfo { width, ..TerminalInfo::default() };
        let (output, out, _) = wired(around, &GlobalArgs::default());
        let mut table = TextTable::new(&["name", "what"]);
        table.row(["a", &"word ".repeat(400)]);
        output.table(table).unwrap();
        out.text().lines().count()
    };
    assert_eq!(lines(None), 2);
    assert!(lines(Some(80)) > 20);
}

#[test]
fn a_question_without_a_terminal_is_an_error_unless_yes_is_passed() {
    let (output, ..) = piped(&GlobalArgs::default());
    let refused = output.confirm("Delete?", false).unwrap_err();
    assert_eq!(refused.message, "cannot ask \"Delete?\" without a terminal; nothing was written");
    assert_eq!(refused.next.as_deref(), Some(&NextStep::Confirm));
    assert_eq!(output.confirm("Delete?", true), Ok(true));
}

#[test]
fn colours_are_printed_to_terminals_unless_disabled() {
    let terminal = TerminalInfo { stdout_terminal: true, ..TerminalInfo::default() };
    let painted = |around, color| {
        let flags = GlobalArgs { color, ..GlobalArgs::default() };
        wired(around, &flags).0.paint(Paint::Added, "x") != "x"
    };
    assert!(painted(terminal, ColorChoice::Auto));
    assert!(!painted(TerminalInfo { no_color: true, ..terminal }, ColorChoice::Auto));
    assert!(!painted(TerminalInfo::default(), ColorChoice::Auto));
    assert!(painted(TerminalInfo::default(), ColorChoice::Always));
    assert!(!painted(terminal, ColorChoice::Never));
}
