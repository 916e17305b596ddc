//! The kit's checks on one sample of every sort.

use crate::build::{files, header, numbers};
use ckpt_api::Axis;
use ckpt_conformance::{Sample, check};
use ckpt_darknet::Darknet;

/// The options end with the number of results, so that every text that is cut states another number of weights.
const CONVOLUTIONS: &str = "[net]\nchannels=2\nheight=5\nwidth=6\n# a comment\n\n[convolutional]\n\
    batch_normalize=1\nsize=3\npad=1\nactivation=leaky\nfilters=4\n[route]\nlayers=-1\ngroups=2\ngroup_id=1\n\
    [maxpool]\nsize=2\nstride=2\n[convolutional]\nactivation=linear\nfilters=11";

const CONNECTED: &str = "[net]\nchannels=1\nheight=2\nwidth=2\n[connected]\nactivation=relu\n\
    batch_normalize=1\noutput=12";

/// 24 numbers: a convolution of 2 channels to 4 with normalization, one of 2 to 11 without.
fn convolutions() -> Sample {
    let all = numbers(16 + 72 + 11 + 22);
    Sample::new("convolutions", "m.weights", files(CONVOLUTIONS, &header(), 121))
        .floats("000.convolutional.bias", &[4], &all[..4])
        .floats("000.convolutional.scale", &[4], &all[4..8])
        .floats("000.convolutional.mean", &[4], &all[8..12])
        .floats("000.convolutional.variance", &[4], &all[12..16])
        .floats("000.convolutional.weight", &[4, 2, 3, 3], &all[16..88])
        .floats("003.convolutional.bias", &[11], &all[88..99])
        .floats("003.convolutional.weight", &[11, 2, 1, 1], &all[99..])
        .axes("003.convolutional.weight", [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX])
        .metadata("darknet", "cfg", CONVOLUTIONS)
}

/// Normalization comes after the weight of a connected layer, and the counter has 32 bits.
fn connected() -> Sample {
    let all = numbers(96);
    let header = [0, 1, 0, 640].map(i32::to_le_bytes).concat();
    Sample::new("connected", "m.weights", files(CONNECTED, &header, 96))
        .floats("000.connected.bias", &[12], &all[..12])
        .floats("000.connected.weight", &[12, 4], &all[12..60])
        .floats("000.connected.scale", &[12], &all[60..72])
        .floats("000.connected.mean", &[12], &all[72..84])
        .floats("000.connected.variance", &[12], &all[84..])
}

/// A version beyond 1000 marks weights that are stored as `[in, out]`.
fn transposed() -> Sample {
    let cfg = CONNECTED.replace("batch_normalize=1\n", "");
    let all = numbers(60);
    let weight: Vec<f32> =
        (0..12).flat_map(|out| (0..4).map(move |input| 12 + input * 12 + out)).map(|at| all[at]).collect();
    let header = [0, 2000, 0, 640].map(i32::to_le_bytes).concat();
    Sample::new("transposed", "m.weights", files(&cfg, &header, 60))
        .floats("000.connected.bias", &[12], &all[..12])
        .floats("000.connected.weight", &[12, 4], &weight)
}

#[test]
fn weights_of_darknet_keep_the_contract() {
    check(&Darknet, &[convolutions(), connected(), transposed()]);
}
