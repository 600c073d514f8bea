//! A reader of decision logs. If the writer of a file was killed, the reader returns the complete entries of the file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::files;
use super::format::{API_VERSION, Entry};

/// The reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A folder contains no log.
    #[error("{} contains no decisions-*.jsonl.gz: pass the folder of --decision-log", .0.display())]
    Empty(PathBuf),
    /// A line is malformed.
    #[error("{}:{line}: {source}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: u64,
        /// The reason.
        source: serde_json::Error,
    },
    /// The file has another version of the format.
    #[error("{}: the format is {found:?}, and this version of berth reads {API_VERSION}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the format.
        found: String,
    },
}

/// Returns the log files at these paths. For the path of a folder, the result contains the log files in the folder,
/// oldest first.
///
/// # Errors
/// When a path cannot be read, or a folder contains no log.
pub fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReadError> {
    let mut all = Vec::new();
    for path in paths {
        let failed = |source| ReadError::File {
            path: path.clone(),
            source,
        };
        if !std::fs::metadata(path).map_err(failed)?.is_dir() {
            all.push(path.clone());
            continue;
        }
        let logs = files::list(path).map_err(failed)?;
        if logs.is_empty() {
            return Err(ReadError::Empty(path.clone()));
        }
        all.extend(logs);
    }
    Ok(all)
}

/// A reader of one file, which may be compressed.
pub struct Reader {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    line: u64,
    buffer: Vec<u8>,
    truncated: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("path", &self.path)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::File {
            path: path.to_owned(),
            source,
        };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let start = file.fill_buf().map_err(failed)?;
        let is_compressed = start.starts_with(&[0x1f, 0x8b]) || start.is_empty();
        let content: Box<dyn Read> = if is_compressed {
            Box::new(MultiGzDecoder::new(file))
        } else {
            Box::new(file)
        };
        Ok(Self {
            path: path.to_owned(),
            lines: Box::new(BufReader::with_capacity(64 * 1024, content)),
            line: 0,
            buffer: Vec::new(),
            truncated: false,
        })
    }

    /// Reports whether the file ended early, for example because its writer was killed. The result is final when
    /// [`Self::next_entry`] has returned `None`.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the next entry, or `None` at the end of the file. If the file ends in the middle of an entry, the
    /// incomplete entry is skipped.
    ///
    /// # Errors
    /// When the file cannot be read, a line is malformed, or the file has another version of the format.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        loop {
            self.buffer.clear();
            match self.lines.read_until(b'\n', &mut self.buffer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.truncated = true;
                }
                Err(source) => {
                    return Err(ReadError::File {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
            self.line += 1;
            if self.buffer.last() != Some(&b'\n') {
                self.truncated |= !self.buffer.is_empty();
                return Ok(None);
            }
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            let entry = serde_json::from_slice(&self.buffer).or_else(|source| {
                let case = serde_json::from_slice(&self.buffer);
                case.map(Entry::Case).map_err(|_| ReadError::Line {
                    path: self.path.clone(),
                    line: self.line,
                    source,
                })
            })?;
            if let Entry::Header(header) = &entry
                && header.api_version != API_VERSION
            {
                return Err(ReadError::Version {
                    path: self.path.clone(),
                    found: header.api_version.clone(),
                });
            }
            return Ok(Some(entry));
        }
    }
}
