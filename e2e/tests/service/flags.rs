//! Every flag has an effect, and what is wrong with a command line is said in one line.
//!
//! What a flag does to the options is a table; what the options do to the world is shown by processes, and
//! by the tests of the parts that they are for.

mod effects;
mod table;
