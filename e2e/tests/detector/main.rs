//! The detector on a running control plane: API server, admission rules and detector, and no scheduler.

mod corpus;
mod life;
mod plane;
mod without_admission;
