//! The scheduler's side of the log: entries into a bounded channel, without waiting.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use berth_api::Cluster;

use super::flags::DecisionLogOptions;
use super::format::Configuration;
use super::message::{DecisionInput, DroppedEntries, Message};
use super::writer::Writer;

/// Capacity of the channel to the writer.
const CAPACITY: usize = 4096;

/// Records entries without waiting.
#[derive(Debug)]
pub struct Recorder {
    sender: SyncSender<Message>,
    /// Changes that did not fit into the channel. They precede any further decision, because the log would otherwise
    /// show it for another fleet.
    pending_configuration: bool,
    pending_clusters: BTreeMap<String, Option<Arc<Cluster>>>,
    configuration: Arc<Configuration>,
    /// Decisions that did not fit since the last entry.
    gap: u64,
    dropped: DroppedEntries,
}

impl Recorder {
    /// Starts to write a log. The thread ends when the recorder is dropped.
    ///
    /// # Errors
    /// When the folder or the first file cannot be created.
    pub fn start(
        options: DecisionLogOptions,
        configuration: Configuration,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, messages) = sync_channel(CAPACITY);
        let dropped = DroppedEntries::default();
        let writer = Writer::create(options, dropped.clone())?;
        let thread = std::thread::Builder::new()
            .name("decision-log".to_owned())
            .spawn(move || writer.run(&messages))?;
        let mut recorder = Self {
            sender,
            pending_configuration: true,
            pending_clusters: BTreeMap::new(),
            configuration: Arc::new(configuration),
            gap: 0,
            dropped,
        };
        recorder.send_pending();
        Ok((recorder, thread))
    }

    /// Returns the counter of missing entries.
    pub fn dropped(&self) -> DroppedEntries {
        self.dropped.clone()
    }

    /// Records the profiles and extenders of all further decisions.
    pub fn document(&mut self, document: serde_json::Value) {
        self.configuration = Arc::new(Configuration {
            document,
            ..Configuration::clone(&self.configuration)
        });
        self.pending_configuration = true;
        self.send_pending();
    }

    /// Records the state of a cluster; `None` after its deletion.
    pub fn cluster(&mut self, name: String, cluster: Option<&Cluster>) {
        self.pending_clusters
            .insert(name, cluster.map(|cluster| Arc::new(cluster.clone())));
        self.send_pending();
    }

    /// Records a decision.
    pub fn decision(&mut self, input: DecisionInput) {
        let message = Message::Decision(jiff::Timestamp::now(), Box::new(input));
        if !self.send_pending() || self.send(message).is_err() {
            self.gap += 1;
            self.dropped.add(1);
        }
    }

    /// Sends the pending entries. Returns false if some do not fit.
    fn send_pending(&mut self) -> bool {
        if self.gap > 0 {
            if self.send(Message::Gap(self.gap)).is_err() {
                return false;
            }
            self.gap = 0;
        }
        if self.pending_configuration {
            let configuration = Arc::clone(&self.configuration);
            if self.send(Message::Configuration(configuration)).is_err() {
                return false;
            }
            self.pending_configuration = false;
        }
        while let Some((name, cluster)) = self.pending_clusters.pop_first() {
            if let Err(Message::Cluster(name, cluster)) = self.send(Message::Cluster(name, cluster))
            {
                self.pending_clusters.insert(name, cluster);
                return false;
            }
        }
        true
    }

    fn send(&self, message: Message) -> Result<(), Message> {
        let sent = self.sender.try_send(message);
        sent.map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        })
    }
}

#[cfg(test)]
mod tests;
