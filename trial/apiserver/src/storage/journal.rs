//! The journal of recent changes, each with the state of its object before the change. With the journal, watches can
//! resume and old versions can be listed after a restart.
//!
//! The journal consists of two append-only files. When the newer file is full, it replaces the older file. A batch is
//! written to the journal before it is written to the database. Opening keeps the latest changes up to the version of
//! the database, and drops damaged changes and all changes before a gap. A dropped change only shortens the history.
//! The journal must not know what objects contain.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prost::Message;

use super::{Past, Record, Undone, Written};

/// Size in bytes at which the newer file is full.
const MAX_SIZE: u64 = 16 << 20;
/// Size in bytes of the length and the checksum before each frame.
const HEAD: usize = 8;

/// The protobuf message that stores a change in the two files.
#[derive(Clone, PartialEq, Message)]
struct Frame {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(string, tag = "2")]
    table: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "4")]
    name: String,
    /// The object before the change. Absent if the change created the object.
    #[prost(bytes = "bytes", optional, tag = "5")]
    before: Option<Bytes>,
    /// The last state of a deleted object. Absent for other changes.
    #[prost(bytes = "bytes", optional, tag = "6")]
    last: Option<Bytes>,
}

impl Frame {
    fn of(record: &Record) -> Self {
        let (before, last) = match &record.written {
            Written::Created { .. } => (None, None),
            Written::Replaced { before, .. } => (Some(before.clone()), None),
            Written::Removed { before, last } => (Some(before.clone()), Some(last.clone())),
        };
        Self {
            version: record.version,
            table: record.table.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            before,
            last,
        }
    }

    fn past(self) -> Past {
        // The bytes are copied, because a slice would keep the whole file in memory.
        let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
        let undone = match (self.before, self.last) {
            (None, _) => Undone::Created,
            (Some(before), None) => Undone::Replaced {
                before: own(before),
            },
            (Some(before), Some(last)) => Undone::Removed {
                before: own(before),
                last: own(last),
            },
        };
        Past {
            table: self.table.into(),
            namespace: self.namespace.into(),
            name: self.name.into(),
            version: self.version,
            undone,
        }
    }
}

/// The names of the two files.
const NEWER: &str = "changes.log";
const OLDER: &str = "changes.older.log";

/// The open journal.
#[derive(Debug)]
pub(super) struct Journal {
    newer: PathBuf,
    older: PathBuf,
    file: File,
    length: u64,
    /// Size at which the newer file is full.
    max_size: u64,
    batch: Vec<u8>,
}

/// Reports whether a folder has a journal with changes.
pub(super) fn exists(folder: &Path) -> bool {
    [NEWER, OLDER]
        .iter()
        .any(|name| fs::metadata(folder.join(name)).is_ok_and(|file| file.len() > 0))
}

impl Journal {
    /// Opens the journal of a folder. Returns the journal and its changes up to `version`, in version order and without
    /// gaps. Returns no changes if the change with this version is damaged or missing.
    pub(super) fn open(folder: &Path, version: u64) -> io::Result<(Self, Vec<Past>)> {
        Self::open_with(folder, version, MAX_SIZE)
    }

    fn open_with(folder: &Path, version: u64, max_size: u64) -> io::Result<(Self, Vec<Past>)> {
        let (newer, older) = (folder.join(NEWER), folder.join(OLDER));
        let mut recent = read(&newer, version)?;
        let mut past = read(&older, version)?.frames;
        if recent.last() != Some(version) {
            // A crash after the newer file became the older file leaves an empty newer file. Then the older file must
            // end at `version`.
            if !recent.frames.is_empty() || past.last().map(|f| f.version) != Some(version) {
                past.clear();
                recent.frames.clear();
                recent.length = 0;
            }
        }
        past.append(&mut recent.frames);
        let gap = past
            .windows(2)
            .rposition(|w| w[0].version + 1 != w[1].version);
        past.drain(..gap.map_or(0, |at| at + 1));
        let file = append(&newer)?;
        // Removes the dropped changes from the end of the newer file, so that new changes follow the last kept change.
        file.set_len(recent.length)?;
        let journal = Self {
            newer,
            older,
            file,
            length: recent.length,
            max_size,
            batch: Vec::new(),
        };
        Ok((journal, past.into_iter().map(Frame::past).collect()))
    }

    /// Appends a batch of changes.
    pub(super) fn append(&mut self, batch: &[Record]) -> io::Result<()> {
        if self.length >= self.max_size {
            fs::rename(&self.newer, &self.older)?;
            self.file = append(&self.newer)?;
            self.length = 0;
        }
        self.batch.clear();
        for record in batch {
            let frame = Frame::of(record);
            let start = self.batch.len();
            self.batch.extend([0; HEAD]);
            frame.encode(&mut self.batch).map_err(io::Error::other)?;
            let content = &self.batch[start + HEAD..];
            let length = u32::try_from(content.len()).map_err(io::Error::other)?;
            let sum = crc32fast::hash(content);
            self.batch[start..start + 4].copy_from_slice(&length.to_le_bytes());
            self.batch[start + 4..start + HEAD].copy_from_slice(&sum.to_le_bytes());
        }
        self.file.write_all(&self.batch)?;
        self.length += self.batch.len() as u64;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The frames of a file up to a version, and their size in bytes.
#[derive(Default)]
struct Content {
    frames: Vec<Frame>,
    length: u64,
}

impl Content {
    fn last(&self) -> Option<u64> {
        self.frames.last().map(|frame| frame.version)
    }
}

fn read(path: &Path, version: u64) -> io::Result<Content> {
    let bytes = match fs::read(path) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(error),
    };
    let mut content = Content::default();
    let mut rest = bytes.clone();
    while let Some(frame) = next(&mut rest).filter(|frame| frame.version <= version) {
        content.length = (bytes.len() - rest.len()) as u64;
        content.frames.push(frame);
    }
    Ok(content)
}

/// Returns the next frame if it is complete and undamaged.
fn next(rest: &mut Bytes) -> Option<Frame> {
    let word = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?));
    let (length, sum) = (usize::try_from(word(0)?).ok()?, word(4)?);
    if rest.len() - HEAD < length {
        return None;
    }
    let content = rest.slice(HEAD..HEAD + length);
    if crc32fast::hash(&content) != sum {
        return None;
    }
    *rest = rest.slice(HEAD + length..);
    Frame::decode(content).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn record(version: u64, written: Written) -> Record {
        Record {
            table: "things".into(),
            namespace: "n".into(),
            name: "a".into(),
            version,
            written,
        }
    }

    fn created(version: u64) -> Record {
        record(
            version,
            Written::Created {
                object: bytes("new"),
            },
        )
    }

    fn versions(folder: &Path, version: u64) -> Vec<u64> {
        let (_, past) = Journal::open(folder, version).unwrap();
        past.iter().map(|p| p.version).collect()
    }

    #[test]
    fn changes_are_read_with_the_state_before_the_change() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, past) = Journal::open(folder.path(), 0).unwrap();
        assert!(past.is_empty());
        let replaced = Written::Replaced {
            before: bytes("one"),
            object: bytes("two"),
        };
        let removed = Written::Removed {
            before: bytes("two"),
            last: bytes("end"),
        };
        journal.append(&[created(2), record(3, replaced)]).unwrap();
        journal.append(&[record(4, removed)]).unwrap();
        let (_, past) = Journal::open(folder.path(), 4).unwrap();
        let undone: Vec<_> = past.iter().map(|p| (p.version, p.undone.clone())).collect();
        let expected = [
            (2, Undone::Created),
            (
                3,
                Undone::Replaced {
                    before: bytes("one"),
                },
            ),
            (
                4,
                Undone::Removed {
                    before: bytes("two"),
                    last: bytes("end"),
                },
            ),
        ];
        assert_eq!(undone, expected);
        assert_eq!(&*past[0].table, "things");
    }

    #[test]
    fn incomplete_and_uncommitted_changes_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), 0).unwrap();
        journal
            .append(&[created(2), created(3), created(4)])
            .unwrap();
        drop(journal);
        assert_eq!(versions(folder.path(), 3), [2, 3]);
        // The journal accepts a version that a dropped change used before.
        let (mut journal, _) = Journal::open(folder.path(), 3).unwrap();
        journal.append(&[created(4), created(5)]).unwrap();
        let path = folder.path().join(NEWER);
        let length = fs::metadata(&path).unwrap().len();
        append(&path).unwrap().write_all(&[9, 0, 0]).unwrap();
        assert_eq!(versions(folder.path(), 5), [2, 3, 4, 5]);
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
    }

    #[test]
    fn changes_before_a_gap_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path(), 0).unwrap();
        journal.append(&[created(2), created(3)]).unwrap();
        // The database has later changes than the journal.
        assert_eq!(versions(folder.path(), 7), [0; 0]);
        let (mut journal, _) = Journal::open(folder.path(), 7).unwrap();
        journal.append(&[created(8)]).unwrap();
        assert_eq!(versions(folder.path(), 8), [8]);
        let path = folder.path().join(NEWER);
        let mut bytes = fs::read(&path).unwrap();
        bytes[HEAD + 2] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(
            versions(folder.path(), 8),
            [0; 0],
            "the damaged change is dropped"
        );
    }

    /// Opens a damaged journal, and returns its changes. Checks that a further change can be appended.
    fn damaged(folder: &Path, version: u64, full: u64) -> Vec<Past> {
        let (mut journal, past) = Journal::open_with(folder, version, full).unwrap();
        journal.append(&[created(version + 1)]).unwrap();
        let (_, after) = Journal::open_with(folder, version + 1, full).unwrap();
        let last = after.last().unwrap();
        assert_eq!(
            (last.version, &last.undone),
            (version + 1, &Undone::Created)
        );
        assert_eq!(after.len(), past.len() + 1);
        past
    }

    #[test]
    fn corrupt_bytes_never_yield_wrong_changes() {
        const LAST: u64 = 24;
        let folder = tempfile::tempdir().unwrap();
        let full = 400;
        let (mut journal, _) = Journal::open_with(folder.path(), 0, full).unwrap();
        for version in 2..=LAST {
            let before = bytes(&format!("before {version}"));
            let written = match version % 3 {
                0 => Written::Created { object: bytes("") },
                1 => Written::Removed {
                    last: before.clone(),
                    before,
                },
                _ => Written::Replaced {
                    before,
                    object: bytes(""),
                },
            };
            journal.append(&[record(version, written)]).unwrap();
        }
        let (_, whole) = Journal::open_with(folder.path(), LAST, full).unwrap();
        let shown = |past: &Past| (past.version, past.undone.clone());
        let whole: Vec<_> = whole.iter().map(shown).collect();
        assert!(whole.len() > 12, "{}", whole.len());
        let files = [NEWER, OLDER].map(|name| folder.path().join(name));
        let contents = files.clone().map(|file| fs::read(file).unwrap());
        let check = |damage: &dyn Fn(&mut Vec<u8>), which: usize, at: usize| {
            for (file, content) in files.iter().zip(&contents) {
                fs::write(file, content).unwrap();
            }
            let mut content = contents[which].clone();
            damage(&mut content);
            fs::write(&files[which], content).unwrap();
            let past = damaged(folder.path(), LAST, full);
            let found: Vec<_> = past.iter().map(shown).collect();
            assert!(whole.ends_with(&found), "{which} {at}: {found:?}");
        };
        for (which, content) in contents.iter().enumerate() {
            for at in 0..content.len() {
                check(&|content| content[at] ^= 1 << (at % 8), which, at);
                if at % 5 != 0 {
                    continue;
                }
                check(&|content| content.truncate(at), which, at);
                // Some file systems leave zeros instead of the lost end of a file.
                check(&|content| content[at..].fill(0), which, at);
                check(
                    &|content| content.splice(at..=at, []).for_each(drop),
                    which,
                    at,
                );
            }
            check(&|content| content.extend([0; 64]), which, content.len());
            check(
                &|content| content.extend_from_within(..),
                which,
                content.len(),
            );
        }
    }

    #[test]
    fn the_files_have_a_maximum_size() {
        let folder = tempfile::tempdir().unwrap();
        let open = |version| Journal::open_with(folder.path(), version, 1000).unwrap();
        let (mut journal, _) = open(0);
        for version in 2..500 {
            journal.append(&[created(version)]).unwrap();
            let sizes =
                [NEWER, OLDER].map(|n| fs::metadata(folder.path().join(n)).map_or(0, |m| m.len()));
            assert!(sizes.iter().sum::<u64>() <= 2100, "{sizes:?}");
            // Reopens the journal, as a restart does.
            let (again, past) = open(version);
            journal = again;
            let first = past.first().unwrap().version;
            let expected: Vec<u64> = (first..=version).collect();
            let found: Vec<u64> = past.iter().map(|p| p.version).collect();
            assert_eq!(found, expected);
            assert!(version < 40 || past.len() > 30, "{version}: {}", past.len());
        }
    }
}
