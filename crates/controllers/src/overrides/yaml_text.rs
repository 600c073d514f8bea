//! A YAML parser and formatter for overrides of YAML documents in text fields. The formatter has the same output as
//! Karmada's YAML library. Therefore the format of a document does not change if Karmada has patched the document
//! before.
//!
//! Fields are sorted. A list has the same indentation as its field. Text is quoted only if YAML 1.1 would read
//! the unquoted text as another value. Long lines are folded at spaces.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Number, Value};

/// The column after which a line is folded at the next space.
const WIDTH: usize = 80;

/// Unquoted scalars that YAML 1.1 reads as another type than text.
static NOT_TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?x)^(?: | ~ | null | Null | NULL | << ",
        r"| y | Y | yes | Yes | YES | n | N | no | No | NO | on | On | ON | off | Off | OFF",
        r"| true | True | TRUE | false | False | FALSE",
        r"| \.nan | \.NaN | \.NAN | [-+]?\.inf | [-+]?\.Inf | [-+]?\.INF",
        r"| [-+]?0[xX][0-9a-fA-F_]+ | [-+]?0[oO]?[0-7_]+ | [-+]?0[bB][01_]+ | [-+]?[0-9][0-9_]*",
        r"| [-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        r"| [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?",
        r"| [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\ ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?",
        r")$",
    ))
    .ok()
});

/// Parses a document. A number with a leading zero is octal.
pub(super) fn parse(text: &str) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options)
}

/// Formats a document.
pub(super) fn format(document: &Value) -> String {
    let mut writer = Writer {
        text: String::new(),
        column: 0,
    };
    match document {
        Value::Object(fields) if !fields.is_empty() => writer.fields(fields, 0, Begin::NewLine),
        Value::Array(items) if !items.is_empty() => writer.items(items, 0, Begin::NewLine),
        scalar => {
            writer.scalar(scalar, 0);
            writer.end_line();
        }
    }
    writer.text
}

struct Writer {
    text: String,
    column: usize,
}

/// The line of the first field or item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    NewLine,
    CurrentLine,
}

/// The role of a text. Keys are written on one line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

/// The quotes around a text that can be folded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
}

impl Writer {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn put_char(&mut self, c: char) {
        self.text.push(c);
        self.column += 1;
    }

    /// Ends the line unless it is empty.
    fn end_line(&mut self) {
        if self.column > 0 {
            self.text.push('\n');
            self.column = 0;
        }
    }

    fn begin_line(&mut self, indent: usize) {
        self.end_line();
        for _ in 0..indent {
            self.put_char(' ');
        }
    }

    /// Writes the fields of an object.
    fn fields(&mut self, fields: &Map<String, Value>, indent: usize, begin: Begin) {
        let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| natural_order(a, b));
        for (position, (key, value)) in sorted.into_iter().enumerate() {
            if position > 0 || begin == Begin::NewLine {
                self.begin_line(indent);
            }
            self.string(key, indent, Role::Key);
            self.put(":");
            match value {
                Value::Object(fields) if !fields.is_empty() => {
                    self.fields(fields, indent + 2, Begin::NewLine);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.items(items, indent, Begin::NewLine);
                }
                scalar => {
                    self.put(" ");
                    self.scalar(scalar, indent + 2);
                }
            }
        }
        self.end_line();
    }

    fn items(&mut self, items: &[Value], indent: usize, begin: Begin) {
        for (position, item) in items.iter().enumerate() {
            if position > 0 || begin == Begin::NewLine {
                self.begin_line(indent);
            }
            self.put("- ");
            match item {
                Value::Object(fields) if !fields.is_empty() => {
                    self.fields(fields, indent + 2, Begin::CurrentLine);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.items(items, indent + 2, Begin::CurrentLine);
                }
                scalar => self.scalar(scalar, indent + 2),
            }
        }
        self.end_line();
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(value) => self.put(if *value { "true" } else { "false" }),
            Value::Number(number) => {
                let text = number_text(number);
                self.put(&text);
            }
            Value::String(text) => self.string(text, indent, Role::Value),
            Value::Array(_) => self.put("[]"),
            Value::Object(_) => self.put("{}"),
        }
    }

    fn string(&mut self, text: &str, indent: usize, role: Role) {
        let traits = Traits::of(text);
        let reads_as_text = NOT_TEXT.as_ref().is_some_and(|no| !no.is_match(text));
        if text.contains('\n') {
            if traits.block && role == Role::Value {
                self.literal(text, indent);
            } else {
                self.double_quoted(text, indent, role);
            }
        } else if !reads_as_text {
            self.double_quoted(text, indent, role);
        } else if traits.plain {
            self.folded(text, indent, role, Quotes::None);
        } else if traits.single_quoted {
            self.folded(text, indent, role, Quotes::Single);
        } else {
            self.double_quoted(text, indent, role);
        }
    }

    /// Writes text without quotes or in single quotes. Long lines are folded at spaces.
    fn folded(&mut self, text: &str, indent: usize, role: Role, quotes: Quotes) {
        let is_single = quotes == Quotes::Single;
        if is_single {
            self.put_char('\'');
        }
        let mut after_space = false;
        let mut characters = text.chars().enumerate().peekable();
        while let Some((position, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let inside = position > 0 && next.is_some();
            let folds =
                role == Role::Value && !after_space && self.column > WIDTH && next != Some(' ');
            if c == ' ' && folds && (inside || !is_single) {
                self.begin_line(indent);
            } else {
                if is_single && c == '\'' {
                    self.put_char('\'');
                }
                self.put_char(c);
            }
            after_space = c == ' ';
        }
        if is_single {
            self.put_char('\'');
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, role: Role) {
        self.put_char('"');
        let mut after_space = false;
        let mut characters = text.chars().enumerate().peekable();
        while let Some((position, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let inside = position > 0 && next.is_some();
            if c == ' ' {
                let folds = role == Role::Value && !after_space && self.column > WIDTH;
                if folds && inside {
                    self.begin_line(indent);
                    if next == Some(' ') {
                        self.put_char('\\');
                    }
                } else {
                    self.put_char(' ');
                }
                after_space = true;
                continue;
            }
            after_space = false;
            let short = match c {
                '"' => '"',
                '\\' => '\\',
                '\0' => '0',
                '\u{7}' => 'a',
                '\u{8}' => 'b',
                '\t' => 't',
                '\n' => 'n',
                '\u{b}' => 'v',
                '\u{c}' => 'f',
                '\r' => 'r',
                '\u{1b}' => 'e',
                '\u{85}' => 'N',
                '\u{a0}' => '_',
                '\u{2028}' => 'L',
                '\u{2029}' => 'P',
                _ if is_printable(c) => {
                    self.put_char(c);
                    continue;
                }
                _ => {
                    let code = u32::from(c);
                    let escaped = match code {
                        0..=0xff => format!("\\x{code:02X}"),
                        0x100..=0xffff => format!("\\u{code:04X}"),
                        _ => format!("\\U{code:08X}"),
                    };
                    self.put(&escaped);
                    continue;
                }
            };
            self.put_char('\\');
            self.put_char(short);
        }
        self.put_char('"');
    }

    /// Writes text as a literal block.
    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with([' ', '\n']) {
            self.put("2");
        }
        let ends = text.len() - text.trim_end_matches('\n').len();
        match ends {
            0 => self.put("-"),
            1 if text.len() > 1 => {}
            _ => self.put("+"),
        }
        self.end_line();
        let lines = text.strip_suffix('\n').unwrap_or(text);
        for line in lines.split('\n') {
            if !line.is_empty() {
                self.begin_line(indent);
                self.put(line);
            }
            self.text.push('\n');
            self.column = 0;
        }
    }
}

/// The styles in which a text can be written.
#[derive(Clone, Copy, Debug)]
struct Traits {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Traits {
    fn of(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let (first, last) = (characters.first().copied(), characters.last().copied());
        let is_blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
        let mut has_indicator = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        // As in Karmada's library, a text with a space before a line break (`space_break`) needs double quotes. A text
        // with a space after a line break (`break_space`) can be neither unquoted nor in single quotes.
        let (mut space_break, mut break_space) = (false, false);
        for (position, &c) in characters.iter().enumerate() {
            let before = position.checked_sub(1).and_then(|p| characters.get(p));
            let after = characters.get(position + 1);
            has_indicator |= match c {
                '#' if position > 0 => is_blank(before),
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                | '%' | '@' | '`' => position == 0,
                '?' | '-' => position == 0 && is_blank(after),
                ':' => is_blank(after),
                _ => false,
            };
            special |= c != '\n' && !is_printable(c);
            space_break |= c == '\n' && before == Some(&' ');
            break_space |= c == ' ' && before == Some(&'\n');
        }
        let edge = |c: Option<char>| matches!(c, Some(' ' | '\n'));
        let broken = space_break || special;
        Self {
            plain: !has_indicator && !broken && !break_space && !edge(first) && !edge(last),
            single_quoted: !broken && !break_space,
            block: !broken && last != Some(' '),
        }
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}')
}

/// Formats a number. Whole numbers have no decimal point. Very large and very small numbers have an exponent.
fn number_text(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let Some(value) = number.as_f64() else {
        return number.to_string();
    };
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    let mut text = String::new();
    let _ = write!(text, "{value}");
    text
}

/// Compares keys in natural order. Letters follow other characters, and numbers are compared by value.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    let (x, y) = (a[at], b[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // If the numbers began before `at`, a 1 replaces their common digits. Without this 1, the zeros at `at` would be
    // lost as leading zeros, and `100` would come before `11`.
    let digits = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
    let in_number = (x == '0' || y == '0') && digits.clone().any(|c| *c != '0');
    let number = |of: &[char]| {
        let digits = of[at..].iter().take_while(|c| c.is_ascii_digit());
        let value = digits.clone().fold(i64::from(in_number), |value, c| {
            let digit = i64::from(c.to_digit(10).unwrap_or_default());
            value.wrapping_mul(10).wrapping_add(digit)
        });
        (value, digits.count())
    };
    number(&a).cmp(&number(&b)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests;
