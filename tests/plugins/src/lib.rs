//! Codecs of the program as plugins. Exactly one feature is on in a build.

#[cfg(feature = "caffe")]
ckpt_plugin::export!(ckpt_caffe::Caffe);
#[cfg(feature = "cnn2")]
ckpt_plugin::export!(ckpt_cnn2::Cnn2);
#[cfg(feature = "darknet")]
ckpt_plugin::export!(ckpt_darknet::Darknet);
#[cfg(feature = "gguf")]
ckpt_plugin::export!(ckpt_gguf::Gguf);
#[cfg(feature = "mxnet")]
ckpt_plugin::export!(ckpt_mxnet::Mxnet);
#[cfg(feature = "nn")]
ckpt_plugin::export!(ckpt_nn::Nn);
#[cfg(feature = "nnue")]
ckpt_plugin::export!(ckpt_nnue::Nnue, prepare);
#[cfg(feature = "npz")]
ckpt_plugin::export!(ckpt_npz::Npz);
#[cfg(feature = "paddle")]
ckpt_plugin::export!(ckpt_paddle::Paddle);
#[cfg(feature = "safetensors")]
ckpt_plugin::export!(ckpt_safetensors::Safetensors);
#[cfg(feature = "torch7")]
ckpt_plugin::export!(ckpt_torch7::Torch7);
