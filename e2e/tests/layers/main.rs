//! Rules about the sources that the compiler does not check: the imports between modules, and nouns and mechanisms that
//! have one home.

#![expect(clippy::unwrap_used, reason = "test code")]

mod boolean_parameters;
mod cel_sandbox;
mod https_client;
mod imports;
mod kinds;
mod nouns;
mod source_files;
mod watches;
