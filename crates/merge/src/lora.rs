//! LoRA: products of two small matrices that are added to the weights of a model.

use crate::adapter::{Adapter, check_rank};
use crate::column_scales::{self, ColumnScales, Unscaled};
use crate::matrix::{Matrix, Numbers, is_computable};
use crate::names::Change;
use ckpt_api::{
    BlockNumbers, Contents, Error, MatrixProduct, Operation, Placement, Result, RowMagnitudes, Scalar,
    Tensor, TensorId, count, first_few,
};
use ckpt_engine::source::{Configuration, Source};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The key of a configuration that makes embeddings and output layer one weight, and the last words of their names.
const TIE: &str = "tie_word_embeddings";
const TIED: [&str; 4] = ["lm_head", "embed_tokens", "wte", "embed_in"];
/// Names that an error lists.
const SHOWN: usize = 3;

/// The base with these adapters: each weight that they change is `W + weight · scale · B · A` for each of them, in their order.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for adapters that do not fit the base: modules that it lacks, and other shapes;
/// [`ckpt_api::Kind::Unsupported`] for changes that cannot be computed.
///
/// ```no_run
/// # fn main() -> ckpt_api::Result<()> {
/// # let registry = ckpt_engine::Registry::default();
/// use ckpt_engine::{Conversion, source::{OpenOptions, Source}};
/// use ckpt_merge::{Adapter, merge_adapters};
/// let base = Source::open(&registry, "llama", &OpenOptions::new())?;
/// let adapter = Adapter::open(&registry, "adapter", 1.0, &OpenOptions::new())?;
/// let merged = merge_adapters(&base, &[adapter])?;
/// Conversion::new().plan(&registry, &merged, "merged/")?.execute(&Default::default(), &|_bytes| ())?;
/// # Ok(())
/// # }
/// ```
pub fn merge_adapters(base: &Source, adapters: &[Adapter]) -> Result<Source> {
    let sources: Vec<Source> = adapters.iter().map(|adapter| adapter.source.clone()).collect();
    let configuration = Configuration::beside(base.input(), &["config.json".to_owned()], base.limits())?;
    let is_tied =
        configuration.is_some_and(|json| json.get(TIE).and_then(serde_json::Value::as_bool) == Some(true));
    let mut scales = ColumnScales::new();
    loop {
        let mut unscaled = Vec::new();
        let merged = base.merged(&sources, |contents, first_files| {
            let mut model = Model::new(contents, base.shown(), is_tied, &scales);
            for (number, (adapter, first_file)) in adapters.iter().zip(first_files).enumerate() {
                let in_file = |error: Error| match error.context().file {
                    None => error.file(adapter.source.shown()),
                    Some(_) => error,
                };
                model.apply(adapter, (number, *first_file)).map_err(in_file)?;
            }
            unscaled = std::mem::take(&mut model.unscaled);
            Ok(())
        })?;
        if unscaled.is_empty() {
            return Ok(merged);
        }
        // Of each tensor, one more adapter is merged each time.
        for matrix in unscaled {
            let scale = column_scales::of(&merged, &adapters[matrix.adapter].source, &matrix)?;
            scales.insert((matrix.adapter, matrix.module), scale);
        }
    }
}

/// The model that adapters are merged into.
struct Model<'c> {
    contents: &'c mut Contents,
    shown: String,
    ids: HashMap<String, TensorId>,
    /// The weights of modules whose names have underscores in the place of dots; `None` where several have one name.
    flat: HashMap<String, Option<TensorId>>,
    /// What the model's names begin with, up to the first dot.
    beginnings: BTreeSet<String>,
    /// Whether embeddings and output layer become one weight when a program opens the model.
    is_tied: bool,
    /// Tensors that an adapter has as a whole.
    whole: HashSet<TensorId>,
    /// Tensors that an adapter changes.
    changed: HashSet<TensorId>,
    /// The scales of matrices whose outputs are columns.
    scales: &'c ColumnScales,
    /// Those that are not known yet.
    unscaled: Vec<Unscaled>,
}

impl<'c> Model<'c> {
    fn new(contents: &'c mut Contents, shown: String, is_tied: bool, scales: &'c ColumnScales) -> Self {
        let names = || contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string());
        let ids = names().enumerate().map(|(id, name)| (name, TensorId(id))).collect();
        let beginnings =
            names().filter_map(|name| name.split_once('.').map(|(first, _)| first.to_owned())).collect();
        let mut flat: HashMap<String, Option<TensorId>> = HashMap::new();
        for (id, name) in names().enumerate() {
            let Some(module) = name.strip_suffix(".weight") else { continue };
            let entry = flat.entry(module.replace('.', "_"));
            entry.and_modify(|id| *id = None).or_insert(Some(TensorId(id)));
        }
        let (whole, changed) = (HashSet::new(), HashSet::new());
        let unscaled = Vec::new();
        Model { contents, shown, ids, flat, beginnings, is_tied, whole, changed, scales, unscaled }
    }

    /// The tensor that an adapter gives this name: the classes of a library differ in what they put first, such as `model.`. `None`
    /// if there is none, or if several can be meant.
    fn find(&self, name: &str) -> Option<TensorId> {
        let mut behind = self.beginnings.iter().filter_map(|first| self.ids.get(&format!("{first}.{name}")));
        let only = || behind.next().filter(|_| behind.next().is_none());
        let without = || self.ids.get(name.split_once('.')?.1);
        self.ids.get(name).or_else(only).or_else(without).copied()
    }

    /// The weight of a module that an adapter changes.
    fn find_module(&self, adapter: &Adapter, module: &str) -> Option<TensorId> {
        match adapter.tensors.is_flat {
            true => self.flat.get(module).copied().flatten(),
            false => self.find(&weight_of(module)),
        }
    }

    /// What an adapter changes of this model. A file may have parts for several models of a pipeline, of which one is the base.
    fn changes<'a>(&mut self, adapter: &'a Adapter) -> Result<Cow<'a, BTreeMap<String, Change>>> {
        let groups = &adapter.tensors.groups;
        let lacking = |changes: &'a BTreeMap<String, Change>| -> Vec<&'a String> {
            changes.keys().filter(|module| self.find_module(adapter, module).is_none()).collect()
        };
        let missing: Vec<(&String, Vec<&String>)> =
            groups.iter().map(|(model, changes)| (model, lacking(changes))).collect();
        let fitting: Vec<&String> =
            missing.iter().filter(|(_, missing)| missing.is_empty()).map(|(model, _)| *model).collect();
        let is_another = |(model, missing): &&(&String, Vec<&String>)| groups[*model].len() == missing.len();
        let partly =
            missing.iter().filter(|(_, missing)| !missing.is_empty()).find(|group| !is_another(group));
        let worst = partly.or(missing.first().filter(|_| fitting.is_empty()));
        match (worst, &fitting[..]) {
            (Some((_, missing)), _) if !missing.is_empty() => Err(self.lacks(adapter, missing)),
            (_, [_, _, ..]) => Err(Error::unsupported("several parts of the adapter fit the base")
                .found(fitting.iter().map(|model| model.as_str()).collect::<Vec<_>>().join(", "))),
            (_, [model]) => {
                let others = missing.iter().filter(|(other, _)| other != model);
                let notes: Vec<String> = others
                    .map(|(other, modules)| {
                        let others = count(modules.len(), "module");
                        format!(
                            "left out: {others} of '{other}' in '{}', which are another model's",
                            adapter.shown
                        )
                    })
                    .collect();
                self.contents.add_notes(notes);
                Ok(Cow::Borrowed(&groups[*model]))
            }
            // It has tensors as a whole only.
            _ => Ok(Cow::Owned(BTreeMap::new())),
        }
    }

    fn lacks(&self, adapter: &Adapter, missing: &[&String]) -> Error {
        let trained = adapter.config.base.as_deref();
        let trained = trained.map(|base| format!(", such as '{}'", base.escape_debug()));
        Error::mapping("the base lacks modules that the adapter changes")
            .found(format!("'{}' without {}", self.shown, first_few(missing, SHOWN)))
            .expected(format!("the model that it was trained on{}", trained.unwrap_or_default()))
    }

    fn apply(&mut self, adapter: &Adapter, (number, first_file): (usize, usize)) -> Result<()> {
        let changes = self.changes(adapter)?;
        self.check_ties(adapter, &changes)?;
        for (name, id) in &adapter.tensors.whole {
            self.take_whole(adapter, first_file, name, *id)?;
        }
        let mut ranks = BTreeSet::new();
        for (module, change) in &*changes {
            let id = self
                .find_module(adapter, module)
                .ok_or_else(|| Error::defect("a module was there before"))?;
            if !self.unscaled.iter().any(|matrix| matrix.id == id) {
                ranks.extend(self.add_product(adapter, (number, first_file), (module, change), id)?);
            }
            self.changed.insert(id);
            self.add_bias(adapter, first_file, (module, change), id)?;
        }
        self.contents.add_notes([note(adapter, changes.len(), &ranks)]);
        Ok(())
    }

    /// Refuses a change of one of two weights that a program makes one when it opens the model: the other would change, too.
    fn check_ties(&self, adapter: &Adapter, changes: &BTreeMap<String, Change>) -> Result<()> {
        let whole =
            adapter.tensors.whole.keys().filter_map(|name| name.rsplit_once('.')).map(|(module, _)| module);
        let mut modules = changes.keys().map(String::as_str).chain(whole);
        let end = |module: &str| module.rsplit('.').next().unwrap_or_default().to_owned();
        match modules.find(|module| self.is_tied && TIED.contains(&end(module).as_str())) {
            Some(module) => Err(Error::unsupported(
                "the adapter changes embeddings or an output layer, which the base shares",
            )
            .tensor(module)
            .found("tie_word_embeddings in the base's config.json")
            .help(
                "store both weights in the base, with \"tie_word_embeddings\": false, and merge into that",
            )),
            None => Ok(()),
        }
    }

    /// Takes a tensor of the adapter in the place of the model's own.
    fn take_whole(&mut self, adapter: &Adapter, first_file: usize, name: &str, id: TensorId) -> Result<()> {
        let (tensor, placement) = adapter.source.contents().tensor_at(id)?;
        let mut placement = placement.clone();
        placement.extents =
            placement.extents.iter().map(|extent| extent.clone().behind_files(first_file)).collect();
        let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
        let Some(own) = self.find(name) else {
            if !adapter.config.is_whole(module) {
                return Err(Error::unsupported(
                    "the adapter has a tensor that the base lacks, and that it does not list",
                )
                .tensor(&tensor.name)
                .expected("a name of the base, or of a module that modules_to_save lists"));
            }
            return self.add_new(name, tensor, placement);
        };
        let is_bias = name.ends_with(".bias");
        if is_bias && !adapter.config.has_biases && !adapter.config.is_whole(module) {
            return Err(Error::corrupt(
                "the adapter has a bias, and its configuration says that it has none",
            )
            .tensor(&tensor.name)
            .field("bias"));
        }
        if self.changed.contains(&own) || !self.whole.insert(own) {
            return Err(Error::usage("two adapters state one tensor")
                .tensor(name)
                .help("merge only one of them"));
        }
        let (target, old) = self.pair_mut(own)?;
        if tensor.shape != target.shape {
            return Err(Error::mapping("a tensor of the adapter has another shape than that of the base")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
                .expected(format!("{}, as '{}' has", target.shape, target.name)));
        }
        let own_name = old.name.clone();
        *old = if tensor.dtype == target.dtype {
            placement.with_tensor(own).with_name(own_name)
        } else {
            let placement = placement.with_tensor(own).with_name(own_name);
            match Numbers::of(tensor, &placement)? {
                Some(numbers) if is_computable(target) => numbers.placement(&placement)?,
                Some(_) => return Err(other_dtype(tensor, target)),
                None => old.clone(),
            }
        };
        Ok(())
    }

    /// Adds a tensor that the model lacks.
    fn add_new(&mut self, name: &str, tensor: &Tensor, placement: Placement) -> Result<()> {
        let id = TensorId(self.contents.checkpoint.tensors.len());
        if self.ids.insert(name.to_owned(), id).is_some() {
            return Err(Error::usage("two adapters state one tensor").tensor(name));
        }
        self.whole.insert(id);
        self.contents.checkpoint.tensors.push(tensor.clone().with_name(name));
        self.contents.placements.push(placement.with_tensor(id).with_name(name));
        self.contents.add_notes([format!("added: '{}', which the base lacks", name.escape_debug())]);
        Ok(())
    }

    /// Adds the product of a module to its weight. Returns the rank.
    fn add_product(
        &mut self,
        adapter: &Adapter,
        (number, first_file): (usize, usize),
        (module, change): (&str, &Change),
        id: TensorId,
    ) -> Result<Option<u64>> {
        let scales = self.scales;
        let (tensor, placement) = self.pair_mut(id)?;
        let Some(base) = Matrix::of(tensor, placement)? else { return Ok(None) };
        let Factors { left, right, rank, is_transposed } =
            Factors::of(adapter, (module, change), (tensor, &base))?;
        let (lens, base_is_transposed) = ([base.rows, base.columns], base.is_transposed);
        let product = MatrixProduct::new(
            format!("{}/{module}", adapter.shown),
            [left.rows, right.columns],
            rank,
            scale_of(adapter, (module, change), rank)?,
            left.factor(first_file),
            right.factor(first_file),
        );
        let mut numbers = base.numbers;
        numbers.computed.operations.push(Operation::AddProduct(Box::new(product)));
        let is_by_rows = !is_transposed && !base_is_transposed;
        let mut unscaled = None;
        if let Some(magnitudes) = change.magnitudes.filter(|_| !is_by_rows) {
            let (module, outputs) = (module.to_owned(), usize::from(is_transposed));
            let matrix = Unscaled { adapter: number, module, id, magnitudes, lens, outputs };
            match scales.get(&(number, matrix.module.clone())) {
                Some(scales) => numbers.computed.operations.push(matrix.scaling(scales, base_is_transposed)),
                None => unscaled = Some(matrix),
            }
        } else if let Some(rows) = magnitudes(adapter, first_file, (module, change), lens)? {
            numbers.computed.operations.push(Operation::ScaleRows(Box::new(rows)));
        }
        *placement = numbers.placement(placement).map_err(|error| error.tensor(&tensor.name))?;
        self.unscaled.extend(unscaled);
        Ok(Some(rank))
    }

    /// Adds what an adapter trained of a bias, which is multiplied as its product is.
    fn add_bias(
        &mut self,
        adapter: &Adapter,
        first_file: usize,
        (module, change): (&str, &Change),
        weight: TensorId,
    ) -> Result<()> {
        let Some(id) = change.bias else { return Ok(()) };
        let (added, placement) = adapter.source.contents().tensor_at(id)?;
        let name = self.contents.checkpoint.tensors.get(weight.0).map(|tensor| tensor.name.to_string());
        let name = name.and_then(|name| Some(format!("{}.bias", name.strip_suffix(".weight")?)));
        let own = name.as_ref().and_then(|name| self.ids.get(name)).copied().ok_or_else(|| {
            Error::mapping("the base lacks a bias that the adapter changes").tensor(module).field("lora_bias")
        })?;
        let numbers = Numbers::of(added, placement)?;
        let factors = change.a.map(|id| adapter.source.contents().tensor_at(id)).transpose()?;
        let rank = factors.and_then(|(tensor, _)| tensor.shape.first().copied()).unwrap_or(1);
        let rank = adapter.config.rank(module)?.unwrap_or(rank);
        let scale = scale_of(adapter, (module, change), rank)?;
        let (target, old) = self.pair_mut(own)?;
        if added.shape != target.shape {
            return Err(Error::mapping("a tensor of the adapter has another shape than that of the base")
                .tensor(&added.name)
                .found(added.shape.to_string())
                .expected(format!("{}, as '{}' has", target.shape, target.name)));
        }
        let (Some(mut sum), Some(numbers)) = (Numbers::of(target, old)?, numbers) else { return Ok(()) };
        let mut computed = numbers.computed.behind_files(first_file);
        computed.operations.push(Operation::Multiply(scale));
        let shape = added.shape.clone();
        let block = vec![1; shape.rank()];
        let blocks = BlockNumbers::new(format!("{}/{module}", adapter.shown), computed, shape, block);
        sum.computed.operations.push(Operation::AddBlocks(Box::new(blocks)));
        *old = sum.placement(old).map_err(|error| error.tensor(&added.name))?;
        Ok(())
    }

    fn pair_mut(&mut self, id: TensorId) -> Result<(&Tensor, &mut Placement)> {
        let pair = self.contents.checkpoint.tensors.get(id.0).zip(self.contents.placements.get_mut(id.0));
        pair.ok_or_else(|| Error::defect("the base has no such tensor"))
    }
}

/// The factors of a product, in the order in which the base's numbers are stored.
struct Factors {
    left: Matrix,
    right: Matrix,
    rank: u64,
    /// Whether the base has inputs as rows.
    is_transposed: bool,
}

impl Factors {
    /// The factors of a module, which must fit this matrix of the base.
    fn of(
        adapter: &Adapter,
        (module, change): (&str, &Change),
        (tensor, base): (&Tensor, &Matrix),
    ) -> Result<Self> {
        let factor = |id: Option<TensorId>| {
            let id = id.ok_or_else(|| Error::defect("a product lacks a factor"))?;
            let (tensor, placement) = adapter.source.contents().tensor_at(id)?;
            Ok((tensor, Matrix::of(tensor, placement)?))
        };
        let ((a, of_a), (b, of_b)) = (factor(change.a)?, factor(change.b)?);
        let (Some(of_a), Some(of_b)) = (of_a, of_b) else {
            return Err(Error::corrupt("a factor of an adapter has no elements").tensor(&a.name));
        };
        let rank = check_rank(&adapter.config, module, a, b, [Some(of_a.rows), Some(of_b.columns)])?;
        let lens = [base.rows, base.columns];
        let fits = [of_b.rows, of_a.columns] == lens;
        let fits_transposed = [of_a.columns, of_b.rows] == lens;
        let must_be = change.is_embedding || (adapter.config.fan_in_fan_out && fits_transposed);
        let is_transposed = if must_be { true } else { !fits };
        if !(if is_transposed { fits_transposed } else { fits }) {
            return Err(Error::mapping("the adapter does not fit the base: a weight has another shape")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
                .expected(format!("one for factors of {} and {}", a.shape, b.shape)));
        }
        let [left, right] = match is_transposed != base.is_transposed {
            false => [of_b, of_a],
            true => [of_a.transposed(), of_b.transposed()],
        };
        Ok(Factors { left, right, rank, is_transposed })
    }
}

fn weight_of(module: &str) -> String {
    format!("{module}.weight")
}

/// By what the product of a module is multiplied.
fn scale_of(adapter: &Adapter, (module, change): (&str, &Change), rank: u64) -> Result<Scalar> {
    let scale = (adapter.config.scale(module, rank, adapter.stated_alpha(change))?
        * f64::from(adapter.weight)) as f32;
    Scalar::new(scale).ok_or_else(|| {
        Error::usage("the scale of an adapter is too large").tensor(module).found(scale.to_string())
    })
}

/// The norms of the rows of a weight of this shape, if the adapter has them.
fn magnitudes(
    adapter: &Adapter,
    first_file: usize,
    (module, change): (&str, &Change),
    [rows, columns]: [u64; 2],
) -> Result<Option<RowMagnitudes>> {
    let Some(id) = change.magnitudes else {
        return match adapter.config.has_magnitudes {
            true => Err(Error::corrupt(
                "the adapter lacks the magnitudes of a module, which its configuration states",
            )
            .field("use_dora")
            .tensor(module)),
            false => Ok(None),
        };
    };
    let (tensor, placement) = adapter.source.contents().tensor_at(id)?;
    let numbers = Numbers::of(tensor, placement)?.filter(|_| tensor.shape.elements() == rows);
    let numbers = numbers.ok_or_else(|| {
        Error::mapping("the magnitudes of the adapter do not fit the base")
            .tensor(&tensor.name)
            .found(tensor.shape.to_string())
            .expected(count(rows, "number"))
    })?;
    let name = format!("{}/{module}", adapter.shown);
    Ok(Some(RowMagnitudes::new(name, [rows, columns], numbers.computed.behind_files(first_file))))
}

fn other_dtype(tensor: &Tensor, target: &Tensor) -> Error {
    Error::unsupported("a tensor of the adapter cannot take the place of one of another dtype")
        .tensor(&tensor.name)
        .found(tensor.dtype.name())
        .expected(target.dtype.name())
}

/// Says what an adapter does.
fn note(adapter: &Adapter, changes: usize, ranks: &BTreeSet<u64>) -> String {
    let changes = count(changes, "weight");
    let rank = match (ranks.first(), ranks.last()) {
        (Some(least), Some(most)) if least == most => format!(" of rank {least}"),
        (Some(least), Some(most)) => format!(" of ranks {least} to {most}"),
        _ => String::new(),
    };
    let whole = match adapter.tensors.whole.len() {
        0 => String::new(),
        whole => format!(", and {} taken from it as a whole", count(whole, "tensor")),
    };
    let weight = if adapter.weight == 1.0 { String::new() } else { format!(" times {}", adapter.weight) };
    format!("merged: '{}'{weight}, which changes {changes}{rank}{whole}", adapter.shown)
}
