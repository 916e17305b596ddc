//! From PaddlePaddle to PyTorch: the mapping that names and shapes of layers make, without a graph.
//!
//! Most layers of both have the same tensors. A linear layer is `[in, out]` in Paddle, and an embedding, whose weight has
//! two axes, too, is what it is in PyTorch: a bias, or the layer's name, tells which of them it is.

use ckpt_api::{Error, Graph, Limits, Result, Tensor, Text, nearest};
use ckpt_engine::mapping::{Mapping, MappingGenerator, Relation, Rule, Translation, listed};
use ckpt_engine::pattern::Pattern;
use ckpt_engine::recipe::AxisStep;
use ckpt_engine::words::quote;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The name of the mapping.
const PADDLE_TO_TORCH: &str = "paddle-to-torch";
/// Names of the records of an inference model, by what they are in PyTorch; a number that Paddle counts layers by follows.
const RECORDS: [(&str, &str); 4] =
    [("w_0", "weight"), ("b_0", "bias"), ("w_1", "running_mean"), ("w_2", "running_var")];

/// What a layer with a weight of two axes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Embedding,
    /// A layer whose tensors keep their axes.
    Keep,
}

const KINDS: [(&str, Kind); 3] =
    [("linear", Kind::Linear), ("embedding", Kind::Embedding), ("keep", Kind::Keep)];

/// The mapping `paddle-to-torch`.
#[derive(Clone, Debug, Default)]
pub struct PaddleToTorch {
    /// What a user states of the layers whose names a pattern matches; the last that matches counts.
    stated: Vec<(Pattern, Kind)>,
}

impl MappingGenerator for PaddleToTorch {
    fn name(&self) -> &'static str {
        PADDLE_TO_TORCH
    }

    fn title(&self) -> &'static str {
        "PaddlePaddle to PyTorch, made for the layers of each checkpoint"
    }

    fn source_framework(&self) -> &'static str {
        "PaddlePaddle"
    }

    fn target_framework(&self) -> &'static str {
        "PyTorch"
    }

    fn with_names(&self, names: &str) -> Result<Arc<dyn MappingGenerator>> {
        self.with_setting("names", names)
    }

    fn with_setting(&self, pattern: &str, kind: &str) -> Result<Arc<dyn MappingGenerator>> {
        let names = || KINDS.iter().map(|(name, _)| *name);
        let known = KINDS.iter().find(|(name, _)| *name == kind).ok_or_else(|| {
            Error::usage("no such kind of layer")
                .field(PADDLE_TO_TORCH)
                .found(quote(kind))
                .expected(names().collect::<Vec<_>>().join(", "))
                .help(nearest(kind, names()))
        })?;
        let mut own = self.clone();
        own.stated.push((Pattern::selecting(pattern, &Limits::default())?, known.1));
        Ok(Arc::new(own))
    }

    fn needs_graph(&self) -> bool {
        false
    }

    fn translate(&self, _: &Graph, tensors: &[Tensor]) -> Result<Translation> {
        self.check(tensors)?;
        let mut output = Output::new();
        let layers = Layers::of(tensors);
        for tensor in tensors {
            self.tensor(tensor, &layers, &mut output);
        }
        Ok(output.into_translation())
    }
}

impl PaddleToTorch {
    /// Checks that every pattern matches a layer.
    fn check(&self, tensors: &[Tensor]) -> Result<()> {
        let is_used = |pattern: &Pattern| {
            tensors.iter().any(|tensor| pattern.matches(split(&tensor.name).0, '.').is_some())
        };
        match self.stated.iter().find(|(pattern, _)| !is_used(pattern)) {
            None => Ok(()),
            Some((pattern, _)) => Err(Error::usage("no layer has the name that the mapping was given")
                .field(PADDLE_TO_TORCH)
                .found(quote(&pattern.as_source()))
                .expected("a layer's name, or a pattern of such names")
                .help("'ckpt inspect' lists the tensors: their names begin with those of the layers")),
        }
    }

    fn stated(&self, layer: &str) -> Option<Kind> {
        let mut stated = self.stated.iter().rev();
        stated.find(|(pattern, _)| pattern.matches(layer, '.').is_some()).map(|(_, kind)| *kind)
    }

    fn tensor(&self, tensor: &Tensor, layers: &Layers<'_>, output: &mut Output) {
        let name = tensor.name.as_str();
        let (layer, leaf) = split(name);
        let target = target(leaf, tensor.shape.rank());
        let renamed = match layer {
            "" => target.to_owned(),
            layer => format!("{layer}.{target}"),
        };
        if target == "running_mean" {
            output.counters.push(renamed.replace("running_mean", "num_batches_tracked"));
        }
        let is_matrix = target == "weight" && tensor.shape.rank() == 2;
        match self.stated(layer).unwrap_or_else(|| layers.kind(layer, tensor, output)) {
            Kind::Linear if is_matrix => output.transposed(name, &renamed),
            _ => output.mapping.look_up(name, &renamed),
        }
    }
}

/// The layer that a tensor is of, and what the tensor is in it.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// What a tensor is called in PyTorch.
fn target(leaf: &str, rank: usize) -> &str {
    match leaf {
        "_mean" => "running_mean",
        "_variance" => "running_var",
        // Of PReLU, and of instance normalization.
        "_weight" => "weight",
        "scale" if rank == 1 => "weight",
        other => RECORDS.iter().find(|(own, _)| *own == other).map_or(other, |(_, target)| *target),
    }
}

/// The shapes of all tensors, by layer and by what they are in PyTorch.
struct Layers<'a>(HashMap<(&'a str, &'a str), &'a [u64]>);

impl<'a> Layers<'a> {
    fn of(tensors: &'a [Tensor]) -> Self {
        let shapes = tensors.iter().map(|tensor| {
            let (layer, leaf) = split(tensor.name.as_str());
            ((layer, target(leaf, tensor.shape.rank())), &tensor.shape[..])
        });
        Layers(shapes.collect())
    }

    /// What a layer is, as far as shapes and its name tell.
    fn kind(&self, layer: &str, tensor: &Tensor, output: &mut Output) -> Kind {
        let (own, leaf) =
            (layer.rsplit('.').next().unwrap_or_default().to_lowercase(), split(&tensor.name).1);
        let &[_, outputs] = &tensor.shape[..] else { return Kind::Keep };
        if target(leaf, 2) != "weight" {
            return Kind::Keep;
        }
        match self.0.get(&(layer, "bias")) {
            Some(&[len]) if *len == outputs => Kind::Linear,
            Some(_) => {
                output.note("kept", &tensor.name);
                Kind::Keep
            }
            None if own.contains("emb") => Kind::Embedding,
            None => {
                output.note("assumed", &tensor.name);
                Kind::Linear
            }
        }
    }
}

/// The mapping that is made, and what there is to say about it.
struct Output {
    mapping: Mapping,
    /// Counters that batch normalizations have in PyTorch.
    counters: Vec<String>,
    /// Notes, each with the tensors it is about.
    notes: BTreeMap<&'static str, Vec<String>>,
}

impl Output {
    fn new() -> Self {
        let title = "PaddlePaddle to PyTorch, made for one checkpoint".to_owned();
        let mapping = Mapping::of_generator(PADDLE_TO_TORCH, title, "pt");
        Output { mapping, counters: Vec::new(), notes: BTreeMap::new() }
    }

    fn transposed(&mut self, from: &str, to: &str) {
        let patterns = |name| vec![Pattern::literal(name)];
        self.mapping.rules.push(Rule::new(
            patterns(from),
            patterns(to),
            Relation::One,
            vec![AxisStep::Transpose],
        ));
    }

    fn note(&mut self, what: &'static str, name: &str) {
        self.notes.entry(what).or_default().push(name.to_owned());
    }

    fn into_translation(self) -> Translation {
        let code = Error::unsupported("a checkpoint of PaddlePaddle does not state what its model computes")
            .help("leave out 'code', and write the modules in PyTorch");
        let mut translation = Translation::new(self.mapping, Err(code));
        translation.counters = self.counters;
        let text = |(what, names): (&'static str, Vec<String>)| -> Text {
            let names = listed(&names);
            match what {
                "assumed" => format!(
                    "matrices without a bias are taken for those of linear layers, and transposed; state others, as in \
                     {PADDLE_TO_TORCH},LAYER=embedding: {names}"
                ),
                _ => format!(
                    "matrices keep their axes, because their bias fits no linear layer; state which are linear, as in \
                     {PADDLE_TO_TORCH},LAYER=linear: {names}"
                ),
            }
            .into()
        };
        translation.notes = self.notes.into_iter().map(text).collect();
        translation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, Shape};

    fn translation(mapping: &dyn MappingGenerator, tensors: &[(&str, &[u64])]) -> Translation {
        let tensors: Vec<Tensor> = tensors
            .iter()
            .map(|(name, shape)| Tensor::new(*name, DType::F32, Shape::new(*shape).unwrap()))
            .collect();
        mapping.translate(&Graph::default(), &tensors).unwrap()
    }

    /// The names of tensors that are transposed.
    fn transposed(translation: &Translation) -> Vec<String> {
        translation.mapping.rules.iter().map(|rule| rule.from[0].as_source()).collect()
    }

    #[test]
    fn a_bias_or_a_name_tells_linear_layers_from_embeddings() {
        let tensors: &[(&str, &[u64])] = &[
            ("fc.weight", &[4, 3]),
            ("fc.bias", &[3]),
            ("word_embeddings.weight", &[7, 4]),
            ("head.weight", &[4, 7]),
            ("conv.weight", &[4, 3, 3, 3]),
            ("linear_0.w_0", &[4, 3]),
            ("linear_0.b_0", &[3]),
        ];
        let made = translation(&PaddleToTorch::default(), tensors);
        assert_eq!(transposed(&made), ["fc.weight", "head.weight", "linear_0.w_0"]);
        assert_eq!(made.notes.len(), 1, "the head is assumed to be linear");
        let stated = PaddleToTorch::default().with_setting("head", "keep").unwrap();
        assert_eq!(transposed(&translation(&*stated, tensors)), ["fc.weight", "linear_0.w_0"]);
    }

    #[test]
    fn normalizations_have_the_names_of_pytorch() {
        assert_eq!(target("_mean", 1), "running_mean");
        assert_eq!(target("_variance", 1), "running_var");
        assert_eq!(target("w_2", 1), "running_var");
        assert_eq!((target("scale", 1), target("scale", 2)), ("weight", "scale"));
        let made = translation(&PaddleToTorch::default(), &[("1._mean", &[4]), ("1.weight", &[4])]);
        assert_eq!(made.counters, ["1.num_batches_tracked"]);
        assert!(made.mapping.rules.is_empty());
    }

    #[test]
    fn other_kinds_and_layers_are_refused() {
        let mapping = PaddleToTorch::default();
        assert!(mapping.with_setting("fc", "dense").is_err());
        let stated = mapping.with_setting("other", "keep").unwrap();
        let tensor = Tensor::new("fc.weight", DType::F32, Shape::new([4u64, 3]).unwrap());
        assert!(stated.translate(&Graph::default(), &[tensor]).is_err());
    }
}
