//! Graphs that cannot run are refused before they run, and the error names the node.

use super::support::*;
use ckpt_api::{Attribute, Axis, DType, Graph, Kind, Node, Op, Value as Open};
use ckpt_forward::{Arithmetic, Bounds, Cpu, Program, Value, default_shapes, op};
use std::collections::BTreeMap;

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn zeros(shape: &[usize]) -> Value {
    real(shape, &vec![0.0; shape.iter().product()])
}

/// A matrix `[3, 2]`, a bias, a filter, a list, and tensors that do not fit them.
fn tensors() -> Tensors {
    Tensors::default()
        .with("w", &[Axis::In, Axis::Out], &zeros(&[3, 2]))
        .with("b", &[Axis::Out], &zeros(&[2]))
        .with("b3", &[Axis::Out], &zeros(&[3]))
        .with("k", &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX], &zeros(&[4, 3, 3, 3]))
        .with("table", &[Axis::Feature, Axis::Out], &zeros(&[5, 2]))
        .with("open", &[], &zeros(&[3, 2]))
        .edit("open", |tensor| tensor.axes = None)
        .with("flags", &[Axis::In, Axis::Out], &zeros(&[3, 2]))
        .edit("flags", |tensor| tensor.dtype = DType::Bool)
}

/// A refusal: the node, its inputs, the kind of error, and what the error must contain besides the node's name.
type Refusal = (Node, Vec<Value>, Kind, &'static [&'static str]);

fn node(op: Op) -> Node {
    Node::new("the layer", op)
}

fn dense(weight: &str) -> Node {
    node(Op::Gemm).parameter("weight", weight)
}

fn conv() -> Node {
    node(Op::Conv).parameter("weight", "k")
}

fn pool() -> Node {
    node(Op::MaxPool).attribute("kernel_shape", ints(&[2, 2]))
}

fn pad(mode: &str) -> Node {
    node(Op::Pad).attribute("pads", ints(&[0, 1])).attribute("mode", Attribute::Text(mode.into()))
}

fn of_tensors() -> Vec<Refusal> {
    use Kind::{Corrupt, Unsupported, Usage};
    let x = || vec![zeros(&[4, 3])];
    vec![
        (dense("w"), vec![zeros(&[4, 5])], Corrupt, &["[4, 5]", "3 features"]),
        (dense("w"), vec![zeros(&[])], Corrupt, &["[]", "last axis"]),
        (dense("w"), vec![], Corrupt, &["lacks an input"]),
        (dense("w"), vec![zeros(&[4, 3]), zeros(&[1])], Corrupt, &["2 inputs", "1 for Gemm"]),
        (dense("w"), vec![integer(&[4, 3], &[0; 12])], Corrupt, &["a layer of integers", "w"]),
        (dense("w").parameter("bias", "b3"), x(), Corrupt, &["b3", "3 on axis out", "2"]),
        (dense("w").parameter("scale", "b"), x(), Unsupported, &["'scale'", "weight, bias"]),
        (dense("w").attribute("alpha", Attribute::Float(2.0)), x(), Corrupt, &["alpha", "2"]),
        (dense("w").attribute("beat", Attribute::Int(1)), x(), Unsupported, &["'beat'"]),
        (dense("gone"), x(), Corrupt, &["gone", "does not exist"]),
        (dense("open"), x(), Usage, &["open", "axes in out", "OpenOptions::architecture"]),
        (dense("flags"), x(), Unsupported, &["flags", "bool"]),
        (dense("table"), x(), Corrupt, &["table", "feature of length 5"]),
        (node(Op::Gemm), x(), Corrupt, &["weight"]),
        (
            node(Op::Gather).parameter("weight", "b3"),
            vec![integer(&[1], &[0])],
            Corrupt,
            &["b3", "axes out", "feature"],
        ),
        (node(Op::BatchNormalization), x(), Corrupt, &["mean"]),
        (node(Op::custom("com.example.Swish")), x(), Unsupported, &["com.example.Swish"]),
    ]
}

fn of_images() -> Vec<Refusal> {
    use Kind::{Corrupt, Unsupported, Usage};
    let image = || vec![zeros(&[1, 3, 5, 5])];
    vec![
        (conv(), vec![zeros(&[3, 5])], Corrupt, &["[3, 5]", "[N, C, H, W]"]),
        (conv(), vec![zeros(&[1, 3, 5])], Corrupt, &["k", "kernel_y of length 3"]),
        (conv(), vec![zeros(&[1, 2, 5, 5])], Corrupt, &["2 channels", "3 in each group"]),
        (conv(), vec![zeros(&[1, 3, 2, 5])], Usage, &["larger than the padded image", "[2, 5]"]),
        (conv().attribute("group", Attribute::Int(0)), image(), Corrupt, &["group", "0"]),
        (conv().attribute("strides", ints(&[1, 0])), image(), Corrupt, &["strides", "[1, 0]"]),
        (conv().attribute("pads", ints(&[1, 1])), image(), Corrupt, &["pads", "4 integers from 0"]),
        (
            conv().attribute("auto_pad", Attribute::Text("SAME".into())),
            image(),
            Corrupt,
            &["'SAME'", "SAME_UPPER"],
        ),
        (conv().attribute("kernel_shape", ints(&[5, 5])), image(), Corrupt, &["kernel_shape", "[3, 3]"]),
        (
            conv()
                .attribute("auto_pad", Attribute::Text("VALID".into()))
                .attribute("pads", ints(&[1, 0, 0, 0])),
            image(),
            Corrupt,
            &["pads", "[1, 0, 0, 0]", "auto_pad"],
        ),
        (node(Op::MaxPool), image(), Corrupt, &["kernel_shape"]),
        (pool().attribute("pads", ints(&[2, 0, 0, 0])), image(), Unsupported, &["only padding"]),
        (pool().attribute("ceil_mode", Attribute::Int(2)), image(), Corrupt, &["ceil_mode", "0 or 1"]),
        (node(Op::GlobalAveragePool), vec![zeros(&[1, 3, 0, 5])], Corrupt, &["pixels"]),
        (node(Op::custom(op::STATIC_FEATURES)), image(), Corrupt, &["[N, 4, H, W]"]),
    ]
}

fn of_moves() -> Vec<Refusal> {
    use Kind::{Corrupt, Unsupported, Usage};
    let x = || vec![zeros(&[3])];
    let two = |a: &[usize], b: &[usize]| vec![zeros(a), zeros(b)];
    let slice = |step| {
        node(Op::Slice)
            .attribute("starts", ints(&[0]))
            .attribute("ends", ints(&[2]))
            .attribute("steps", ints(&[step]))
    };
    vec![
        (
            node(Op::Concat).attribute("axis", Attribute::Int(1)),
            two(&[2, 3], &[3, 3]),
            Corrupt,
            &["[3, 3]", "[2, 3]"],
        ),
        (
            node(Op::Concat).attribute("axis", Attribute::Int(2)),
            two(&[2, 3], &[2, 3]),
            Corrupt,
            &["axis", "2"],
        ),
        (node(Op::Add), two(&[2, 3], &[2]), Corrupt, &["[2]", "broadcasts to [2, 3]"]),
        (node(Op::Reshape).attribute("shape", ints(&[2, -1])), x(), Corrupt, &["[2, -1]"]),
        (node(Op::Reshape).attribute("shape", ints(&[-1, -1])), x(), Corrupt, &["[-1, -1]"]),
        (node(Op::Transpose).attribute("perm", ints(&[0, 0])), x(), Corrupt, &["perm", "[0, 0]"]),
        (node(Op::Softmax).attribute("axis", Attribute::Int(-2)), x(), Corrupt, &["axis", "-2"]),
        (slice(0), x(), Corrupt, &["steps", "other than 0"]),
        (pad("unspecified"), x(), Usage, &["border", "the option `border=zero`"]),
        (pad("mirror"), x(), Unsupported, &["'mirror'", "reflect"]),
        (pad("edge"), vec![zeros(&[0])], Corrupt, &["an element to repeat"]),
        (pad("edge").attribute("pads", ints(&[-2, -2])), x(), Corrupt, &["pads"]),
        (node(Op::custom(op::SCALE)), x(), Corrupt, &["real numbers", "integers"]),
        (node(Op::Elu).attribute("alpha", Attribute::Text("1".into())), x(), Corrupt, &["alpha", "a number"]),
        (
            node(Op::Gelu).attribute("approximate", Attribute::Text("x".into())),
            x(),
            Corrupt,
            &["approximate", "'x'"],
        ),
    ]
}

#[test]
fn a_node_that_does_not_fit_is_named_with_what_is_found_and_expected() {
    let mut seen = 0;
    for (node, inputs, kind, parts) in of_tensors().into_iter().chain(of_images()).chain(of_moves()) {
        let name = format!("{} {parts:?}", node.op);
        let Err(error) = run(node, &inputs, &tensors()) else { panic!("{name}: not refused") };
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{name}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{name}: {text}");
        assert!(text.contains(" layer") || kind == Kind::Usage, "{name}: {text}");
        seen += 1;
    }
    assert_eq!(seen, 47);
}

fn embedding() -> Graph {
    let mut graph = graph(Node::new("embedding", Op::Gather).parameter("weight", "table"), &[&[2]], 1);
    graph.outputs = vec![Open::new("y0", vec![None, Some(2)])];
    graph
}

fn given(value: Value) -> BTreeMap<String, Value> {
    BTreeMap::from([("x0".to_owned(), value)])
}

#[test]
fn an_index_out_of_range_is_found_before_it_reaches_a_device() {
    let (graph, tensors) = (embedding(), tensors());
    let program = Program::new(&graph, &tensors, &BTreeMap::from([("x0".into(), vec![2])])).unwrap();
    let mut cpu = Cpu::new(Arithmetic::F64);
    for (index, parts) in
        [(5, ["embedding", "5 at element 1", "less than 5"]), (-6, ["embedding", "-6", "at least -5"])]
    {
        let value = integer(&[2], &[4, index]);
        let error = program.run(&mut cpu, &given(value.clone()), &mut ()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        let error = program.run_node(0, &mut cpu, &[value]).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn an_index_that_the_graph_moved_is_checked_too() {
    let mut graph = embedding();
    let mut flat = Node::new("flat", Op::Reshape).attribute("shape", ints(&[2]));
    flat.inputs = vec!["x0".into()];
    flat.outputs = vec!["flat".into()];
    graph.nodes[0].inputs = vec!["flat".into()];
    graph.nodes.insert(0, flat);
    let tensors = tensors();
    let program = Program::new(&graph, &tensors, &BTreeMap::from([("x0".into(), vec![2])])).unwrap();
    let mut cpu = Cpu::new(Arithmetic::F32);
    let error = program.run(&mut cpu, &given(integer(&[2], &[0, 7])), &mut ()).unwrap_err().to_string();
    assert!(error.contains("embedding") && error.contains("7 at element 1"), "{error}");
    program.run(&mut cpu, &program.random_inputs(1), &mut ()).unwrap();
}

#[test]
fn unknown_missing_and_misshaped_inputs_are_refused_by_name() {
    let (graph, tensors) = (embedding(), tensors());
    let shapes = |name: &str, shape: &[usize]| BTreeMap::from([(name.to_owned(), shape.to_vec())]);
    for (shapes, parts) in [
        (shapes("x1", &[2]), ["x1", "does not have this input"]),
        (shapes("x0", &[2, 2]), ["x0", "[2, 2]"]),
        (BTreeMap::new(), ["x0", "is missing"]),
    ] {
        let error = Program::new(&graph, &tensors, &shapes).err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(parts.iter().all(|part| error.to_string().contains(part)), "{error}");
    }
    let program = Program::new(&graph, &tensors, &shapes("x0", &[2])).unwrap();
    for value in [integer(&[3], &[0; 3]), real(&[2], &[0.0; 2])] {
        let error = program.run(&mut Cpu::new(Arithmetic::F64), &given(value), &mut ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
}

#[test]
fn a_graph_whose_output_has_another_shape_than_stated_is_refused() {
    let (mut graph, tensors) = (embedding(), tensors());
    graph.outputs[0].shape = vec![None, Some(3)];
    let error =
        Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 2)).err().unwrap().to_string();
    assert!(error.contains("y0") && error.contains("[2, 2]") && error.contains("[?, 3]"), "{error}");
}

#[test]
fn an_unknown_activation_is_refused_with_help() {
    let graph = Graph::sequential(
        "",
        vec![None, Some(3)],
        vec![None, Some(2)],
        vec![dense("w"), Node::unspecified("the layer")],
    );
    let tensors = tensors();
    let error = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 2)).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("the layer") && error.to_string().contains("activations="), "{error}");
}

#[test]
fn a_graph_that_does_not_fit_into_memory_is_refused_before_allocation() {
    let (graph, tensors) = (embedding(), tensors());
    let shapes = |rows| BTreeMap::from([("x0".to_owned(), vec![rows])]);
    // 2 GiB of indices, and 4 GiB of rows.
    for (rows, place) in [(1 << 40, "inputs"), (1 << 28, "embedding")] {
        let error = Program::new(&graph, &tensors, &shapes(rows)).err().unwrap();
        assert_eq!(error.kind(), Kind::Limit);
        assert!(error.to_string().contains(place), "{error}");
    }
    // Two indices, the result [2, 2] and the table [5, 2], as binary64.
    let least = 8 * (2 + 4 + 10);
    assert_eq!(
        Program::within(&graph, &tensors, &shapes(2), Bounds { memory: least, ..Bounds::default() })
            .unwrap()
            .peak_bytes(),
        least
    );
    assert!(
        Program::within(&graph, &tensors, &shapes(2), Bounds { memory: least - 1, ..Bounds::default() })
            .is_err()
    );
    assert!(Program::new(&graph, &tensors, &shapes(usize::MAX)).is_err());
}
