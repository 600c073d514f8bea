//! The thread that writes the files of `--decision-log`. It encodes and compresses the entries, and rotates the files.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use berth_apimachinery::merge_diff::merge_diff;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::Value;

use super::files;
use super::flags::DecisionLogOptions;
use super::format::{
    API_VERSION, ClusterPatch, Configuration, Decision, DecisionResult, Earlier, Entry, Estimates,
    Gap, Header, Peers, RecordedBinding, Workload, assumed_by_cluster,
};
use super::message::{DroppedDecisions, Message};
use crate::recorded_decision::RecordedDecision;

/// Maximum time until the writer flushes an entry to the file. A flush after each entry would double the size of the
/// log.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Time until the next attempt after a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The state of the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    options: DecisionLogOptions,
    dropped: DroppedDecisions,
    configuration: Option<Arc<Configuration>>,
    /// The current state of each cluster as a JSON text, which takes less memory than an object.
    clusters: BTreeMap<String, String>,
    /// The current state of each ClusterScore as a JSON text.
    scores: BTreeMap<String, String>,
    /// Assumed workloads of the last decision in the file, by cluster.
    assumed: BTreeMap<String, Vec<Workload>>,
    file: Option<OpenFile>,
    /// Number of files started so far.
    started: u64,
    retry_at: Instant,
    /// Number of decisions that could not be written since the start of the last file.
    lost: u64,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    encoder: GzEncoder<CountedFile>,
    /// Time of the oldest entry that is not flushed.
    dirty_since: Option<Instant>,
}

#[derive(Debug)]
struct CountedFile {
    file: File,
    bytes: u64,
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl OpenFile {
    fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.encoder.write_all(&line)?;
        self.dirty_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.dirty_since = None;
        self.encoder.flush()
    }

    fn next_flush(&self) -> Option<Instant> {
        self.dirty_since.map(|since| since + FLUSH_INTERVAL)
    }
}

impl Writer {
    /// Creates the folder and the first file.
    pub(super) fn create(
        options: DecisionLogOptions,
        dropped: DroppedDecisions,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(&options.folder)?;
        let mut writer = Self {
            options,
            dropped,
            configuration: None,
            clusters: BTreeMap::new(),
            scores: BTreeMap::new(),
            assumed: BTreeMap::new(),
            file: None,
            started: 0,
            retry_at: Instant::now(),
            lost: 0,
        };
        writer.start_file()?;
        Ok(writer)
    }

    /// Handles messages until all senders are dropped.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let wait = match self.file.as_ref().and_then(OpenFile::next_flush) {
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => RETRY_INTERVAL,
            };
            match messages.recv_timeout(wait) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let is_due = |at: Instant| at <= Instant::now();
            if let Some(file) = &mut self.file
                && file.next_flush().is_some_and(is_due)
            {
                let flushed = file.flush();
                self.check(flushed);
            }
        }
        if let Some(file) = self.file.take() {
            let finished = file.encoder.finish().map(|_| ());
            self.check(finished);
        }
    }

    fn handle(&mut self, message: Message) {
        let is_decision = matches!(message, Message::Decision(..));
        if self.file.is_none() {
            self.reopen();
        }
        // The state is updated even if no file is open, so that the next file starts with the current state.
        let Some(entry) = self.entry(message) else {
            return;
        };
        let Some(file) = &mut self.file else {
            self.lose(is_decision);
            return;
        };
        let appended = file.append(&entry);
        let is_full = file.encoder.get_ref().bytes >= self.options.max_bytes;
        if !self.check(appended) {
            self.lose(is_decision);
        } else if is_full {
            let finished = self
                .file
                .take()
                .map_or(Ok(()), |file| file.encoder.finish().map(|_| ()));
            let next = finished.and_then(|()| self.start_file());
            self.check(next);
        }
    }

    fn lose(&mut self, is_decision: bool) {
        if is_decision {
            self.lost += 1;
            self.dropped.add(1);
        }
    }

    /// Handles the result of a write. After an error, logs the error and closes the file. Returns true after a success.
    fn check(&mut self, result: io::Result<()>) -> bool {
        let Err(error) = result else { return true };
        let folder = self.options.folder.display();
        tracing::error!(%folder, %error, "cannot write the decision log; decisions are not recorded");
        self.file = None;
        self.retry_at = Instant::now() + RETRY_INTERVAL;
        false
    }

    /// Starts a file if [`RETRY_INTERVAL`] has passed since the last failed write.
    fn reopen(&mut self) {
        if self.retry_at <= Instant::now() {
            let started = self.start_file();
            self.check(started);
        }
    }

    /// Applies a message to the state, and returns the entry to write. Returns `None` if the message changes nothing.
    fn entry(&mut self, message: Message) -> Option<Entry> {
        match message {
            Message::Gap(dropped) => Some(Entry::Gap(Gap { dropped })),
            Message::Configuration(configuration) => {
                self.configuration = Some(Arc::clone(&configuration));
                Some(Entry::Configuration(Box::new(Configuration::clone(
                    &configuration,
                ))))
            }
            Message::Cluster(name, None) => {
                self.clusters.remove(&name)?;
                Some(Entry::ClusterDeleted(name))
            }
            Message::Cluster(name, Some(cluster)) => {
                let mut new = serde_json::to_value(&*cluster).ok()?;
                if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                    metadata.remove("resourceVersion");
                }
                let old = self.clusters.insert(name.clone(), new.to_string());
                let old = old.and_then(|old| serde_json::from_str(&old).ok());
                match old {
                    None => Some(Entry::Cluster(new)),
                    Some(old) => {
                        let patch = merge_diff(&old, &new)?;
                        Some(Entry::ClusterPatch(ClusterPatch { name, patch }))
                    }
                }
            }
            Message::Score(name, None) => {
                self.scores.remove(&name)?;
                Some(Entry::ClusterScoreDeleted(name))
            }
            Message::Score(name, Some(score)) => {
                let new = serde_json::to_value(&*score).ok()?;
                let old = self.scores.insert(name, new.to_string());
                (old.as_deref() != Some(&*new.to_string())).then_some(Entry::ClusterScore(new))
            }
            Message::Decision(decision) => self.decision(&decision),
        }
    }

    /// Encodes a decision. Returns `None` if its inputs were dropped.
    fn decision(&mut self, decision: &RecordedDecision) -> Option<Entry> {
        let inputs = decision.inputs.as_ref()?;
        let now_assumed = assumed_by_cluster(&inputs.assumed);
        let mut changed: BTreeMap<String, Vec<Workload>> = now_assumed
            .iter()
            .filter(|(name, workloads)| self.assumed.get(*name) != Some(*workloads))
            .map(|(name, workloads)| (name.clone(), workloads.clone()))
            .collect();
        let gone = self
            .assumed
            .keys()
            .filter(|name| !now_assumed.contains_key(*name));
        changed.extend(gone.map(|name| (name.clone(), Vec::new())));
        self.assumed = now_assumed;
        Some(Entry::Decision(Box::new(Decision {
            time: MicroTime(decision.time),
            binding: RecordedBinding(Arc::clone(&decision.binding)),
            peers: Peers::of(inputs.request.peers().clone()),
            assumed: changed,
            earlier: inputs.request.earlier().map(Earlier::from),
            estimates: Estimates::of(&inputs.estimates),
            extender_calls: inputs.extender_calls,
            result: DecisionResult::from(&decision.outcome),
        })))
    }

    /// Starts a file that contains the configuration, all clusters and all ClusterScores. Deletes the oldest files
    /// beyond the maximum number.
    fn start_file(&mut self) -> io::Result<()> {
        let now = jiff::Timestamp::now();
        let path = self.options.folder.join(files::name(now, self.started));
        self.started += 1;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let mut file = OpenFile {
            path,
            encoder: GzEncoder::new(CountedFile { file, bytes: 0 }, Compression::fast()),
            dirty_since: None,
        };
        file.append(&Entry::Header(Header {
            api_version: API_VERSION.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: MicroTime(now),
        }))?;
        if self.lost > 0 {
            file.append(&Entry::Gap(Gap { dropped: self.lost }))?;
            self.lost = 0;
        }
        if let Some(configuration) = &self.configuration {
            file.append(&Entry::Configuration(Box::new(Configuration::clone(
                configuration,
            ))))?;
        }
        for cluster in self.clusters.values() {
            file.append(&Entry::Cluster(serde_json::from_str(cluster)?))?;
        }
        for score in self.scores.values() {
            file.append(&Entry::ClusterScore(serde_json::from_str(score)?))?;
        }
        self.assumed.clear();
        let mut all = files::list(&self.options.folder)?;
        let surplus = all.len().saturating_sub(self.options.max_files as usize);
        for old in all.drain(..surplus).filter(|old| *old != file.path) {
            std::fs::remove_file(old)?;
        }
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
