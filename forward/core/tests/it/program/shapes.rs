//! Operators that change the shape of a value, or repeat its elements, and constants.

use super::support::*;
use ckpt_api::{Attribute, Axis, DType, Node, Op};
use ckpt_forward::Value;

fn ints(name: &str, op: Op, values: &[i64]) -> Node {
    Node::new("s", op).attribute(name, Attribute::Ints(values.to_vec()))
}

fn alone(node: Node, x: &Value) -> Result<Value, String> {
    run(node, std::slice::from_ref(x), &Tensors::default()).map_err(|error| error.to_string())
}

fn counted(shape: &[usize]) -> Value {
    let len = shape.iter().product::<usize>();
    real(shape, &(0..len).map(|i| i as f64).collect::<Vec<_>>())
}

#[test]
fn squeeze_removes_axes_of_length_1_and_unsqueeze_adds_them() {
    let x = counted(&[1, 2, 1, 3]);
    let values = x.array.to_f64();
    assert_close(&alone(Node::new("s", Op::Squeeze), &x).unwrap(), &[2, 3], &values);
    assert_close(&alone(ints("axes", Op::Squeeze, &[-2]), &x).unwrap(), &[1, 2, 3], &values);
    assert!(alone(ints("axes", Op::Squeeze, &[1]), &x).unwrap_err().contains("a length of 1"));
    let y = counted(&[2, 3]);
    assert_close(
        &alone(ints("axes", Op::Unsqueeze, &[0, -1]), &y).unwrap(),
        &[1, 2, 3, 1],
        &y.array.to_f64(),
    );
    assert_close(&alone(ints("axes", Op::Unsqueeze, &[1, 2]), &y).unwrap(), &[2, 1, 1, 3], &y.array.to_f64());
    assert!(alone(ints("axes", Op::Unsqueeze, &[3]), &y).unwrap_err().contains("names an axis"));
    assert!(alone(Node::new("s", Op::Unsqueeze), &y).unwrap_err().contains("'axes'"));
}

#[test]
fn expand_broadcasts_and_tile_repeats() {
    let x = counted(&[2, 1]);
    let found = alone(ints("shape", Op::Expand, &[2, 1, 3]), &x).unwrap();
    assert_close(&found, &[2, 2, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    assert_close(&alone(ints("shape", Op::Expand, &[-1, 2]), &x).unwrap(), &[2, 2], &[0.0, 0.0, 1.0, 1.0]);
    assert!(alone(ints("shape", Op::Expand, &[3, 1]), &x).unwrap_err().contains("broadcasts"));
    assert!(alone(ints("shape", Op::Expand, &[-2]), &x).unwrap_err().contains("lengths, or -1"));
    let found = alone(ints("repeats", Op::Tile, &[2, 3]), &x).unwrap();
    assert_close(&found, &[4, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    assert_close(&alone(ints("repeats", Op::Tile, &[1, 0]), &x).unwrap(), &[2, 0], &[]);
    assert!(alone(ints("repeats", Op::Tile, &[2]), &x).unwrap_err().contains("for each axis"));
    assert!(
        alone(ints("repeats", Op::Tile, &[1 << 40, 1 << 40]), &x).unwrap_err().contains("too many elements")
    );
}

#[test]
fn a_constant_is_a_tensor_in_its_stored_order_or_a_number() {
    let made = |node: Node, tensors: &Tensors| run(node, &[], tensors);
    let stored = counted(&[2, 3]);
    let tensors = Tensors::default()
        .with("table", &[Axis::Out, Axis::In], &stored)
        .with("steps", &[], &integer(&[2], &[4, -5]))
        .edit("steps", |tensor| tensor.axes = None)
        .with("positions", &[], &integer(&[2], &[0, 1]))
        .edit("positions", |tensor| (tensor.axes, tensor.dtype) = (None, DType::I64));
    let of = |name: &str| Node::new("c", Op::Constant).parameter("value", name);
    assert_close(&made(of("table"), &tensors).unwrap(), &[2, 3], &stored.array.to_f64());
    assert_eq!(made(of("steps"), &tensors).unwrap(), integer(&[2], &[4, -5]));
    assert_eq!(made(of("positions"), &tensors).unwrap(), integer(&[2], &[0, 1]));
    let number = Node::new("c", Op::Constant).attribute("value_float", Attribute::Float(0.5));
    assert_close(&made(number, &tensors).unwrap(), &[], &[0.5]);
    let number = Node::new("c", Op::Constant).attribute("value_int", Attribute::Int(-3));
    assert_eq!(made(number, &tensors).unwrap(), integer(&[], &[-3]));
    let list = |name: &str, values, shape: Option<&[i64]>| {
        let node = Node::new("c", Op::Constant).attribute(name, values);
        match shape {
            Some(shape) => node.attribute("shape", Attribute::Ints(shape.to_vec())),
            None => node,
        }
    };
    let floats = || Attribute::Floats(vec![0.5, -1.0, 2.0, 3.5]);
    assert_close(
        &made(list("value_floats", floats(), None), &tensors).unwrap(),
        &[4],
        &[0.5, -1.0, 2.0, 3.5],
    );
    let found = made(list("value_floats", floats(), Some(&[2, 1, 2])), &tensors).unwrap();
    assert_close(&found, &[2, 1, 2], &[0.5, -1.0, 2.0, 3.5]);
    let found = made(list("value_ints", Attribute::Ints(vec![7, -8]), Some(&[2, 1])), &tensors).unwrap();
    assert_eq!(found, integer(&[2, 1], &[7, -8]));
    for (node, part) in [
        (list("value_floats", floats(), Some(&[3])), "a shape of 4 elements"),
        (list("value_floats", floats(), Some(&[i64::MAX, 4])), "a shape of 4 elements"),
        (list("value_ints", Attribute::Ints(vec![1 << 31]), None), "32 bits"),
        (list("value_ints", floats(), None), "a list of integers"),
        (of("table").attribute("value_int", Attribute::Int(1)), "not both"),
    ] {
        let error = made(node, &tensors).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let large = Node::new("c", Op::Constant).attribute("value_int", Attribute::Int(1 << 40));
    for (node, part) in
        [(large, "32 bits"), (of("nothing"), "does not exist"), (Node::new("c", Op::Constant), "value")]
    {
        let error = made(node, &tensors).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_constant_of_wide_integers_is_a_tensor_whose_elements_are_checked_when_it_is_loaded() {
    for dtype in [DType::I64, DType::U64, DType::U32, DType::Bool] {
        let tensors = Tensors::default()
            .with("table", &[], &integer(&[2], &[1, 0]))
            .edit("table", |tensor| (tensor.axes, tensor.dtype) = (None, dtype));
        let node = Node::new("c", Op::Constant).parameter("value", "table");
        assert_eq!(run(node, &[], &tensors).unwrap(), integer(&[2], &[1, 0]), "{dtype}");
    }
}
