//! A writer of HTML. The names of elements and attributes are `'static` strings in the code. All other text is escaped.

use std::fmt::{self, Display, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Elements without content.
const VOID: [&str; 4] = ["input", "link", "meta", "rect"];

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

/// A piece of HTML text.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    /// Returns the HTML text.
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Returns the length of the text so far, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a hash of the text from the byte offset `start` to the end.
    pub(crate) fn fingerprint(&self, start: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.get(start..).hash(&mut hasher);
        hasher.finish()
    }

    /// Appends the document type.
    pub(crate) fn doctype(&mut self) {
        self.0.push_str("<!doctype html>");
    }

    /// Appends escaped text.
    pub(crate) fn text(&mut self, text: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(Escaper(&mut self.0), "{text}");
    }

    /// Appends an element.
    pub(crate) fn el(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        content: impl FnOnce(&mut Self),
    ) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            let _ = write!(Escaper(&mut self.0), "{value}");
            self.0.push('"');
        }
        self.0.push('>');
        if VOID.contains(&name) {
            if name == "rect" {
                self.0.push_str("</rect>");
            }
            return;
        }
        content(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Appends an element that contains only text.
    pub(crate) fn leaf(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        text: impl Display,
    ) {
        self.el(name, attributes, |html| html.text(text));
    }

    /// Appends an element without content.
    pub(crate) fn void(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.el(name, attributes, |_| {});
    }
}

/// A writer that escapes text for the content of elements and for quoted attributes.
struct Escaper<'a>(&'a mut String);

impl fmt::Write for Escaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut html = Html::default();
        let hostile = "\"><script>alert('1')&</script>";
        html.el("a", &[("title", &hostile)], |html| html.text(hostile));
        let escaped = "&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&amp;&lt;/script&gt;";
        assert_eq!(
            html.into_string(),
            format!("<a title=\"{escaped}\">{escaped}</a>")
        );
    }

    #[test]
    fn void_elements_have_no_content() {
        let mut html = Html::default();
        html.void("input", &[("name", &"q")]);
        html.void("rect", &[("width", &3)]);
        assert_eq!(
            html.into_string(),
            "<input name=\"q\"><rect width=\"3\"></rect>"
        );
    }
}
