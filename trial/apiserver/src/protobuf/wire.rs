//! The wire format of protobuf: a sequence of numbered fields. The value of each field is a number or bytes.

use crate::error::ApiError;

/// Returns the error of a truncated message.
fn cut_off() -> ApiError {
    ApiError::bad_request("unexpected EOF")
}

pub(super) fn broken() -> ApiError {
    ApiError::bad_request("the protobuf body is malformed")
}

/// The value of a field in the wire format.
pub(super) enum Wire<'a> {
    /// A number of variable length.
    Number(u64),
    /// Bytes, or a number of fixed length.
    Bytes(&'a [u8]),
}

/// A reader of the fields of a message.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, ApiError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(cut_off)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ApiError> {
        let length = usize::try_from(length).map_err(|_| broken())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Returns the number and value of the next field.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ApiError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return Err(broken()),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, ApiError> {
    std::str::from_utf8(bytes).map_err(|_| broken())
}
