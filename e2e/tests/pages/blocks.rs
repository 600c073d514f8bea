//! A parser of the fenced code blocks in a Markdown page.

/// A fenced code block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Text after the opening fence. The tests run all `sh` blocks. Most `bash` blocks need programs that the tests
    /// lack.
    pub(crate) language: String,
    /// Lines of the block. If the block is part of a list, the indentation of the list is removed.
    pub(crate) text: String,
}

impl Block {
    /// Returns the command lines of a shell block. Continued lines are joined, and the contents of here-documents are
    /// omitted.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        let mut end = None;
        for line in self.text.replace("\\\n", " ").lines() {
            match end {
                Some(word) if line.trim() == word => end = None,
                Some(_) => {}
                None => {
                    if line.contains("<<END") {
                        end = Some("END");
                    }
                    commands.push(line.trim().to_owned());
                }
            }
        }
        commands.retain(|command| !command.is_empty());
        commands
    }
}

/// Returns the fenced code blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for line in page.lines() {
        let indent = line.len() - line.trim_start().len();
        let fence = line.trim_start().strip_prefix("```");
        open = match (open, fence) {
            (None, None) => None,
            (None, Some(language)) => {
                let block = Block {
                    language: language.to_owned(),
                    text: String::new(),
                };
                Some((indent, block))
            }
            (Some((_, block)), Some("")) => {
                blocks.push(block);
                None
            }
            (Some((indent, mut block)), _) => {
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
                Some((indent, block))
            }
        };
    }
    assert!(open.is_none(), "a block does not end: {open:?}");
    blocks
}

/// A block in a list item loses the indentation of the item. A continued command line in the block is joined.
#[test]
fn blocks_lose_the_indentation_of_their_list() {
    let page = "1. Do:\n\n   ```sh\n   a \\\n     b\n   c <<END\n   kind: d\n   END\n   ```\n";
    let blocks = blocks(page);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].language, "sh");
    assert_eq!(blocks[0].commands(), ["a    b", "c <<END"]);
}
