//! The state of the connection of a list and watch, for callers that show it to a person.

use tokio::sync::watch;

use super::Error;

/// The connection of a list and watch to its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// No request has ended yet.
    #[default]
    Starting,
    /// The server has accepted the last request.
    Works,
    /// The last request failed.
    Failed(Failure),
}

/// The last failure of a list and watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status code of the server's response. `None` if there was no such response.
    pub code: Option<u16>,
    /// The reason, in the words of the server if it responded.
    pub message: String,
}

/// A sender of the state of the connection. The default sends nothing.
#[derive(Clone, Debug, Default)]
pub struct Reports(Option<watch::Sender<Connection>>);

impl Reports {
    /// Returns the reports, and their receiver.
    pub fn channel() -> (Self, watch::Receiver<Connection>) {
        let (sender, receiver) = watch::channel(Connection::default());
        (Self(Some(sender)), receiver)
    }

    pub(super) fn works(&self) {
        self.send(|| Connection::Works);
    }

    pub(super) fn failed(&self, error: &Error) {
        self.send(|| Connection::Failed(error.failure()));
    }

    fn send(&self, state: impl FnOnce() -> Connection) {
        let Some(sender) = &self.0 else { return };
        let state = state();
        sender.send_if_modified(|last| {
            let is_new = *last != state;
            *last = state;
            is_new
        });
    }
}
