//! Tests of whole conversions and of the command line: one program, because a program of tests links all of `ckpt`.
//!
//! The tests share a process, so none changes its directory, its environment or its limits: a test that needs other ones
//! starts `ckpt` with them.

mod common;
mod toy;

#[cfg(all(feature = "gguf", feature = "npz", feature = "safetensors", feature = "torch"))]
mod adapter_files;
mod arguments;
#[cfg(all(feature = "npz", feature = "safetensors"))]
mod blocks;
#[cfg(all(feature = "npz", feature = "safetensors", feature = "tf2"))]
mod budgets;
#[cfg(all(feature = "bullet", feature = "cli", feature = "safetensors"))]
mod bullet;
#[cfg(target_os = "linux")]
mod cloning;
#[cfg(all(feature = "cnn2", feature = "forward", feature = "nn", feature = "safetensors"))]
mod cnn2;
mod command_line;
#[cfg(all(feature = "npz", feature = "safetensors"))]
mod compressed;
mod confinement;
#[cfg(all(
    feature = "bullet",
    feature = "caffe",
    feature = "cnn2",
    feature = "coreml",
    feature = "darknet",
    feature = "gguf",
    feature = "keras",
    feature = "mxnet",
    feature = "nn",
    feature = "nnue",
    feature = "npz",
    feature = "onnx",
    feature = "orbax",
    feature = "paddle",
    feature = "safetensors",
    feature = "tf2",
    feature = "tfjs",
    feature = "tflite",
    feature = "torch",
    feature = "torch7"
))]
mod corpus;
#[cfg(feature = "safetensors")]
mod decoders;
mod digits;
#[cfg(unix)]
mod families;
mod faults;
#[cfg(all(
    feature = "bullet",
    feature = "cnn2",
    feature = "nn",
    feature = "npz",
    feature = "safetensors",
    feature = "tf2"
))]
mod faulty_reads;
mod flax_tables;
mod foreign_codec;
#[cfg(unix)]
mod guide;
#[cfg(all(
    target_os = "linux",
    feature = "bullet",
    feature = "cli",
    feature = "cnn2",
    feature = "nn",
    feature = "npz",
    feature = "safetensors",
    feature = "tf2"
))]
mod hostile;
#[cfg(all(feature = "npz", feature = "safetensors"))]
mod library;
#[cfg(all(
    feature = "bullet",
    feature = "cnn2",
    feature = "nn",
    feature = "npz",
    feature = "safetensors",
    feature = "tf2"
))]
mod limits;
mod losses;
mod map_command;
mod map_suggest;
mod map_suggest_partners;
mod map_suggest_questions;
mod mapping_tables;
#[cfg(all(
    feature = "bullet",
    feature = "cnn2",
    feature = "gguf",
    feature = "keras",
    feature = "nn",
    feature = "npz",
    feature = "onnx",
    feature = "safetensors",
    feature = "tf2",
    feature = "torch"
))]
mod matrix;
#[cfg(all(target_os = "linux", feature = "cli", feature = "safetensors", feature = "tf2"))]
mod memory;
#[cfg(all(feature = "cli", feature = "safetensors"))]
mod merge;
#[cfg(all(feature = "cli", feature = "onnx", feature = "safetensors", feature = "tf2", feature = "torch"))]
mod mistaken;
#[cfg(all(feature = "nnue", feature = "safetensors"))]
mod nnue;
#[cfg(all(feature = "npz", feature = "safetensors"))]
mod npz;
#[cfg(all(feature = "cli", feature = "forward", feature = "npz", feature = "onnx", feature = "safetensors"))]
mod onnx;
#[cfg(all(feature = "caffe", feature = "cli", feature = "darknet", feature = "forward", feature = "npz"))]
mod opencv;
#[cfg(all(feature = "bullet", feature = "cnn2", feature = "forward"))]
mod ops;
mod outside;
mod parts_and_sums;
mod people;
#[cfg(all(feature = "cli", feature = "npz", feature = "plugins"))]
mod plugins;
#[cfg(all(feature = "cli", feature = "gguf", feature = "safetensors"))]
mod quantized;
#[cfg(all(feature = "npz", feature = "safetensors", feature = "torch"))]
mod quantized_groups;
#[cfg(all(feature = "gguf", feature = "npz", feature = "safetensors", feature = "tf2", feature = "torch"))]
mod quantized_integers;
#[cfg(feature = "safetensors")]
mod quantized_libraries;
#[cfg(all(feature = "npz", feature = "safetensors", feature = "torch"))]
mod quantizing;
mod real_files;
mod recipes;
#[cfg(all(feature = "remote", feature = "cli", feature = "safetensors", feature = "tf2"))]
mod remote;
#[cfg(all(feature = "remote", feature = "safetensors", feature = "tf2", feature = "npz", feature = "gguf"))]
mod remote_items;
mod run_plan;
mod schemas;
mod slices;
mod suggestions;
mod swift_names;
#[cfg(all(feature = "cli", feature = "npz", feature = "safetensors", feature = "tf2"))]
mod tables;
mod tf2_out;
mod ties;
#[cfg(unix)]
mod ulimits;
mod verified;
#[cfg(all(feature = "forward", feature = "safetensors"))]
mod verify;
