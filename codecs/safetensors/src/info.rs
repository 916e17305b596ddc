//! What the codec states of the format: its options, and what a file keeps.

use crate::format::{FORMAT, NATIVE};
use ckpt_api::{Aspect, FormatInfo, Network, OptionKind, OptionSpec, Side};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "shard_size",
        OptionKind::Size,
        Side::Write,
        "write a sharded set if the tensors have more bytes than this (default: one file)",
    ),
    OptionSpec::new(
        "metadata",
        OptionKind::Choice(&["full", "none"]),
        Side::Write,
        "full (default) keeps graph, axes and other formats' metadata in the header; none writes what other tools \
         write",
    ),
    OptionSpec::new(
        FORMAT,
        OptionKind::Choice(&["pt", "tf", "flax", "mlx"]),
        Side::Write,
        "framework to record in the header, such as pt; transformers opens only files that have one (default: the \
         source's, or that of the mapping's target)",
    ),
    OptionSpec::new(
        "quantize",
        OptionKind::Choice(&[
            "fp8-blocks",
            "fp8-channels",
            "int8-channels",
            "int4-groups",
            "mlx-4bit",
            "mlx-8bit",
            "nf4",
        ]),
        Side::Write,
        "scheme by which the linear layers of a model directory are quantized, each weight to the nearest: fp8-blocks \
         (DeepSeek's), fp8-channels, int8-channels or int4-groups (compressed-tensors'), mlx-4bit or mlx-8bit, nf4 \
         (bitsandbytes'); config.json states it",
    ),
];

pub(crate) static INFO: FormatInfo = FormatInfo::new("safetensors", "safetensors file or sharded set")
    .with_extensions(&["safetensors"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&NATIVE)
    .with_free_names()
    .with_directory_file("model.safetensors")
    .with_keeps(Aspect::ALL)
    .with_options(OPTIONS);
