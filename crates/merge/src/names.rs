//! The tensors of an adapter, by the modules that they change.

use crate::dialects::{self, Part};
use ckpt_api::{Contents, Error, Result, TensorId, first_few};
use std::collections::BTreeMap;

/// What peft puts before the names of the model's own modules.
const PREFIX: &str = "base_model.model.";
/// What names of a full copy of the model have in them: a module of the base, and the copy that is trained.
const BASE_LAYER: &str = ".base_layer";
const TRAINED_COPY: &str = ".modules_to_save";
const ORIGINAL_COPY: &str = ".original_module.";
/// What the name of a trained bias ends with.
const BIAS: &str = ".bias";
/// Names that an error lists.
const SHOWN: usize = 3;

/// What an adapter does to one weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The factor `A`, of as many rows as the rank.
    pub(crate) a: Option<TensorId>,
    /// The factor `B`.
    pub(crate) b: Option<TensorId>,
    /// The magnitudes of the rows.
    pub(crate) magnitudes: Option<TensorId>,
    /// What is added to the bias.
    pub(crate) bias: Option<TensorId>,
    /// The number that states the scale of the product.
    pub(crate) alpha: Option<TensorId>,
    /// Whether the module is a table of embeddings, of which both factors are transposed.
    pub(crate) is_embedding: bool,
}

/// The tensors of an adapter.
#[derive(Debug, Default)]
pub(crate) struct AdapterTensors {
    /// What it changes, by the module's name: of each of the models that it was trained for.
    pub(crate) groups: BTreeMap<String, BTreeMap<String, Change>>,
    /// Tensors that it has as a whole, by the name of the model's own.
    pub(crate) whole: BTreeMap<String, TensorId>,
    /// Whether modules have underscores in the place of dots.
    pub(crate) is_flat: bool,
    /// Whether peft wrote it, which states the scale elsewhere.
    pub(crate) is_peft: bool,
}

/// The ends of names; a name of the adapter may stand behind each but the first dot, as in `lora_A.default.weight`.
const PARTS: [(&str, Part); 5] = [
    (".lora_A", Part::A),
    (".lora_B", Part::B),
    (".lora_embedding_A", Part::EmbeddingA),
    (".lora_embedding_B", Part::EmbeddingB),
    (".lora_magnitude_vector", Part::Magnitudes),
];

impl AdapterTensors {
    /// Sorts the tensors of a file.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a file that is no adapter; [`ckpt_api::Kind::Corrupt`] for a factor without the other;
    /// [`ckpt_api::Kind::Unsupported`] for several adapters in one file.
    pub(crate) fn new(contents: &Contents) -> Result<Self> {
        let names = || contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str());
        if dialects::is_kohya(names()) {
            let found = AdapterTensors { is_flat: true, ..AdapterTensors::default() };
            return found.of_dialect(names(), dialects::kohya);
        }
        if !names().any(|name| name.starts_with(PREFIX)) {
            if dialects::is_diffusers(names()) {
                return AdapterTensors::default().of_dialect(names(), dialects::diffusers);
            }
            return Err(Error::usage("the file is no adapter")
                .found(first_few(names().collect::<Vec<_>>(), SHOWN))
                .expected(format!(
                    "tensors whose names begin with '{PREFIX}', as peft writes them, or names of kohya's or diffusers'"
                )));
        }
        let mut found = AdapterTensors { is_peft: true, ..AdapterTensors::default() };
        for (id, name) in names().enumerate() {
            let own = name.strip_prefix(PREFIX).ok_or_else(|| unknown(name))?;
            found.add(own, TensorId(id)).map_err(|error| error.tensor(name))?;
        }
        found.checked()
    }

    /// Sorts tensors whose names another program gave.
    fn of_dialect<'n>(
        mut self,
        names: impl Iterator<Item = &'n str>,
        parse: impl Fn(&'n str) -> Option<dialects::Named<'n>>,
    ) -> Result<Self> {
        for (id, name) in names.enumerate() {
            let named = parse(name).ok_or_else(|| unknown(name))?;
            let change =
                self.groups.entry(named.model.to_owned()).or_default().entry(named.module).or_default();
            change.put(named.part, TensorId(id)).map_err(|error| error.tensor(name))?;
        }
        self.checked()
    }

    fn checked(self) -> Result<Self> {
        for (module, change) in self.groups.values().flatten() {
            if change.a.is_none() || change.b.is_none() {
                let missing = if change.a.is_none() { "A" } else { "B" };
                return Err(Error::corrupt("the adapter lacks a factor of a product")
                    .tensor(module)
                    .found(format!("no factor {missing}"))
                    .expected("both factors, A (down) and B (up)"));
            }
        }
        Ok(self)
    }

    fn add(&mut self, name: &str, id: TensorId) -> Result<()> {
        if name.contains(ORIGINAL_COPY) {
            // The base has it.
            return Ok(());
        }
        for (end, part) in &PARTS {
            let Some((module, rest)) = name.split_once(end) else { continue };
            let part = match (part, rest) {
                (Part::B, rest) if rest == BIAS || rest.strip_suffix(BIAS).is_some_and(is_dotted_name) => {
                    Part::Bias
                }
                (part, "" | ".weight") => *part,
                (part, rest) if rest.strip_prefix('.').is_some_and(is_adapter_name) => *part,
                _ => continue,
            };
            let changes = self.groups.entry(String::new()).or_default();
            return changes.entry(without_base_layer(module)).or_default().put(part, id);
        }
        if name.contains(".lora_") {
            return Err(unknown(name));
        }
        match self.whole.insert(whole_name(name), id) {
            None => Ok(()),
            Some(_) => Err(several()),
        }
    }
}

impl Change {
    fn put(&mut self, part: Part, id: TensorId) -> Result<()> {
        let slot = match part {
            Part::A | Part::EmbeddingA => &mut self.a,
            Part::B | Part::EmbeddingB => &mut self.b,
            Part::Magnitudes => &mut self.magnitudes,
            Part::Bias => &mut self.bias,
            Part::Alpha => &mut self.alpha,
        };
        self.is_embedding |= matches!(part, Part::EmbeddingA | Part::EmbeddingB);
        match slot.replace(id) {
            None => Ok(()),
            Some(_) => Err(several()),
        }
    }
}

fn is_dotted_name(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(is_adapter_name)
}

/// Whether this is the name of an adapter, and perhaps `.weight` behind it.
fn is_adapter_name(rest: &str) -> bool {
    let name = rest.strip_suffix(".weight").unwrap_or(rest);
    !name.is_empty() && !name.contains('.') && name != "bias"
}

fn without_base_layer(name: &str) -> String {
    name.replace(BASE_LAYER, "")
}

/// The model's own name of a tensor that an adapter has as a whole.
fn whole_name(name: &str) -> String {
    let name = without_base_layer(name);
    match name.split_once(TRAINED_COPY) {
        // `score.modules_to_save.default.weight` and `score.modules_to_save.weight`
        Some((module, rest)) => match rest.strip_prefix('.').map(|rest| rest.rsplit_once('.')) {
            Some(Some((_, end))) => format!("{module}.{end}"),
            _ => format!("{module}{rest}"),
        },
        None => name,
    }
}

fn several() -> Error {
    Error::unsupported("the file has several adapters")
        .help("save each adapter to a file of its own, and name these")
}

fn unknown(name: &str) -> Error {
    Error::unsupported("the adapter has a tensor that cannot be merged").tensor(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Checkpoint, DType, Kind, Shape, Tensor};

    fn sorted(names: &[&str]) -> Result<AdapterTensors> {
        let tensor = |name: &&str| Tensor::new(*name, DType::F32, Shape::scalar());
        let tensors = names.iter().map(tensor).collect();
        AdapterTensors::new(
            &Contents::default().with_checkpoint(Checkpoint { tensors, ..Checkpoint::default() }),
        )
    }

    #[test]
    fn factors_belong_to_modules_whether_or_not_the_adapter_is_named() {
        for [a, b] in [["lora_A.weight", "lora_B.weight"], ["lora_A.default.weight", "lora_B.default.weight"]]
        {
            let names = [a, b].map(|end| format!("base_model.model.model.layers.0.q_proj.{end}"));
            let found = sorted(&names.each_ref().map(String::as_str)).unwrap();
            let expected = Change { a: Some(TensorId(0)), b: Some(TensorId(1)), ..Change::default() };
            assert_eq!(found.groups[""], [("model.layers.0.q_proj".to_owned(), expected)].into());
        }
    }

    #[test]
    fn embeddings_and_magnitudes_are_recognized() {
        let names = ["lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector.default"];
        let names = names.map(|end| format!("base_model.model.embed.{end}"));
        let found = sorted(&names.each_ref().map(String::as_str)).unwrap();
        let change = &found.groups[""]["embed"];
        assert!(change.is_embedding && change.magnitudes == Some(TensorId(2)));
    }

    #[test]
    fn whole_tensors_have_the_models_own_names() {
        for name in [
            "base_model.model.score.weight",
            "base_model.model.score.modules_to_save.weight",
            "base_model.model.score.modules_to_save.default.weight",
            "base_model.model.score.base_layer.weight",
        ] {
            let found = sorted(&[name, "base_model.model.score.original_module.weight"]).unwrap();
            assert_eq!(found.whole, [("score.weight".to_owned(), TensorId(0))].into(), "{name}");
        }
    }

    #[test]
    fn what_is_no_adapter_or_several_or_half_of_one_is_refused() {
        let kind = |names: &[&str]| sorted(names).unwrap_err().kind();
        assert_eq!(kind(&["model.layers.0.q_proj.weight"]), Kind::Usage);
        assert_eq!(kind(&["base_model.model.q.lora_A.weight"]), Kind::Corrupt);
        let two = ["base_model.model.q.lora_A.x.weight", "base_model.model.q.lora_A.y.weight"];
        assert_eq!(kind(&two), Kind::Unsupported);
        assert_eq!(kind(&["base_model.model.q.lora_B.bias"]), Kind::Corrupt, "a bias alone");
        assert_eq!(kind(&["lora_unet_q.lora_down.weight", "lora_unet_q.dora_scale"]), Kind::Unsupported);
        assert_eq!(kind(&["base_model.model.q.lora_variant.weight"]), Kind::Unsupported);
    }
}
