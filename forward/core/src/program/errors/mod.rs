//! Bounds on the rounding errors of a program.

mod bounded;
mod enclosed;
mod magnitude;
mod normalization;
mod propagate;
mod recurrence;
mod rounding;

pub use magnitude::Magnitude;
