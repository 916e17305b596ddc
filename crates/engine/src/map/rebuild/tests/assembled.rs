//! Tensors that are assembled of pieces, and taken apart again, against plain loops over values.

use super::*;
use crate::recipe::{Piece, Place};

const TRANSPOSE: [AxisStep; 1] = [AxisStep::Transpose];

fn assembled(element: Option<u64>, pieces: &[(usize, bool)]) -> Join {
    let pieces = pieces.iter().map(|(source, is_zero)| Piece::new(*source, *is_zero)).collect();
    Join::Assembled { axis: 0, element, pieces }
}

fn disassembled(elements: Option<u64>, [tensor, part, parts]: [usize; 3]) -> Join {
    Join::Disassembled { axis: 0, elements, each: 1, places: vec![Place { tensor, part, parts }] }
}

/// Two stacks of three matrices `[2, 4]`.
fn stacks() -> [Array; 2] {
    [Array::counted(&[3, 2, 4], 1), Array::counted(&[3, 2, 4], 100)]
}

fn stored([a, b]: &[Array; 2]) -> Memory {
    Memory::default().add("a", a, &[0, 1, 2], false).add("b", b, &[0, 1, 2], false)
}

fn element(array: &Array, index: u64) -> Array {
    let part = array.part(0, index, 1);
    Array { shape: part.shape[1..].to_vec(), values: part.values }
}

/// Both stacks' elements of one index, transposed and side by side.
fn made(index: u64) -> Target {
    let join = assembled(Some(index), &[(0, false), (1, false)]);
    target(&format!("t{index}"), &["a", "b"], join, &TRANSPOSE)
}

#[test]
fn pieces_of_one_element_are_side_by_side_after_their_steps() {
    let stacks = stacks();
    let memory = stored(&stacks).rebuilt(&[made(0), made(1), made(2)]).unwrap();
    for index in 0..3 {
        let own = stacks.each_ref().map(|stack| element(stack, index).permuted(&[1, 0]));
        assert_eq!(memory.array(&format!("t{index}")).unwrap(), Array::merged(&own, 0));
    }
}

#[test]
fn what_was_assembled_of_elements_is_stacked_again() {
    let stacks = stacks();
    // Stored as it is written: in a file of its own.
    let made = stored(&stacks).rebuilt(&[made(0), made(1), made(2)]).unwrap();
    let mut memory = Memory::default();
    for index in 0..3 {
        let name = format!("t{index}");
        memory = memory.add(&name, &made.array(&name).unwrap(), &[0, 1], false);
    }
    let back = |name: &str, part: usize| {
        target(name, &["t0", "t1", "t2"], disassembled(Some(3), [0, part, 2]), &TRANSPOSE)
    };
    let memory = memory.rebuilt(&[back("a", 0), back("b", 1)]).unwrap();
    assert_eq!(["a", "b"].map(|name| memory.array(name).unwrap()), stacks);
}

#[test]
fn a_piece_can_be_zeros_and_its_source_is_the_sum_of_its_places() {
    let [a, b] = [Array::counted(&[2], 1), Array::counted(&[2], 10)];
    let memory = Memory::default().add("a", &a, &[0], false).add("b", &b, &[0], false);
    let row = [(0, false), (1, true), (1, false)];
    let memory = memory.rebuilt(&[target("t", &["a", "b"], assembled(None, &row), &[])]).unwrap();
    assert_eq!(memory.array("t").unwrap().values, [1, 2, 0, 0, 10, 11]);
    let places = vec![Place { tensor: 0, part: 2, parts: 3 }, Place { tensor: 0, part: 1, parts: 3 }];
    let join = Join::Disassembled { axis: 0, elements: None, each: 1, places };
    // Numbers of 16 bits are not added: only a conversion of 32-bit floats does that.
    let error = memory.rebuilt(&[target("b", &["t"], join, &[])]).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

#[test]
fn an_axis_that_is_not_of_equal_parts_is_refused() {
    let memory = || Memory::default().add("t", &Array::counted(&[5, 2], 1), &[0, 1], false);
    for elements in [None, Some(1)] {
        let error =
            memory().rebuilt(&[target("a", &["t"], disassembled(elements, [0, 1, 2]), &[])]).map(drop);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("a multiple of 2"), "{error}");
    }
}
