//! The data files: their place in the repository, and their text, which may be compressed with gzip.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::RecordError;

/// Returns the path of a file or folder in the repository.
pub(super) fn in_repository(path: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).join(path)
}

/// Returns an error about a file.
pub(super) fn failed(file: &Path, error: &impl ToString) -> RecordError {
    RecordError::File {
        file: file.to_owned(),
        message: error.to_string(),
    }
}

/// Reads a file. Decompresses it if its name ends in `.gz`.
pub(super) fn read(file: &Path) -> Result<String, RecordError> {
    let bytes = fs::read(file).map_err(|error| failed(file, &error))?;
    let mut text = String::new();
    let result = if is_compressed(file) {
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)
    } else {
        bytes.as_slice().read_to_string(&mut text)
    };
    result.map_err(|error| failed(file, &error))?;
    Ok(text)
}

/// Writes a file. Compresses it if its name ends in `.gz`.
pub(super) fn write(file: &Path, text: &str) -> Result<(), RecordError> {
    let result = if is_compressed(file) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder
            .write_all(text.as_bytes())
            .and_then(|()| encoder.finish())
            .and_then(|bytes| fs::write(file, bytes))
    } else {
        fs::write(file, text)
    };
    result.map_err(|error| failed(file, &error))
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}
