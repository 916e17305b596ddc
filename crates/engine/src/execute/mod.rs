//! The executor: carries out the items of a plan, in parallel, within a budget. It derives nothing.

mod compare;
mod context;
mod finish;
mod interruption;
mod read;
mod result;
mod resume;
mod run;
mod verify;
mod write;

pub use context::Progress;
pub(crate) use context::Run;
pub(crate) use finish::{Finished, finish};
pub use interruption::interrupted;
pub use read::{Checking, PartialSum, TensorStream, verify_assembled};
pub(crate) use read::{Files, announce, in_lockstep};
pub(crate) use result::ItemResult;
pub use result::{Rounding, Share, Sums};
pub(crate) use run::{completed, run};
pub(crate) use verify::verified_by_checksums;
pub(crate) use write::write_literals;
