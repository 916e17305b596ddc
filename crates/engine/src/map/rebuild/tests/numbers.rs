//! Steps that compute, against plain loops over numbers.

use super::super::rebuild;
use crate::execute::{Files, TensorStream};
use crate::layout::{TargetLayout, compile};
use crate::recipe::{AxisStep, Join, Recipe, Target};
use crate::resources::Budget;
use ckpt_api::{
    Checksum, ChecksumAlgorithm, Contents, DType, Encoding, Endian, Extent, FileId, Input, Kind, Limits,
    Loss, LossKind, Placement, Region, Result, Shape, Tensor, TensorId,
};
use half::bf16;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Tensors in one file, which holds whatever bytes they have.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) contents: Contents,
    pub(super) file: Vec<u8>,
}

impl Stored {
    pub(super) fn add(mut self, name: &str, dtype: DType, shape: &[u64], bytes: &[u8]) -> Self {
        let tensor = Tensor::new(name, dtype, Shape::new(shape).unwrap());
        let extent = Extent::new(FileId(0), self.file.len() as u64, bytes.len() as u64);
        let id = TensorId(self.contents.placements.len());
        let encoding = Encoding::row_major(&tensor);
        self.contents.placements.push(Placement::new(id, name, vec![extent], encoding));
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.files = vec!["f".into()];
        self.file.extend(bytes);
        self
    }

    pub(super) fn floats(self, name: &str, shape: &[u64], numbers: &[f32]) -> Self {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.add(name, DType::F32, shape, &bytes)
    }

    /// The last tensor's placement.
    fn last(&mut self) -> &mut Placement {
        self.contents.placements.last_mut().unwrap()
    }

    pub(super) fn rebuilt(&mut self, targets: &[Target]) -> Result<Vec<Loss>> {
        let losses = rebuild(&mut self.contents, targets)?;
        self.contents.check(&Limits::default())?;
        Ok(losses)
    }

    fn applied(mut self, name: &str, steps: &[&str]) -> Result<(Self, Vec<Loss>)> {
        let losses = self.rebuilt(&[target("y", &[name], Join::One, steps)])?;
        Ok((self, losses))
    }

    /// The bytes of a tensor in its own dtype, read in pieces of these sizes.
    pub(super) fn bytes(&self, name: &str, budget: Budget) -> Result<Vec<u8>> {
        let (id, tensor) = self.contents.checkpoint.tensor(name).expect("the tensor is there");
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), self.file.clone())]));
        let files = Files::new(&input, &self.contents);
        let target = Encoding::row_major(tensor);
        let source = &self.contents.placements[id.0];
        let route = compile(tensor, source, &TargetLayout::read(&target), &[])?;
        TensorStream::whole(&files, route.into_transfer(tensor, source, &target), budget)?.read_all()
    }

    /// The numbers of a tensor of 32-bit floats.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<f32>> {
        let bytes = self.bytes(name, SMALL)?;
        assert_eq!(bytes, self.bytes(name, Budget::default())?, "the sizes of pieces do not matter");
        Ok(bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }
}

pub(super) const SMALL: Budget = Budget { chunk: 48, tile: 64 };

pub(super) fn target(name: &str, sources: &[&str], join: Join, steps: &[&str]) -> Target {
    let steps = steps.iter().map(|step| AxisStep::parse(step).unwrap()).collect();
    let sources = sources.iter().map(|source| (*source).to_owned()).collect();
    Target { name: name.into(), sources, recipe: Recipe { join, steps, ..Recipe::default() } }
}

pub(super) fn kinds(losses: &[Loss]) -> Vec<LossKind> {
    losses.iter().map(|loss| loss.kind).collect()
}

proptest! {
    #[test]
    fn numbers_are_computed_in_32_bit_floats_one_step_after_the_other(
        numbers in prop::collection::vec(-1e3f32..1e3, 1..200), factor in 1e-3f32..1e3, term in -10f32..10.0,
    ) {
        let shape = [numbers.len() as u64];
        let steps = [format!("scale {factor}"), format!("add {term}"), format!("scale 1/{factor}")];
        let (stored, _) = Stored::default().floats("x", &shape, &numbers)
            .applied("x", &steps.each_ref().map(String::as_str)).unwrap();
        let expected: Vec<f32> = numbers.iter().map(|number| (number * factor + term) / factor).collect();
        prop_assert_eq!(stored.numbers("y").unwrap(), expected);
    }

    #[test]
    fn powers_of_two_are_undone_exactly(
        numbers in prop::collection::vec(-1e3f32..1e3, 6), exponent in 0i32..20,
    ) {
        let step = format!("scale {}", 2f32.powi(exponent));
        let back = AxisStep::parse(&step).unwrap().inverse().to_string();
        let (stored, losses) =
            Stored::default().floats("x", &[2, 3], &numbers).applied("x", &[&step, "transpose"]).unwrap();
        prop_assert_eq!(losses, vec![]);
        let (stored, losses) = stored.applied("y", &["transpose", &back]).unwrap();
        prop_assert_eq!(kinds(&losses), if exponent == 0 { vec![] } else { vec![LossKind::Rounded] });
        prop_assert_eq!(stored.numbers("y").unwrap(), numbers);
    }
}

#[test]
fn numbers_are_computed_wherever_and_however_their_bytes_are_stored() {
    let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
    let expected: Vec<f32> = numbers.iter().map(|number| number + 0.5).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let mut big = Stored::default().add("x", DType::F32, &[4, 6], &bytes);
    big.last().encoding.endian = Endian::Big;
    assert_eq!(big.applied("x", &["add 0.5"]).unwrap().0.numbers("y").unwrap(), expected);

    let mut sliced = Stored::default().floats("x", &[4, 6], &numbers);
    let slice = |first: u64| {
        let region = Region { start: vec![first, 0], shape: Shape::new([2, 6]).unwrap() };
        Extent::new(FileId(0), first * 24, 48).with_region(region)
    };
    sliced.last().extents = vec![slice(2), slice(0)].into();
    assert_eq!(sliced.applied("x", &["add 0.5"]).unwrap().0.numbers("y").unwrap(), expected);

    let mut columns = Stored::default().floats("x", &[6, 4], &numbers);
    columns.last().encoding.order = vec![1, 0].into();
    let (columns, _) = columns.applied("x", &["add 0.5", "transpose"]).unwrap();
    assert_eq!(columns.numbers("y").unwrap(), expected);

    let mut stacked = Stored::default().floats("a", &[12], &numbers[..12]).floats("b", &[12], &numbers[12..]);
    let join = Join::Stacked { axis: 0, merged: None };
    stacked.rebuilt(&[target("y", &["a", "b"], join, &["add 0.5", "reshape 12 -> 2 6"])]).unwrap();
    assert_eq!(stacked.numbers("y").unwrap(), expected);
    let element = Join::Element { axis: 0, index: 1, part: None };
    stacked.rebuilt(&[target("y", &["y"], element, &["scale 2"])]).unwrap();
    let second: Vec<f32> = expected[12..].iter().map(|number| number * 2.0).collect();
    assert_eq!(stacked.numbers("y").unwrap(), second);
}

#[test]
fn the_result_of_a_step_has_the_dtype_of_the_tensor_and_is_rounded_to_it() {
    let numbers = [0.0078125f32, 1.0, -3.0];
    let stored: Vec<u8> = numbers.iter().flat_map(|number| bf16::from_f32(*number).to_le_bytes()).collect();
    let bf16s = || Stored::default().add("x", DType::Bf16, &[3], &stored);
    let (same, losses) = bf16s().applied("x", &["add 1"]).unwrap();
    let expected: Vec<u8> =
        numbers.iter().flat_map(|number| bf16::from_f32(number + 1.0).to_le_bytes()).collect();
    assert_eq!(same.bytes("y", SMALL).unwrap(), expected);
    assert_eq!(kinds(&losses), [LossKind::Narrowed]);

    let (wide, losses) = bf16s().applied("x", &["cast bf16 -> f32", "add 1"]).unwrap();
    assert_eq!(wide.numbers("y").unwrap(), numbers.map(|number| number + 1.0));
    assert_eq!(kinds(&losses), [LossKind::Retyped, LossKind::Rounded]);

    let (between, _) = bf16s().applied("x", &["add 1.001", "cast bf16 -> f32", "scale 2"]).unwrap();
    let expected = numbers.map(|number| bf16::from_f32(number + 1.001).to_f32() * 2.0);
    assert_eq!(between.numbers("y").unwrap(), expected, "a cast rounds between steps");
}

#[test]
fn a_step_that_computes_is_refused_for_what_32_bit_floats_do_not_hold() {
    for (dtype, bytes) in [(DType::F64, 16), (DType::I32, 8), (DType::Bool, 2)] {
        let stored = Stored::default().add("x", dtype, &[2], &vec![0; bytes]);
        let error = stored.applied("x", &["scale 2"]).err().unwrap();
        assert_eq!(error.kind(), Kind::Mapping);
        assert!(error.to_string().contains("computed in 32-bit floats"), "{error}");
    }
    let stored = Stored::default().add("x", DType::F64, &[1], &2.5f64.to_le_bytes());
    let (stored, _) = stored.applied("x", &["cast f64 -> f32", "scale 2"]).unwrap();
    assert_eq!(stored.numbers("y").unwrap(), [5.0]);
}

#[test]
fn a_number_that_becomes_too_large_is_an_error_that_names_it_and_the_step() {
    let stored = Stored::default().floats("x", &[40], &[[1.0; 39].as_slice(), &[2e38]].concat());
    let (stored, _) = stored.applied("x", &["add 1e38", "scale 2"]).unwrap();
    let error = stored.numbers("y").unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy);
    let text = error.to_string();
    assert!(text.contains("element 39") && text.contains("scale 2") && text.contains("3e38"), "{text}");
    let infinite =
        Stored::default().floats("x", &[1], &[f32::INFINITY]).applied("x", &["scale 2"]).unwrap().0;
    assert_eq!(infinite.numbers("y").unwrap(), [f32::INFINITY], "what was infinite stays so");
}

#[test]
fn the_checksum_of_stored_numbers_is_compared_before_they_are_computed() {
    let mut stored = Stored::default().floats("x", &[4], &[1.0, 2.0, 3.0, 4.0]);
    let mut checksum = Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value: None };
    let mut running = checksum.start();
    running.update(&stored.file);
    checksum.value = Some(running.finish());
    stored.last().extents[0].checksum = Some(checksum);
    let (mut stored, _) = stored.applied("x", &["scale 2"]).unwrap();
    assert_eq!(stored.numbers("y").unwrap(), [2.0, 4.0, 6.0, 8.0]);
    stored.file[5] ^= 1;
    assert_eq!(stored.numbers("y").unwrap_err().kind(), Kind::Corrupt);
}
