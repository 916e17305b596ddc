//! The executor: carries out the items of a plan, in parallel, within a budget. It derives nothing.

mod compare;
mod finish;
mod read;
mod result;
mod resume;
mod run;
mod write;

pub(crate) use finish::{Finished, finish};
pub(crate) use read::{Checking, Files, TensorStream, in_lockstep};
pub(crate) use result::ItemResult;
pub use result::{Rounding, Share, Sums};
pub use run::Progress;
pub(crate) use run::{Run, completed, interrupted, run};
