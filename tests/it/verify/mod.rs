//! `ckpt verify` and `ckpt run`: rules, faults, files of other programs, the command line.

#[cfg(all(feature = "cli", feature = "nn", feature = "npz", feature = "tf2"))]
mod answers;
#[cfg(feature = "cli")]
mod architectures;
#[cfg(feature = "cli")]
mod command;
mod faults;
mod long;
#[cfg(all(feature = "bullet", feature = "nn", feature = "npz", feature = "tf2"))]
mod real;
mod rules;
mod scales;
mod support;
