use super::super::rebuild::rebuild;
use super::*;
use crate::recipe::{Join, Recipe};
use ckpt_api::{Axis, Checkpoint, DType, Encoding, Extent, FileId, Kind, Placement, Shape, TensorId};

/// A convolution with 2 channels on images of 2 × 3, a Flatten, and a dense layer.
fn network(channels_last: bool) -> Contents {
    let mut nodes = vec![Node::new("conv", Op::Conv).parameter("weight", "k"), Node::new("relu", Op::Relu)];
    if channels_last {
        nodes.push(Node::new("last", Op::Transpose).attribute("perm", Attribute::Ints(vec![0, 2, 3, 1])));
    }
    nodes.push(Node::new("flatten", Op::Flatten));
    nodes.push(Node::new("drop", Op::Identity));
    nodes.push(Node::new("dense", Op::Gemm).parameter("weight", "w").parameter("bias", "b"));
    let kernel = [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    let tensor = |name: &str, shape: &[u64], axes: &[Axis]| {
        Tensor::new(name, DType::F32, Shape::new(shape).unwrap()).with_axes(axes.to_vec())
    };
    let tensors = vec![
        tensor("k", &[1, 1, 3, 2], &kernel),
        tensor("w", &[12, 4], &[Axis::In, Axis::Out]),
        tensor("b", &[4], &[Axis::Out]),
    ];
    let placement = |(id, tensor): (usize, &Tensor)| {
        let extent = Extent::new(FileId(0), 0, tensor.value_bytes());
        Placement::new(TensorId(id), tensor.name.clone(), vec![extent], Encoding::row_major(tensor))
    };
    let placements = tensors.iter().enumerate().map(placement).collect();
    let graph = Some(Graph::sequential("m", vec![], vec![], nodes));
    let checkpoint = Checkpoint { graph, tensors, ..Checkpoint::default() };
    Contents::default().with_checkpoint(checkpoint).with_placements(placements)
}

/// The network after these steps, by tensor, and the losses.
fn mapped(source: &Contents, steps: &[(&str, &str)]) -> Result<(Contents, Vec<Loss>)> {
    let mut contents = source.clone();
    let targets = source.checkpoint.tensors.iter().map(|tensor| {
        let own = steps.iter().filter(|(name, _)| *name == tensor.name);
        let steps = own.map(|(_, step)| AxisStep::parse(step)).collect::<Result<_>>()?;
        let recipe = Recipe { join: Join::One, steps, ..Recipe::default() };
        Ok(Target { name: tensor.name.to_string(), sources: vec![tensor.name.to_string()], recipe })
    });
    let targets = targets.collect::<Result<Vec<_>>>()?;
    let mut steps = ImageSteps::default();
    steps.add(&targets);
    let mut losses = rebuild(&mut contents, &targets)?;
    losses.extend(conventions(source, &contents, &steps));
    Ok((contents, losses))
}

fn ops(contents: &Contents) -> Vec<String> {
    contents.checkpoint.graph.iter().flat_map(|graph| &graph.nodes).map(|node| node.op.to_string()).collect()
}

const TURNED: (&str, &str) = ("k", "permute 3 2 0 1");

#[test]
fn kernels_with_their_channels_first_before_a_flatten_with_its_channels_last_are_a_loss_of_convention() {
    let (_, losses) = mapped(&network(true), &[TURNED]).unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].subject.as_str()), (1, LossKind::Convention, "w"));
    let detail = &losses[0].detail;
    assert!(detail.contains("'flatten_order 6 2'"), "{detail:?}");
    assert!(LossKind::Convention.changes_function());
    for steps in [&[][..], &[("w", "transpose")], &[TURNED, ("w", "flatten_order 2 3 2")]] {
        assert_eq!(mapped(&network(true), steps).unwrap().1, []);
    }
    assert_eq!(mapped(&network(false), &[TURNED]).unwrap().1, [], "the channels are first already");
}

#[test]
fn the_transpose_before_a_flatten_goes_and_comes_with_the_order_of_the_dense_weight() {
    let (first, _) = mapped(&network(true), &[TURNED, ("w", "flatten_order 2 3 2")]).unwrap();
    assert_eq!(ops(&first), ["Conv", "Relu", "Flatten", "Identity", "Gemm"]);
    first.checkpoint.graph.as_ref().unwrap().check().unwrap();
    let (last, losses) = mapped(&network(false), &[("w", "unflatten_order 6 2")]).unwrap();
    assert_eq!((ops(&last), losses), (ops(&network(true)), vec![]));
    last.checkpoint.graph.as_ref().unwrap().check().unwrap();
    let Some(Attribute::Ints(perm)) =
        last.checkpoint.graph.as_ref().unwrap().nodes[2].attributes.get("perm").cloned()
    else {
        panic!("no perm")
    };
    assert_eq!(perm, [0, 2, 3, 1]);
}

#[test]
fn a_step_moves_channels_to_where_they_are_not_yet() {
    for (channels_last, step) in [(false, "flatten_order 2 3 2"), (true, "unflatten_order 2 3 2")] {
        let error = mapped(&network(channels_last), &[("w", step)]).err().unwrap();
        assert_eq!(error.kind(), Kind::Mapping);
        assert!(error.to_string().contains("already"), "{error}");
    }
}

#[test]
fn a_graph_that_does_not_show_the_reordered_images_is_dropped() {
    let mut source = network(true);
    // The images do not come from a convolution, and their outputs are reordered.
    source.checkpoint.graph.as_mut().unwrap().nodes.drain(..3);
    for step in ["flatten_order 6 2", "flatten_order 2 2 on 1"] {
        let (contents, losses) = mapped(&source, &[("w", step)]).unwrap();
        assert!(contents.checkpoint.graph.is_none());
        assert!(losses.iter().any(|loss| loss.kind == LossKind::GraphDropped), "{losses:?}");
    }
}

#[test]
fn kernels_that_get_their_channels_last_need_images_with_their_channels_last() {
    let last = [TURNED, ("w", "flatten_order 2 3 2")];
    let (source, losses) = mapped(&network(true), &last).unwrap();
    assert_eq!(losses, []);
    let back = ("k", "permute 2 3 1 0");
    let mut stored = source.clone();
    stored.placements[1].encoding = Encoding::row_major(&stored.checkpoint.tensors[1]);
    let (_, losses) = mapped(&stored, &[back]).unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].subject.as_str()), (1, LossKind::Convention, "w"));
    assert!(losses[0].detail.contains("'unflatten_order 6 2'"), "{}", losses[0].detail.as_str());
    assert_eq!(mapped(&stored, &[back, ("w", "unflatten_order 6 2")]).unwrap().1, []);
}

#[test]
fn images_are_not_reordered_without_the_kernels_before_them() {
    let (_, losses) = mapped(&network(true), &[("w", "flatten_order 2 3 2")]).unwrap();
    assert_eq!((losses.len(), losses[0].subject.as_str()), (1, "w"));
    assert!(losses[0].detail.contains("still have their channels last"), "{}", losses[0].detail.as_str());
}

#[test]
fn images_that_are_flattened_together_with_other_values_are_a_loss() {
    let mut source = network(true);
    let nodes = &mut source.checkpoint.graph.as_mut().unwrap().nodes;
    let mut join = Node::new("join", Op::Concat);
    (join.inputs, join.outputs) = (vec!["drop".into(), "table".into()], vec!["join".into()]);
    nodes.insert(5, join);
    nodes[6].inputs = vec!["join".into()];
    let (_, losses) = mapped(&source, &[TURNED]).unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].subject.as_str()), (1, LossKind::Convention, "join"));
}

#[test]
fn images_that_are_flattened_together_with_other_flattened_values_are_a_loss_in_any_order() {
    for names in [["drop", "rows"], ["rows", "drop"]] {
        let mut source = network(true);
        let nodes = &mut source.checkpoint.graph.as_mut().unwrap().nodes;
        let mut flat = Node::new("flat", Op::Flatten);
        (flat.inputs, flat.outputs) = (vec!["table".into()], vec!["rows".into()]);
        let mut join = Node::new("join", Op::Concat);
        (join.inputs, join.outputs) = (names.map(str::to_owned).to_vec(), vec!["join".into()]);
        nodes.insert(0, flat);
        nodes.insert(6, join);
        nodes[7].inputs = vec!["join".into()];
        let (_, losses) = mapped(&source, &[TURNED]).unwrap();
        let found: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.subject.as_str())).collect();
        assert_eq!(found, [(LossKind::Convention, "join")]);
    }
}

#[test]
fn pooled_images_have_one_pixel() {
    let mut source = network(true);
    source.checkpoint.graph.as_mut().unwrap().nodes[1].op = Op::GlobalAveragePool;
    assert_eq!(mapped(&source, &[TURNED]).unwrap().1, []);
}

#[test]
fn an_image_with_other_channels_than_the_convolution_is_refused() {
    let error = mapped(&network(true), &[("w", "flatten_order 2 2 3")]).err().unwrap();
    assert_eq!(error.kind(), Kind::Mapping);
    assert!(error.to_string().contains("2 channels"), "{error}");
}

#[test]
fn tensors_that_take_the_same_images_are_reordered_alike() {
    let mut source = network(true);
    let graph = source.checkpoint.graph.as_mut().unwrap();
    let mut more = Node::new("more", Op::Gemm).parameter("weight", "k");
    (more.inputs, more.outputs) = (vec!["drop".into()], vec!["more".into()]);
    graph.nodes.push(more);
    let error = mapped(&source, &[("w", "flatten_order 2 3 2")]).err().unwrap();
    assert_eq!((error.kind(), error.context().tensor), (Kind::Mapping, Some("k")));
}

#[test]
fn without_a_graph_inputs_that_no_layer_makes_are_likely_flattened_images() {
    let mut source = network(true);
    source.checkpoint.graph = None;
    let (_, losses) = mapped(&source, &[TURNED]).unwrap();
    assert_eq!((losses.len(), losses[0].kind, losses[0].subject.as_str()), (1, LossKind::Convention, "w"));
    assert!(losses[0].detail.contains("'flatten_order 6 2'"), "{}", losses[0].detail.as_str());
    for steps in [&[][..], &[TURNED, ("w", "flatten_order 6 2")]] {
        assert_eq!(mapped(&source, steps).unwrap().1, []);
    }
    source.checkpoint.tensors[2].shape = Shape::new(vec![12]).unwrap();
    assert_eq!(mapped(&source, &[TURNED]).unwrap().1.len(), 1, "a bias makes nothing");
    let matrix = |inputs| Shape::new(vec![inputs, 12]).unwrap();
    source.checkpoint.tensors[1].shape = matrix(12);
    assert_eq!(mapped(&source, &[TURNED]).unwrap().1.len(), 1, "a layer does not make its own inputs");
    let made = &mut source.checkpoint.tensors[2];
    (made.shape, made.axes) = (matrix(2), Some([Axis::In, Axis::Out].into()));
    assert_eq!(mapped(&source, &[TURNED]).unwrap().1, [], "a layer makes 12 outputs");
}

#[test]
fn images_of_one_channel_or_of_one_pixel_have_one_order() {
    for (kernel, inputs) in [([1, 1, 3, 1], 12), ([1, 1, 3, 2], 2)] {
        let mut source = network(true);
        source.checkpoint.tensors[0].shape = Shape::new(kernel.to_vec()).unwrap();
        source.checkpoint.tensors[1].shape = Shape::new(vec![inputs, 4]).unwrap();
        assert_eq!(mapped(&source, &[TURNED]).unwrap().1, [], "{inputs}");
    }
}

#[test]
fn images_take_the_order_of_another_graph() {
    let (last, first) = (network(true), network(false));
    let graph = |contents: &Contents| contents.checkpoint.graph.clone().unwrap();
    for (source, other, step) in
        [(&last, &first, "flatten_order 6 2"), (&first, &last, "unflatten_order 6 2")]
    {
        let targets = steps_to_order_of(&graph(other), source).unwrap().unwrap();
        let mut reordered = source.clone();
        assert_eq!(rebuild(&mut reordered, &targets).unwrap(), []);
        assert_eq!(ops(&reordered), ops(other));
        let weight = targets.iter().find(|target| target.name == "w").unwrap();
        assert_eq!(weight.recipe.describe(), step);
        assert!(steps_to_order_of(&graph(source), source).unwrap().is_none());
    }
}
