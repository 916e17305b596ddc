//! Which tensors a merged model has, and which tensors of the models each is made of.

use super::slices::{Input, Merge, Slice};
use ckpt_api::{Error, Result, Shape, TensorId, first_few};
use ckpt_engine::source::{Configuration, Source};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Names that an error lists.
const SHOWN: usize = 3;
/// What the names of tables of embeddings have in them: these belong before the first layer.
const EMBEDDINGS: [&str; 3] = ["emb", "wte", "wpe"];
/// What configurations call the number of layers.
const LAYERS: [&str; 4] = ["num_hidden_layers", "n_layer", "num_layers", "n_layers"];
/// What configurations call the list of the kinds of layers.
const KINDS: &str = "layer_types";

/// The tensors of a merged model.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) tensors: Vec<Output>,
    /// Keys of the configuration that have other values than that of the first model.
    pub(super) reconfigured: Vec<(String, Value)>,
}

/// A tensor of the merged model.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) name: String,
    /// Which slice it belongs to.
    pub(super) slice: usize,
    /// Its tensor in each input of the slice.
    pub(super) parts: Vec<Part>,
    /// That in the base.
    pub(super) base: Option<Part>,
    /// How far its layer is from the first layer of the slice to the last, from 0 to 1.
    pub(super) t: f64,
}

/// A tensor of a model.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) source: usize,
    pub(super) id: TensorId,
    pub(super) name: String,
}

impl Output {
    /// The tensor that gives dtype and shape: that of the base, or of the first input.
    pub(super) fn like(&self) -> &Part {
        // Every slice has an input.
        self.base.as_ref().unwrap_or(&self.parts[0])
    }
}

/// The tensors that a merge makes.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if models have other tensors than the slices need; [`ckpt_api::Kind::Usage`] for slices that have no
/// layers.
pub(super) fn of(merge: &Merge) -> Result<Outputs> {
    let models: Vec<Named<'_>> = merge.sources.iter().map(Named::new).collect();
    for slice in &merge.slices {
        if slice.inputs.is_empty() {
            return Err(Error::usage("a slice has no sources"));
        }
        if slice.inputs.iter().any(|input| input.source >= models.len()) {
            return Err(Error::defect("a model is missing"));
        }
    }
    let is_whole = |slice: &Slice| slice.inputs.iter().all(|input| input.layers.is_none());
    match &merge.slices[..] {
        [] => Err(Error::usage("there is no model to merge")),
        [slice] if is_whole(slice) => whole(&models, slice),
        slices => Sliced { models: &models, slices }.outputs(&merge.sources),
    }
}

/// A model, and its tensors by name.
struct Named<'s> {
    source: &'s Source,
    ids: HashMap<&'s str, TensorId>,
    /// The names with the number of a layer, by that.
    layers: HashMap<u64, Vec<Layered<'s>>>,
}

impl<'s> Named<'s> {
    fn new(source: &'s Source) -> Self {
        let names = source.checkpoint().tensors.iter().enumerate();
        let ids = names.map(|(id, tensor)| (tensor.name.as_str(), TensorId(id))).collect();
        let mut layers: HashMap<u64, Vec<Layered<'_>>> = HashMap::new();
        for layered in source.checkpoint().tensors.iter().filter_map(|tensor| Layered::of(&tensor.name)) {
            layers.entry(layered.layer).or_default().push(layered);
        }
        Named { source, ids, layers }
    }

    fn names(&self) -> impl Iterator<Item = &'s str> {
        self.source.checkpoint().tensors.iter().map(|tensor| tensor.name.as_str())
    }

    fn shape(&self, id: TensorId) -> Option<&'s Shape> {
        self.source.checkpoint().tensors.get(id.0).map(|tensor| &tensor.shape)
    }
}

/// The tensor of this name in a model, which must have the shape of another one.
fn part(models: &[Named<'_>], source: usize, name: &str, like: Option<&Part>) -> Result<Part> {
    let model = models.get(source).ok_or_else(|| Error::defect("a model is missing"))?;
    let id = *model.ids.get(name).ok_or_else(|| {
        Error::mapping("a model lacks a tensor that the merged model has")
            .file(model.source.shown())
            .tensor(name)
    })?;
    if let Some(like) = like {
        let other = &models[like.source];
        let (own, wanted) = (model.shape(id), other.shape(like.id));
        if own != wanted {
            let shown = |shape: Option<&Shape>| shape.map(ToString::to_string).unwrap_or_default();
            return Err(Error::mapping("the models have tensors of other shapes")
                .file(model.source.shown())
                .tensor(name)
                .found(shown(own))
                .expected(format!("{}, as in '{}'", shown(wanted), other.source.shown())));
        }
    }
    Ok(Part { source, id, name: name.to_owned() })
}

/// All tensors of models that have the same ones.
fn whole(models: &[Named<'_>], slice: &Slice) -> Result<Outputs> {
    let used = slice.base.into_iter().chain(slice.inputs.iter().map(|input| input.source));
    let used: Vec<usize> = used.collect();
    let first = &models[used[0]];
    for other in used.iter().map(|number| &models[*number]) {
        check_names(first, other)?;
        check_names(other, first)?;
    }
    let names = first.names().map(|name| (name, Layered::of(name)));
    let names: Vec<(&str, Option<Layered>)> = names.collect();
    let mut last: HashMap<&str, u64> = HashMap::new();
    for layered in names.iter().filter_map(|(_, layered)| layered.as_ref()) {
        let own = last.entry(layered.before).or_default();
        *own = layered.layer.max(*own);
    }
    let tensors = names.iter().map(|(name, layered)| {
        let t = layered.as_ref().map_or(0.0, |layered| {
            // The number of a layer is whatever a name says.
            position(layered.layer, last.get(layered.before).copied().unwrap_or_default().saturating_add(1))
        });
        output(models, (slice, 0), (*name).to_owned(), |_| (*name).to_owned(), t)
    });
    Ok(Outputs { tensors: tensors.collect::<Result<_>>()?, reconfigured: Vec::new() })
}

fn check_names(has: &Named<'_>, lacks: &Named<'_>) -> Result<()> {
    let missing: Vec<&str> = has.names().filter(|name| !lacks.ids.contains_key(name)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::mapping("the models have other tensors")
            .file(lacks.source.shown())
            .found(format!("no {}", first_few(&missing, SHOWN)))
            .expected(format!("the tensors of '{}'", has.source.shown()))),
    }
}

/// How far a layer is from the first of so many to the last.
fn position(layer: u64, layers: u64) -> f64 {
    match layers {
        0 | 1 => 1.0,
        layers => layer as f64 / (layers - 1) as f64,
    }
}

fn output(
    models: &[Named<'_>],
    (slice, number): (&Slice, usize),
    name: String,
    in_input: impl Fn(&Input) -> String,
    t: f64,
) -> Result<Output> {
    let base = slice.base.map(|source| {
        let input = slice.inputs.iter().find(|input| input.source == source);
        part(models, source, &input.map_or_else(|| name.clone(), &in_input), None)
    });
    let base = base.transpose()?;
    let mut parts: Vec<Part> = Vec::with_capacity(slice.inputs.len());
    for input in &slice.inputs {
        let like = base.as_ref().or(parts.first());
        parts.push(part(models, input.source, &in_input(input), like)?);
    }
    Ok(Output { name, slice: number, parts, base, t })
}

/// A name with the number of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layered<'n> {
    before: &'n str,
    layer: u64,
    behind: &'n str,
}

impl<'n> Layered<'n> {
    /// The first part of a name that is a number, and is not its first or its last part.
    fn of(name: &'n str) -> Option<Self> {
        let mut start = name.find('.')? + 1;
        while let Some(len) = name[start..].find('.') {
            let part = &name[start..start + len];
            if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
                let layer = part.parse().ok()?;
                return Some(Layered { before: &name[..start], layer, behind: &name[start + len..] });
            }
            start += len + 1;
        }
        None
    }

    fn with(&self, layer: u64) -> String {
        format!("{}{layer}{}", self.before, self.behind)
    }
}

/// Layers of models, one slice after the other.
struct Sliced<'m, 's> {
    models: &'m [Named<'s>],
    slices: &'m [Slice],
}

impl Sliced<'_, '_> {
    fn outputs(&self, sources: &[Source]) -> Result<Outputs> {
        let first = self
            .models
            .get(self.slices[0].inputs[0].source)
            .ok_or_else(|| Error::defect("a model is missing"))?;
        let names: Vec<(&str, Option<Layered>)> =
            first.names().map(|name| (name, Layered::of(name))).collect();
        let lists: BTreeSet<&str> =
            names.iter().filter_map(|(_, layered)| Some(layered.as_ref()?.before)).collect();
        if lists.len() != 1 {
            let lists: Vec<&str> = lists.into_iter().collect();
            return Err(Error::unsupported("slices need a model with one list of layers")
                .file(first.source.shown())
                .found(first_few(&lists, SHOWN)));
        }
        let (last_slice, mut tensors) = (self.slices.len() - 1, Vec::new());
        let is_embedding = |name: &str| EMBEDDINGS.iter().any(|part| name.contains(part));
        let others = |is_before: bool| -> Result<Vec<Output>> {
            let chosen =
                names.iter().filter(|(name, layered)| layered.is_none() && is_embedding(name) == is_before);
            let number = if is_before { 0 } else { last_slice };
            chosen
                .map(|(name, _)| {
                    let own = |_: &Input| (*name).to_owned();
                    output(self.models, (&self.slices[number], number), (*name).to_owned(), own, 0.0)
                })
                .collect()
        };
        tensors.extend(others(true)?);
        let mut origins = Vec::new();
        for (number, slice) in self.slices.iter().enumerate() {
            let count = self.layers(slice)?;
            for index in 0..count {
                self.layer((slice, number), (index, count), origins.len() as u64, &mut tensors)?;
                origins.push((slice.inputs[0].source, start(&slice.inputs[0]) + index));
            }
        }
        tensors.extend(others(false)?);
        let reconfigured = reconfigured(sources, &origins)?;
        Ok(Outputs { tensors, reconfigured })
    }

    /// The number of layers of a slice, which all inputs share.
    fn layers(&self, slice: &Slice) -> Result<u64> {
        let lengths = slice.inputs.iter().map(|input| {
            let [start, end] =
                input.layers.ok_or_else(|| Error::usage("a slice does not state its layers"))?;
            end.checked_sub(start).filter(|count| *count > 0).ok_or_else(|| {
                Error::usage("a slice has no layers").field("layer_range").found(format!("[{start}, {end}]"))
            })
        });
        let lengths: Vec<u64> = lengths.collect::<Result<_>>()?;
        match lengths.iter().find(|len| **len != lengths[0]) {
            None => Ok(lengths[0]),
            Some(other) => Err(Error::usage("the sources of a slice have different numbers of layers")
                .field("layer_range")
                .found(format!("{} and {other}", lengths[0]))),
        }
    }

    /// The tensors of one layer, which becomes layer `number_of_layer`.
    fn layer(
        &self,
        (slice, number): (&Slice, usize),
        (index, count): (u64, u64),
        number_of_layer: u64,
        tensors: &mut Vec<Output>,
    ) -> Result<()> {
        let like = slice.base.and_then(|base| slice.inputs.iter().find(|input| input.source == base));
        let like = like.unwrap_or(&slice.inputs[0]);
        let layer = start(like) + index;
        let model = &self.models[like.source];
        let own = model.layers.get(&layer).into_iter().flatten();
        let before = tensors.len();
        for layered in own {
            let in_input = |input: &Input| layered.with(start(input) + index);
            let name = layered.with(number_of_layer);
            tensors.push(output(self.models, (slice, number), name, in_input, position(index, count))?);
        }
        match tensors.len() > before {
            true => Ok(()),
            false => Err(Error::mapping("a model does not have a layer that a slice names")
                .file(model.source.shown())
                .field("layer_range")
                .found(format!("layer {layer}"))),
        }
    }
}

fn start(input: &Input) -> u64 {
    input.layers.map_or(0, |[start, _]| start)
}

/// What the configuration says of layers, for those of the merged model: which model and layer each is.
fn reconfigured(sources: &[Source], origins: &[(usize, u64)]) -> Result<Vec<(String, Value)>> {
    let mut changes = Vec::new();
    let mut kinds: BTreeMap<usize, Option<Vec<Value>>> = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        let names = ["config.json".to_owned()];
        let Some(config) = Configuration::beside(source.input(), &names, source.limits())? else { continue };
        let text = config.get("text_config");
        let get = |key: &str| config.get(key).or_else(|| text?.get(key));
        if number == 0 {
            let keys = LAYERS.iter().filter(|key| get(key).is_some());
            changes.extend(keys.map(|key| ((*key).to_owned(), json!(origins.len()))));
        }
        kinds.insert(number, get(KINDS).and_then(Value::as_array).cloned());
    }
    if kinds.get(&0).is_some_and(Option::is_some) {
        let kind = |(source, layer): &(usize, u64)| {
            let kinds = kinds.get(source)?.as_ref()?;
            kinds.get(usize::try_from(*layer).ok()?).cloned()
        };
        let kinds = origins.iter().map(kind).collect::<Option<Vec<Value>>>();
        let kinds = kinds.ok_or_else(|| {
            Error::mapping("the configuration of a model does not state the kinds of all layers").field(KINDS)
        })?;
        changes.push((KINDS.to_owned(), Value::from(kinds)));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_in_a_name_is_that_of_its_layer() {
        let layer = |name| Layered::of(name).map(|layered| (layered.before, layered.layer, layered.behind));
        assert_eq!(
            layer("model.layers.12.mlp.experts.3.w1"),
            Some(("model.layers.", 12, ".mlp.experts.3.w1"))
        );
        assert_eq!(layer("h.0.weight"), Some(("h.", 0, ".weight")));
        assert_eq!([layer("model.norm.weight"), layer("0.weight"), layer("a.1")], [None; 3]);
        assert_eq!(Layered::of("h.10.b").unwrap().with(3), "h.3.b");
    }

    #[test]
    fn the_only_layer_is_the_last() {
        assert_eq!([position(0, 1), position(0, 3), position(1, 3), position(2, 3)], [1.0, 0.0, 0.5, 1.0]);
    }
}
