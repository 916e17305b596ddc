//! Compiles how bytes get from one layout to another: axes, steps, boxes, pieces of work. Pure, without input or
//! output.
//!
//! `compile` turns a source placement and the layout of a target into a `Route` once; the executor and the plan
//! hold routes and derive nothing. `cut` divides routes into [`FileRange`]s: ranges of target files that can be
//! written independently.

mod axes;
mod block_units;
mod boxes;
mod divide;
mod file_ranges;
mod locate;
mod origin;
mod permutation;
mod piece;
mod route;
mod rows;
mod runs;
mod sizes;
mod split_axes;
mod steps;
mod tiles;
mod units;

pub use axes::axis_order;
pub(crate) use boxes::{intersection, whole_box};

pub use divide::{Divided, divide};
pub(crate) use file_ranges::{ExtentPair, cut, default_range_size};
pub(crate) use locate::{index_at, place_of};
pub(crate) use origin::{Cut, Origins};
pub use permutation::inverse_permutation;
pub use piece::{ExtentNumbers, FileRange, Part, Piece};
pub(crate) use piece::{plan_number, within};
pub(crate) use route::{Addend, Route, TargetLayout, Transfer, canonical, compile};
pub(crate) use rows::{Rows, rows};
pub(crate) use runs::Runs;
pub(crate) use sizes::changes_form;
pub(crate) use split_axes::{split_range, strides};
pub(crate) use steps::steps;
pub use steps::{Access, Step};
pub(crate) use tiles::Tiles;
