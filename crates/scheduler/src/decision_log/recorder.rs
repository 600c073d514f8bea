//! The scheduler's side of the decision log. The [`Recorder`] sends messages through a bounded channel to the writer
//! thread, and never waits for space in the channel.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use berth_api::{Cluster, ClusterScore};

use super::flags::DecisionLogOptions;
use super::format::Configuration;
use super::message::{DroppedDecisions, Message};
use super::writer::Writer;
use crate::recorded_decision::RecordedDecision;

/// Capacity of the channel to the writer thread, in messages.
const CAPACITY: usize = 4096;

/// A recorder of decisions, changes of clusters and ClusterScores, and changes of the configuration. It never waits.
#[derive(Debug)]
pub(crate) struct Recorder {
    sender: SyncSender<Message>,
    /// True if the current configuration did not fit into the channel yet. All pending changes are sent before the next
    /// decision, so that the log contains each decision after the changes that affected it.
    pending_configuration: bool,
    /// Changed clusters that did not fit into the channel yet, by name. A deleted cluster is `None`.
    pending_clusters: BTreeMap<String, Option<Arc<Cluster>>>,
    /// Changed ClusterScores that did not fit into the channel yet, by name. A deleted object is `None`.
    pending_scores: BTreeMap<String, Option<Arc<ClusterScore>>>,
    configuration: Arc<Configuration>,
    /// Number of dropped decisions that no gap message has reported yet.
    gap: u64,
    dropped: DroppedDecisions,
}

impl Recorder {
    /// Starts the writer thread of a log. The thread ends when the recorder is dropped.
    ///
    /// # Errors
    /// When the folder or the first file cannot be created.
    pub(crate) fn start(
        options: DecisionLogOptions,
        configuration: Configuration,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, messages) = sync_channel(CAPACITY);
        let dropped = DroppedDecisions::default();
        let writer = Writer::create(options, dropped.clone())?;
        let thread = std::thread::Builder::new()
            .name("decision-log".to_owned())
            .spawn(move || writer.run(&messages))?;
        let mut recorder = Self {
            sender,
            pending_configuration: true,
            pending_clusters: BTreeMap::new(),
            pending_scores: BTreeMap::new(),
            configuration: Arc::new(configuration),
            gap: 0,
            dropped,
        };
        recorder.send_pending();
        Ok((recorder, thread))
    }

    /// Returns the counter of dropped decisions.
    pub(crate) fn dropped(&self) -> DroppedDecisions {
        self.dropped.clone()
    }

    /// Records the profiles and extenders of all further decisions.
    pub(crate) fn document(&mut self, document: serde_json::Value) {
        self.configuration = Arc::new(Configuration {
            document,
            ..Configuration::clone(&self.configuration)
        });
        self.pending_configuration = true;
        self.send_pending();
    }

    /// Records the state of a cluster. `cluster` is `None` after the deletion of the cluster.
    pub(crate) fn cluster(&mut self, name: String, cluster: Option<&Cluster>) {
        self.pending_clusters
            .insert(name, cluster.map(|cluster| Arc::new(cluster.clone())));
        self.send_pending();
    }

    /// Records the state of a ClusterScore. `score` is `None` after the deletion of the object.
    pub(crate) fn score(&mut self, name: String, score: Option<&ClusterScore>) {
        self.pending_scores
            .insert(name, score.map(|score| Arc::new(score.clone())));
        self.send_pending();
    }

    /// Records a decision.
    pub(crate) fn decision(&mut self, decision: Arc<RecordedDecision>) {
        let message = Message::Decision(decision);
        if !self.send_pending() || self.send(message).is_err() {
            self.gap += 1;
            self.dropped.add(1);
        }
    }

    /// Sends the pending messages. Returns false if a message does not fit into the channel.
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
        while let Some((name, score)) = self.pending_scores.pop_first() {
            if let Err(Message::Score(name, score)) = self.send(Message::Score(name, score)) {
                self.pending_scores.insert(name, score);
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
