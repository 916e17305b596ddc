//! The targets, a file each, and the table of them.

use crate::Target;

mod arch;
mod bullet_files;
mod bullet_read;
mod bullet_round_trip;
mod caffe_files;
mod cnn2_read;
mod cnn2_round_trip;
mod coreml_files;
mod coreml_read;
mod darknet_files;
mod flax_read;
mod forward;
mod gguf_read;
mod gguf_round_trip;
mod graph_write;
mod hdf5_read;
mod keras_config;
mod keras_read;
mod mapping;
mod mxnet_read;
mod nn_read;
mod nn_round_trip;
mod nnue_read;
mod npz_read;
mod npz_round_trip;
mod onnx_read;
mod orbax_files;
mod orbax_manifest;
mod orbax_node;
mod orbax_zarr;
mod paddle_read;
mod plan;
mod plugin_answers;
mod probe;
mod safetensors_files;
mod safetensors_peer;
mod safetensors_read;
mod safetensors_round_trip;
mod tf1_read;
mod tf2_entries;
mod tf2_files;
mod tf2_read;
mod tf2_round_trip;
mod tf2_saved_model;
mod tf2_table;
mod tfjs_files;
mod tflite_read;
mod torch7_read;
mod torch_directories;
mod torch_read;
mod transform;

/// All targets, sorted by name.
pub static TARGETS: &[Target] = &[
    Target { name: "arch", run: arch::fuzz },
    Target { name: "bullet_files", run: bullet_files::fuzz },
    Target { name: "bullet_read", run: bullet_read::fuzz },
    Target { name: "bullet_round_trip", run: bullet_round_trip::fuzz },
    Target { name: "caffe_files", run: caffe_files::fuzz },
    Target { name: "cnn2_read", run: cnn2_read::fuzz },
    Target { name: "cnn2_round_trip", run: cnn2_round_trip::fuzz },
    Target { name: "coreml_files", run: coreml_files::fuzz },
    Target { name: "coreml_read", run: coreml_read::fuzz },
    Target { name: "darknet_files", run: darknet_files::fuzz },
    Target { name: "flax_read", run: flax_read::fuzz },
    Target { name: "forward", run: forward::fuzz },
    Target { name: "gguf_read", run: gguf_read::fuzz },
    Target { name: "gguf_round_trip", run: gguf_round_trip::fuzz },
    Target { name: "graph_write", run: graph_write::fuzz },
    Target { name: "hdf5_read", run: hdf5_read::fuzz },
    Target { name: "keras_config", run: keras_config::fuzz },
    Target { name: "keras_read", run: keras_read::fuzz },
    Target { name: "mapping", run: mapping::fuzz },
    Target { name: "mxnet_read", run: mxnet_read::fuzz },
    Target { name: "nn_read", run: nn_read::fuzz },
    Target { name: "nn_round_trip", run: nn_round_trip::fuzz },
    Target { name: "nnue_read", run: nnue_read::fuzz },
    Target { name: "npz_read", run: npz_read::fuzz },
    Target { name: "npz_round_trip", run: npz_round_trip::fuzz },
    Target { name: "onnx_read", run: onnx_read::fuzz },
    Target { name: "orbax_files", run: orbax_files::fuzz },
    Target { name: "orbax_manifest", run: orbax_manifest::fuzz },
    Target { name: "orbax_node", run: orbax_node::fuzz },
    Target { name: "orbax_zarr", run: orbax_zarr::fuzz },
    Target { name: "paddle_read", run: paddle_read::fuzz },
    Target { name: "plan", run: plan::fuzz },
    Target { name: "plugin_answers", run: plugin_answers::fuzz },
    Target { name: "probe", run: probe::fuzz },
    Target { name: "safetensors_files", run: safetensors_files::fuzz },
    Target { name: "safetensors_peer", run: safetensors_peer::fuzz },
    Target { name: "safetensors_read", run: safetensors_read::fuzz },
    Target { name: "safetensors_round_trip", run: safetensors_round_trip::fuzz },
    Target { name: "tf1_read", run: tf1_read::fuzz },
    Target { name: "tf2_entries", run: tf2_entries::fuzz },
    Target { name: "tf2_files", run: tf2_files::fuzz },
    Target { name: "tf2_read", run: tf2_read::fuzz },
    Target { name: "tf2_round_trip", run: tf2_round_trip::fuzz },
    Target { name: "tf2_saved_model", run: tf2_saved_model::fuzz },
    Target { name: "tf2_table", run: tf2_table::fuzz },
    Target { name: "tfjs_files", run: tfjs_files::fuzz },
    Target { name: "tflite_read", run: tflite_read::fuzz },
    Target { name: "torch7_read", run: torch7_read::fuzz },
    Target { name: "torch_directories", run: torch_directories::fuzz },
    Target { name: "torch_read", run: torch_read::fuzz },
    Target { name: "transform", run: transform::fuzz },
];
