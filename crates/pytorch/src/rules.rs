//! The mapping of a program's tensors.

use super::attributes::ints;
use super::program::{Made, Program};
use super::templates::{Paths, TorchNames};
use ckpt_api::{Error, Graph, Loss, LossKind, Op, Result, Role, Tensor};
use ckpt_engine::mapping::{Mapping, Relation, Rule};
use ckpt_engine::pattern::Pattern;
use ckpt_engine::words::quote;
use std::collections::HashSet;

/// The name of the mapping.
pub(super) const KERAS_TO_TORCH: &str = "keras-to-torch";

/// The mapping from the tensors of the source to those of the modules.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a tensor that two modules take.
pub(super) fn mapping(program: &Program, paths: &Paths, names: TorchNames) -> Result<Mapping> {
    let title = format!("Keras to PyTorch, made for one graph, with names={}", names.name());
    let mut mapping = Mapping::of_generator(KERAS_TO_TORCH, title, "pt");
    let mut seen = HashSet::new();
    for (number, module) in program.modules.iter().enumerate() {
        let path = paths.path(number);
        for weight in &module.weights {
            if let Some(twice) = weight.sources.iter().find(|source| !seen.insert(source.as_str())) {
                return Err(Error::unsupported("a tensor is used by layers that PyTorch stores it for in different ways")
                    .tensor(twice)
                    .found(format!("layer {} and another", quote(&module.layer)))
                    .help("write a mapping file for this model: give the tensor one name for each with 'tie = true'"));
            }
            let targets: Vec<String> = weight.targets.iter().map(|name| format!("{path}.{name}")).collect();
            match (&weight.relation, &weight.sources[..], &targets[..]) {
                (Relation::One, [source], [target]) if weight.steps.is_empty() => {
                    mapping.look_up(source, target);
                }
                _ => mapping.rules.push(Rule::new(
                    weight.sources.iter().map(|name| Pattern::literal(name)).collect(),
                    targets.iter().map(|name| Pattern::literal(name)).collect(),
                    weight.relation.clone(),
                    weight.steps.clone(),
                )),
            }
        }
    }
    Ok(mapping)
}

/// The counters that PyTorch's batch normalizations have beside these tensors.
pub(super) fn counters(program: &Program, paths: &Paths) -> Vec<String> {
    let modules = program.modules.iter().enumerate();
    let counting = modules
        .filter(|(_, module)| matches!(&module.made, Made::Call(call) if call.starts_with("nn.BatchNorm")));
    counting.map(|(number, _)| format!("{}.num_batches_tracked", paths.path(number))).collect()
}

/// A loss for each weight that no layer of the graph takes: it has no module.
pub(super) fn unused(graph: &Graph, tensors: &[Tensor]) -> Vec<Loss> {
    let used: HashSet<&str> = graph.tensors().collect();
    let unused =
        tensors.iter().filter(|tensor| tensor.role == Role::Weight && !used.contains(tensor.name.as_str()));
    let why = "no layer of the graph takes it, so it has no module in PyTorch";
    unused.map(|tensor| Loss::new(LossKind::WeightDropped, &tensor.name, why)).collect()
}

/// The convolutions that have their stride where torchvision's ResNet has it in the next one.
pub(super) fn other_strides(graph: &Graph) -> Vec<Loss> {
    let is_strided = |node: &&ckpt_api::Node| {
        node.op == Op::Conv
            && node.name.ends_with("_1_conv")
            && matches!(ints(node, "strides"), Ok(Some(strides)) if strides.iter().any(|stride| *stride != 1))
    };
    let why = "it has a stride of 2, which torchvision's ResNet has in the second convolution of the block: the tensors \
               fit, but the result differs";
    graph
        .nodes
        .iter()
        .filter(is_strided)
        .map(|node| Loss::new(LossKind::Convention, &node.name, why))
        .collect()
}
