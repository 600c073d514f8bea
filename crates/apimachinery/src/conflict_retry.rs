//! Writes of objects that other clients change at the same time.

use crate::api_error::has_code;

/// Maximum number of attempts to write one object that other clients change at the same time.
pub const CONFLICT_ATTEMPTS: usize = 5;

/// The attempts to write an object. After a conflict, the object is read, and written again.
#[derive(Debug)]
pub struct Attempts<K> {
    known: Option<K>,
    left: usize,
}

impl<K> Attempts<K> {
    /// Returns the attempts to write an object with this state. The state is `None` if the object does not exist.
    pub fn new(known: Option<K>) -> Self {
        Self {
            known,
            left: CONFLICT_ATTEMPTS,
        }
    }

    /// Begins an attempt. Returns `false` if every attempt had a conflict.
    pub fn begin(&mut self) -> bool {
        let begins = self.left > 0;
        self.left = self.left.saturating_sub(1);
        begins
    }

    /// Returns the newest known state of the object, or `None` if the object does not exist.
    pub fn known(&self) -> Option<&K> {
        self.known.as_ref()
    }

    /// Ends an attempt with the response to its request. Returns `None` if the object was changed or deleted since it
    /// was read. After a change, `read` returns the new state.
    ///
    /// # Errors
    /// When the response is another error, or when `read` fails.
    pub async fn end<T, E: From<kube::Error>>(
        &mut self,
        response: Result<T, kube::Error>,
        read: impl Future<Output = Result<Option<K>, E>>,
    ) -> Result<Option<T>, E> {
        match response {
            Ok(written) => return Ok(Some(written)),
            Err(error) if has_code(&error, 409) => self.known = read.await?,
            Err(error) if has_code(&error, 404) && self.known.is_some() => self.known = None,
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("", "").with_code(code).boxed())
    }

    /// Writes an object whose state is a version, which each read increments. Returns the result, and the states that
    /// the attempts were based on.
    fn write(codes: &[u16]) -> (Result<Option<()>, kube::Error>, Vec<Option<u32>>) {
        let (mut attempts, mut states) = (Attempts::new(Some(1)), Vec::new());
        let mut codes = codes.iter();
        while attempts.begin() {
            states.push(attempts.known().copied());
            let response = codes.next().map_or(Ok(()), |code| Err(refused(*code)));
            let read = ready(Ok(attempts.known().map(|version| version + 1)));
            let ended = {
                let ending = pin!(attempts.end(response, read));
                ending.poll(&mut Context::from_waker(Waker::noop()))
            };
            match ended {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(ended) => return (ended, states),
                Poll::Pending => panic!("a read does not wait"),
            }
        }
        (Ok(None), states)
    }

    #[test]
    fn a_conflict_is_repeated_with_the_newest_state() {
        let (written, states) = write(&[409, 409]);
        assert_eq!(written.unwrap(), Some(()));
        assert_eq!(states, [Some(1), Some(2), Some(3)]);
        let (written, states) = write(&[409; CONFLICT_ATTEMPTS]);
        assert_eq!(written.unwrap(), None);
        assert_eq!(states.len(), CONFLICT_ATTEMPTS);
    }

    #[test]
    fn a_deleted_object_is_written_as_missing() {
        let (written, states) = write(&[404]);
        assert_eq!(written.unwrap(), Some(()));
        assert_eq!(states, [Some(1), None]);
        let (written, states) = write(&[404, 404]);
        assert!(has_code(&written.unwrap_err(), 404));
        assert_eq!(states, [Some(1), None]);
    }

    #[test]
    fn other_errors_end_the_attempts() {
        let (written, states) = write(&[403]);
        assert!(has_code(&written.unwrap_err(), 403));
        assert_eq!(states, [Some(1)]);
    }
}
