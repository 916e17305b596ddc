//! Merges of small checkpoints in memory, compared with their formulas.

mod fixture;
mod lora;
mod models;
mod recipes;
mod refused;
