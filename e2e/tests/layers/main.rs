//! Rules about the sources that the compiler does not check: the dependencies between crates, the imports between modules,
//! nouns and mechanisms that have one home, and the size of the trial.

#![expect(clippy::unwrap_used, reason = "test code")]

mod boolean_parameters;
mod cel_sandbox;
mod crates;
mod https_client;
mod imports;
mod kinds;
mod log_lines;
mod metrics;
mod nouns;
mod snapshots;
mod source_files;
mod traces;
mod trial_size;
mod watches;
