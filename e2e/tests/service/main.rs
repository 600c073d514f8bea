//! The scheduler service on a running control plane: what it writes, that it writes nothing twice, and what
//! becomes of its work when the API server, the network or the process itself fails.

mod objects;
mod takeover;
mod watching;
mod writes;
