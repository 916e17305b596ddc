//! The executor: moves bytes as a plan says, in parallel, within a budget, all or nothing.

mod add;
mod ahead;
mod disk;
mod each;
mod extents;
mod gather;
mod journal;
mod locate;
mod names;
mod output;
mod recover;
mod remembered;
mod room;
mod run;
mod sources;
mod stamp;
mod step;
mod stream;
#[cfg(test)]
mod tests;
mod tiles;
mod untile;
mod verify;
mod writer;

pub(crate) use add::Addend;
pub(crate) use disk::{Disk, Os};
pub(crate) use each::{default_threads, in_parallel};
pub(crate) use journal::Fingerprint;
pub(crate) use locate::{index_at, place_of};
pub(crate) use names::is_same_name;
pub(crate) use output::{Earlier, Output, Wanted};
pub(crate) use room::{PER_THREAD, room};
pub use run::Progress;
pub(crate) use run::{Done, Run, completed, interrupted, run};
pub(crate) use sources::Sources;
pub(crate) use stamp::Stamp;
pub(crate) use step::in_step;
pub(crate) use stream::{Budget, Files, TensorStream, element_size};
pub(crate) use untile::untile;
