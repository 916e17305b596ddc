//! Scales along an axis follow what a recipe does with the axis.

use super::*;
use ckpt_api::{Affine, Quantization};

fn affine(scales: &[f64], axis: Option<usize>) -> Quantization {
    let zero_points: Vec<f64> = (0..scales.len()).map(|number| number as f64).collect();
    Affine::new(scales, zero_points, axis).unwrap().into()
}

/// Two rows of six, with a scale for each row.
fn rows() -> Memory {
    let mut memory = matrix();
    memory.contents.checkpoint.tensors[0].quantization = Some(affine(&[0.5, 0.25], Some(0)));
    memory
}

fn scales(join: Join, steps: &[&str]) -> Result<(Vec<f64>, Vec<f64>, Option<usize>)> {
    let steps: Vec<AxisStep> = steps.iter().map(|step| AxisStep::parse(step).unwrap()).collect();
    let made = rows().rebuilt(&[target("b", &["a"], join, &steps)])?;
    let own =
        made.contents.checkpoint.tensors[0].quantization.as_ref().and_then(Quantization::affine).unwrap();
    Ok((own.scales().to_vec(), own.zero_points().to_vec(), own.axis()))
}

#[test]
fn scales_of_an_axis_move_with_it() {
    let both = |axis| Ok((vec![0.5, 0.25], vec![0.0, 1.0], Some(axis)));
    for (steps, axis) in [
        (&["transpose"][..], 1),
        (&["unsqueeze 0"], 1),
        (&["unsqueeze 1"], 0),
        (&["transpose", "unsqueeze 1", "permute 2 1 0"], 0),
        (&["unsqueeze 0", "squeeze 0"], 0),
    ] {
        assert_eq!(scales(Join::One, steps).map_err(|error| error.to_string()), both(axis), "{steps:?}");
    }
}

#[test]
fn a_part_has_the_scales_of_its_indices_and_an_element_one() {
    let second = (vec![0.25], vec![1.0]);
    let (own, zero_points, axis) = scales(part(0, 1, 2, None), &[]).unwrap();
    assert_eq!(((own, zero_points), axis), (second.clone(), Some(0)));
    let element = |axis, index| Join::Element { axis, index, part: None };
    let (own, zero_points, axis) = scales(element(0, 1), &[]).unwrap();
    assert_eq!(((own, zero_points), axis), (second, None));
    assert_eq!(scales(part(1, 1, 2, None), &[]).unwrap().0, [0.5, 0.25]);
}

#[test]
fn merged_tensors_have_the_scales_of_all_along_that_axis_and_else_must_have_the_same() {
    let two = |second: &[f64]| {
        let mut memory = rows().add("c", &Array::counted(&[2, 6], 12), &[0, 1], false);
        memory.contents.checkpoint.tensors[1].quantization = Some(affine(second, Some(0)));
        memory
    };
    let merged = |memory: Memory, axis| {
        let join = Join::Merged { axis, sizes: None };
        memory.rebuilt(&[target("b", &["a", "c"], join, &[])])
    };
    let made = merged(two(&[3.0, 4.0]), 0).unwrap();
    let own =
        made.contents.checkpoint.tensors[0].quantization.as_ref().and_then(Quantization::affine).unwrap();
    assert_eq!((own.scales(), own.axis()), (&[0.5, 0.25, 3.0, 4.0][..], Some(0)));
    merged(two(&[0.5, 0.25]), 1).unwrap();
    assert_eq!(merged(two(&[3.0, 4.0]), 1).map(|_| ()).unwrap_err().kind(), Kind::Mapping);
}

#[test]
fn an_axis_with_scales_is_not_reshaped() {
    let error = scales(Join::One, &["reshape 2 6 -> 12"]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    let mut whole = matrix();
    whole.contents.checkpoint.tensors[0].quantization = Some(affine(&[0.5], None));
    let step = AxisStep::parse("reshape 2 6 -> 12").unwrap();
    whole.rebuilt(&[target("b", &["a"], Join::One, &[step])]).unwrap();
}
