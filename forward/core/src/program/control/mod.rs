//! Branches and loops, whose graphs the host runs.

mod lower;
mod run;

pub(super) use lower::{Scope, count_iteration, lower, unknown_count};
