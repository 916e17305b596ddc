//! Mistakes that authors of codecs make, each noticed and named.

use crate::chest::{Chest, Mistake, sample};
use ckpt_api::{
    Axis, Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Options, OutputLayout, Result, Role,
    Tensor,
};
use ckpt_conformance::Sample;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Mutex;

/// The kit passes the codec without the mistake and reports the one with it in these words.
fn assert_reported(mistake: Mistake, words: &[&str]) {
    let complaint = crate::complaint(&Chest(mistake), &sample());
    let complaint = complaint.unwrap_or_else(|| panic!("{mistake:?} is not noticed"));
    for words in words {
        assert!(complaint.contains(words), "{mistake:?}: '{words}' is missing: {complaint}");
    }
}

#[test]
fn a_codec_without_mistakes_passes() {
    assert_eq!(crate::complaint(&Chest(Mistake::None), &sample()), None);
}

#[test]
fn a_length_that_is_not_checked_against_the_file_is_noticed() {
    assert_reported(Mistake::NoLengthCheck, &["two tensors: m.chest cut to", "panics"]);
}

#[test]
fn a_length_that_nobody_looks_at_is_noticed() {
    assert_reported(Mistake::IgnoresALength, &["of m.chest changed from", "nothing else changes"]);
}

#[test]
fn nan_that_becomes_null_is_noticed() {
    assert_reported(Mistake::NanAsNull, &["NaN and infinities"]);
    assert_reported(Mistake::NanAsNullInMetadata, &["the metadata foreign.nan was", "NaN", "Null"]);
}

#[test]
fn names_other_than_given_are_noticed() {
    assert_reported(
        Mistake::WrongKeysWritten,
        &["the checkpoint changed on the way: tensor 'b!': its name was"],
    );
    assert_reported(Mistake::WrongKeysBothWays, &["the tensors are called", "the sample states"]);
}

#[test]
fn unaligned_writing_is_noticed() {
    assert_reported(Mistake::Unaligned, &["is written to byte", "no multiple of 16"]);
}

#[test]
#[cfg(target_os = "linux")]
fn an_allocation_by_a_count_is_noticed_with_the_sample_and_the_byte() {
    assert_reported(Mistake::AllocatesByCount, &["two tensors: ", "of m.chest", "MiB"]);
}

#[test]
fn dimensions_in_the_wrong_order_are_noticed() {
    assert_reported(Mistake::DimensionsNotReversed, &["tensor 'w' has the shape [3, 2]", "[2, 3]"]);
    assert_reported(Mistake::ColumnMajor, &["tensor 'w' is read as", "axis order"]);
}

#[test]
fn big_endian_values_that_are_declared_little_are_noticed() {
    assert_reported(Mistake::BigEndianDeclaredLittle, &["tensor 'b!' is read as", "byte order"]);
}

#[test]
fn bytes_after_the_end_are_noticed() {
    assert_reported(Mistake::TrailingBytesAccepted, &["m.chest followed by 1 bytes", "is accepted"]);
}

#[test]
fn metadata_that_is_lost_without_a_word_is_noticed() {
    assert_reported(Mistake::MetadataLost, &["with metadata", "the metadata foreign."]);
    assert_reported(Mistake::TensorMetadataLost, &["with metadata of a tensor", "the metadata foreign."]);
}

#[test]
fn a_graph_that_is_lost_without_a_word_is_noticed() {
    assert_reported(Mistake::GraphLost, &["with a graph", "lost without a word"]);
}

#[test]
fn meanings_of_tensors_that_are_lost_without_a_word_are_noticed() {
    assert_reported(Mistake::AxesLost, &["with axes", "its axes changed or was lost"]);
    assert_reported(Mistake::RolesLost, &["with roles", "its role changed or was lost"]);
    assert_reported(Mistake::SlotsLost, &["with a slot", "its slot changed or was lost"]);
}

#[test]
fn a_loss_counts_for_its_subject_alone() {
    assert_reported(Mistake::MetadataLostUnderAnotherSubject, &["with metadata", "the metadata foreign."]);
}

#[test]
fn a_loss_of_another_kind_does_not_excuse_other_values() {
    assert_reported(Mistake::OtherBytesUnderAnotherKind, &["special numbers", "'foreign/kernel' was"]);
}

#[test]
fn a_scale_that_changes_is_noticed_and_its_loss_has_a_kind_of_its_own() {
    let words = ["with the largest scale", "its scale changed or was lost", "scale-dropped of"];
    assert_reported(Mistake::ScaleCut, &words);
    assert_reported(Mistake::ScaleCutUnderAnotherKind, &words);
}

/// A chest that writes down the scales that it is offered.
#[derive(Default)]
struct Listening(Mutex<BTreeSet<u32>>);

impl Codec for Listening {
    fn info(&self) -> &FormatInfo {
        RIGHT.info()
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        RIGHT.probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        RIGHT.read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        let scales = checkpoint.tensors.iter().filter_map(Tensor::scale).map(NonZeroU32::get);
        self.0.lock().unwrap().extend(scales);
        RIGHT.place(checkpoint, name, options)
    }
}

static RIGHT: Chest = Chest(Mistake::None);

#[test]
fn small_odd_and_large_scales_are_offered() {
    let codec = Listening::default();
    assert_eq!(crate::complaint(&codec, &sample()), None);
    assert!(codec.0.lock().unwrap().iter().eq(&[1, 3, 64, u32::MAX]));
}

#[test]
fn what_a_sample_states_is_compared() {
    let complaint = |sample: Sample| crate::complaint(&RIGHT, &sample);
    assert_eq!(complaint(sample().role("w", Role::Weight)), None);
    let stated = [
        (sample().role("w", Role::Counter), "tensor 'w': its role is read as Weight"),
        (sample().axes("w", [Axis::In, Axis::Out]), "tensor 'w': the meaning of its axes is read as None"),
        (sample().scale("b!", 64), "tensor 'b!': its scale is read as None, and the sample states Some(64)"),
        (sample().metadata("chest", "epoch", 3), "the metadata chest.epoch is read as None"),
        (
            sample().tensor_metadata("w", "chest", "key", 3),
            "tensor 'w': the metadata chest.key is read as None",
        ),
        (sample().role("x", Role::Weight), "'x', which is not read"),
    ];
    for (sample, expected) in stated {
        let complaint = complaint(sample).unwrap_or_else(|| panic!("'{expected}' is not said"));
        assert!(complaint.contains(expected), "{expected}: {complaint}");
    }
}

#[test]
fn tensors_that_overlap_are_noticed() {
    assert_reported(Mistake::OverlapsWhenReading, &["of m.chest", "overlap"]);
    assert_reported(Mistake::OverlapsWhenWriting, &["two pieces of a file overlap"]);
    assert_reported(Mistake::PutsAllInOnePlace, &["overlap"]);
}
