//! LoRA: products of two small matrices that are added to the weights of a model.

use crate::adapter::Adapter;
use crate::matrix::{Matrix, Numbers, is_computable};
use crate::names::Change;
use ckpt_api::{
    Contents, Error, MatrixProduct, Operation, Placement, Result, RowMagnitudes, Scalar, Tensor, TensorId,
    count, first_few,
};
use ckpt_engine::source::{Configuration, Source};
use std::collections::{BTreeSet, HashMap, HashSet};

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
    base.merged(&sources, |contents, first_files| {
        let mut model = Model::new(contents, base.shown(), is_tied);
        for (adapter, first_file) in adapters.iter().zip(first_files) {
            let in_file = |error: Error| match error.context().file {
                None => error.file(adapter.source.shown()),
                Some(_) => error,
            };
            model.apply(adapter, *first_file).map_err(in_file)?;
        }
        Ok(())
    })
}

/// The model that adapters are merged into.
struct Model<'c> {
    contents: &'c mut Contents,
    shown: String,
    ids: HashMap<String, TensorId>,
    /// What the model's names begin with, up to the first dot.
    beginnings: BTreeSet<String>,
    /// Whether embeddings and output layer become one weight when a program opens the model.
    is_tied: bool,
    /// Tensors that an adapter has as a whole.
    whole: HashSet<TensorId>,
    /// Tensors that an adapter changes.
    changed: HashSet<TensorId>,
}

impl<'c> Model<'c> {
    fn new(contents: &'c mut Contents, shown: String, is_tied: bool) -> Self {
        let names = || contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string());
        let ids = names().enumerate().map(|(id, name)| (name, TensorId(id))).collect();
        let beginnings =
            names().filter_map(|name| name.split_once('.').map(|(first, _)| first.to_owned())).collect();
        Model { contents, shown, ids, beginnings, is_tied, whole: HashSet::new(), changed: HashSet::new() }
    }

    /// The tensor that an adapter gives this name: the classes of a library differ in what they put first, such as `model.`. `None`
    /// if there is none, or if several can be meant.
    fn find(&self, name: &str) -> Option<TensorId> {
        let mut behind = self.beginnings.iter().filter_map(|first| self.ids.get(&format!("{first}.{name}")));
        let only = || behind.next().filter(|_| behind.next().is_none());
        let without = || self.ids.get(name.split_once('.')?.1);
        self.ids.get(name).or_else(only).or_else(without).copied()
    }

    fn apply(&mut self, adapter: &Adapter, first_file: usize) -> Result<()> {
        let weight = |module: &str| format!("{module}.weight");
        let missing: Vec<&String> =
            adapter.tensors.changes.keys().filter(|module| self.find(&weight(module)).is_none()).collect();
        if !missing.is_empty() {
            let trained = adapter.config.base.as_deref();
            let trained = trained.map(|base| format!(", such as '{}'", base.escape_debug()));
            return Err(Error::mapping("the base lacks modules that the adapter changes")
                .found(format!("'{}' without {}", self.shown, first_few(missing, SHOWN)))
                .expected(format!("the model that it was trained on{}", trained.unwrap_or_default())));
        }
        self.check_ties(adapter)?;
        for (name, id) in &adapter.tensors.whole {
            self.take_whole(adapter, first_file, name, *id)?;
        }
        let mut ranks = BTreeSet::new();
        for (module, change) in &adapter.tensors.changes {
            let id = self.find(&weight(module)).ok_or_else(|| Error::defect("a module was there before"))?;
            ranks.extend(self.add_product(adapter, first_file, (module, change), id)?);
            self.changed.insert(id);
        }
        self.contents.add_notes([note(adapter, &ranks)]);
        Ok(())
    }

    /// Refuses a change of one of two weights that a program makes one when it opens the model: the other would change, too.
    fn check_ties(&self, adapter: &Adapter) -> Result<()> {
        let whole =
            adapter.tensors.whole.keys().filter_map(|name| name.rsplit_once('.')).map(|(module, _)| module);
        let mut modules = adapter.tensors.changes.keys().map(String::as_str).chain(whole);
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
        first_file: usize,
        (module, change): (&str, &Change),
        id: TensorId,
    ) -> Result<Option<u64>> {
        let (tensor, placement) = self.pair_mut(id)?;
        let factor = |id: Option<TensorId>| {
            let id = id.ok_or_else(|| Error::defect("a product lacks a factor"))?;
            let (tensor, placement) = adapter.source.contents().tensor_at(id)?;
            Ok((tensor, Matrix::of(tensor, placement)?))
        };
        let ((a, of_a), (b, of_b)) = (factor(change.a)?, factor(change.b)?);
        let Some(base) = Matrix::of(tensor, placement)? else { return Ok(None) };
        let (Some(of_a), Some(of_b)) = (of_a, of_b) else {
            return Err(Error::corrupt("a factor of an adapter has no elements").tensor(&a.name));
        };
        let rank = adapter.config.rank(module)?;
        if [of_a.rows, of_b.columns] != [rank, rank] {
            return Err(Error::corrupt("the factors of a product have another rank than the adapter states")
                .tensor(&a.name)
                .found(format!("{} and {}", a.shape, b.shape))
                .expected(format!("rank {rank}, by {}", adapter.config.shown)));
        }
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
        // In the order in which the base's numbers are stored.
        let [left, right] = match is_transposed != base.is_transposed {
            false => [of_b, of_a],
            true => [of_a.transposed(), of_b.transposed()],
        };
        let scale = (adapter.config.scale(module)? * f64::from(adapter.weight)) as f32;
        let scale = Scalar::new(scale).ok_or_else(|| {
            Error::usage("the scale of an adapter is too large").tensor(module).found(scale.to_string())
        })?;
        let product = MatrixProduct::new(
            format!("{}/{module}", adapter.shown),
            [left.rows, right.columns],
            rank,
            scale,
            left.factor(first_file),
            right.factor(first_file),
        );
        let has_rows = !is_transposed && !base.is_transposed && tensor.shape.rank() == 2;
        let mut numbers = base.numbers;
        numbers.computed.operations.push(Operation::AddProduct(Box::new(product)));
        if change.magnitudes.is_some() && !has_rows {
            return Err(Error::unsupported(
                "DoRA can be merged only into linear layers with outputs as rows",
            )
            .field("use_dora")
            .tensor(module));
        }
        if let Some(rows) = magnitudes(adapter, first_file, (module, change), lens)? {
            numbers.computed.operations.push(Operation::ScaleRows(Box::new(rows)));
        }
        *placement = numbers.placement(placement).map_err(|error| error.tensor(&tensor.name))?;
        Ok(Some(rank))
    }

    fn pair_mut(&mut self, id: TensorId) -> Result<(&Tensor, &mut Placement)> {
        let pair = self.contents.checkpoint.tensors.get(id.0).zip(self.contents.placements.get_mut(id.0));
        pair.ok_or_else(|| Error::defect("the base has no such tensor"))
    }
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
fn note(adapter: &Adapter, ranks: &BTreeSet<u64>) -> String {
    let changes = count(adapter.tensors.changes.len(), "weight");
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
