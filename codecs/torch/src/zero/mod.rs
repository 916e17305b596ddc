//! Reads a checkpoint of DeepSpeed's ZeRO: a directory in which every rank stores a part of the parameters, flattened.
//!
//! ```text
//! latest                                             the name of the folder of the last step
//! TAG/mp_rank_00_model_states.pt                     names, shapes, buffers, frozen parameters (stages 1 and 2)
//! TAG/zero_pp_rank_R_mp_rank_00_model_states.pt      the same for each rank (stage 3)
//! TAG/zero_pp_rank_R_mp_rank_00_optim_states.pt      the part of rank R, in 32 bits
//! ```
//!
//! In stages 1 and 2, the parameters of a group are one behind the other, and the ranks cut that row into pieces. In
//! stage 3, the ranks cut each parameter.

mod files;
mod flat;
mod slots;
mod states;

use crate::roles::slot_name;
use ckpt_api::Viewed;
use ckpt_api::{
    AxisOrder, Contents, Encoding, Error, Extent, FileId, Input, Limits, Name, Placement, Result, Role,
    Shape, Slot, Tensor, TensorId,
};
use files::Files;
pub(crate) use files::{is_zero, last_step};
use flat::Joined;
use slots::Slots;
use states::{OPTIMIZER, Shapes, States, lacks, push};
use std::collections::HashMap;

/// Keys of a rank's file.
const STAGE: [&str; 2] = [OPTIMIZER, "zero_stage"];
const COUNT: [&str; 2] = [OPTIMIZER, "partition_count"];
const PIECES: [&str; 2] = [OPTIMIZER, "single_partition_of_fp32_groups"];
const SHARES: [&str; 2] = [OPTIMIZER, "fp32_flat_groups"];
const PADDINGS: [&str; 2] = [OPTIMIZER, "param_alignment_paddings"];
const FRAGMENTS: &str = "frozen_param_fragments";
/// Name of the number of steps, if it is a tensor.
const STEP: &str = "optimizer.state.step";

/// Reads everything but the tensors' data.
pub(crate) fn read(input: &Input, limits: &Limits) -> Result<Contents> {
    let files = Files::find(input)?;
    let ranks = files.ranks.len();
    let mut merge = Merge {
        limits,
        owner: Owner::Weight,
        contents: Contents::default(),
        names: HashMap::new(),
        viewed: Viewed::default(),
    };
    let open = |merge: &mut Merge<'_>, name: &String| {
        let id = FileId(merge.contents.files.len());
        merge.contents.files.push(name.clone());
        let file = input.file(name)?;
        merge.viewed.open(file.len(), std::iter::empty());
        States::open(&file, id, limits)
    };
    let first = files.models.first().ok_or_else(|| lacks("param_shapes"))?;
    let model = open(&mut merge, first)?;
    let on_model = |error: Error| error.file(input.display(first));
    let groups = model.groups("param_shapes").map_err(on_model)?;
    // For each group (stages 1 and 2), or for each rank (stage 3).
    let mut joined: Vec<Joined> = Vec::new();
    let mut slots = Slots::default();
    let mut stage = 0;
    let mut paddings = Vec::new();
    for (rank, name) in files.ranks.iter().enumerate() {
        let part = open(&mut merge, name)?;
        let on_rank = |error: Error| error.file(input.display(name));
        check_count(&part, ranks).map_err(on_rank)?;
        stage = check_stage(&part, stage).map_err(on_rank)?;
        let flats = part.flats(if stage < 3 { &PIECES } else { &SHARES }).map_err(on_rank)?;
        let flats = flats.ok_or_else(|| on_rank(lacks("fp32 groups")))?;
        for (group, flat) in flats.into_iter().enumerate() {
            push(&mut joined, if stage < 3 { group } else { rank }, flat).map_err(on_rank)?;
        }
        slots.add(&part, stage, rank).map_err(on_rank)?;
        if let Some(id) = slots.steps.pop() {
            let (tensor, placement) = part.tensor(id, STEP).map_err(on_rank)?;
            merge.owner = Owner::Counter;
            merge.add(tensor, placement).map_err(on_rank)?;
            merge.owner = Owner::Weight;
        }
        if rank == 0 {
            paddings = part.paddings(&PADDINGS).map_err(on_rank)?;
        }
    }
    merge.buffers(&model).map_err(on_model)?;
    let mut models = vec![model];
    let frozen = models.first().map_or(Ok(Shapes::new()), States::frozen).map_err(on_model)?;
    if stage == 3 && !frozen.is_empty() {
        for name in files.models.iter().skip(1) {
            models.push(open(&mut merge, name)?);
        }
    }
    merge.frozen(&frozen, &models).map_err(on_model)?;
    let cut = |merge: &mut Merge<'_>, rows: &[Joined]| match stage {
        3 => merge.shares(&groups, rows),
        _ => merge.pieces(&groups, rows, &paddings, ranks as u64),
    };
    cut(&mut merge, &joined)?;
    if let Some(model) = models.first() {
        merge.aliases(model).map_err(on_model)?;
    }
    let mut untrained = 0;
    if let Some(model) = models.first().filter(|_| stage < 3) {
        untrained = merge.rest(model).map_err(on_model)?;
    }
    let mut left_out = Vec::new();
    for (name, rows) in slots.rows() {
        let before = merge.contents.placements.len();
        merge.owner = Owner::Slot(name.to_owned());
        // State of another shape than the parameters (factors, scales of blocks) does not follow their order.
        match rows.map(|rows| cut(&mut merge, rows)) {
            Some(Ok(())) => {}
            Some(Err(error)) if error.kind() != ckpt_api::Kind::Corrupt => return Err(error),
            _ => {
                merge.forget(before);
                left_out.push(name.escape_debug().to_string());
            }
        }
    }
    let ranks = ckpt_api::count(ranks, "rank");
    let notes = &mut merge.contents.notes;
    notes.push(format!(
        "the parameters and the optimizer's tensors are merged from {ranks}; the optimizer's settings are not read"
    ).into());
    if untrained > 0 {
        let count = ckpt_api::count(untrained, "tensor");
        notes.push(
            format!(
                "{count} that the ranks do not train, such as frozen weights, read as the model has them"
            )
            .into(),
        );
    }
    if !left_out.is_empty() {
        let left_out = ckpt_api::first_few(&left_out, 5);
        notes.push(
            format!("optimizer state that is not cut as the parameters are is left out: {left_out}").into(),
        );
    }
    Ok(merge.contents)
}

fn check_count(part: &States<'_>, ranks: usize) -> Result<()> {
    let count = part.number(&COUNT).ok_or_else(|| lacks("partition_count"))?;
    if count == ranks as u64 {
        return Ok(());
    }
    Err(Error::corrupt("the checkpoint lacks files of some ranks, or has too many")
        .found(ckpt_api::count(ranks, "file"))
        .expected(ckpt_api::count(count, "rank"))
        .help("copy the files of all ranks into one directory"))
}

fn check_stage(part: &States<'_>, before: u64) -> Result<u64> {
    let stage = part.number(&STAGE).ok_or_else(|| lacks("zero_stage"))?;
    if !(1..=3).contains(&stage) || (before != 0 && stage != before) {
        return Err(Error::unsupported("the stage of ZeRO is unknown, or differs between ranks")
            .field("zero_stage")
            .found(stage.to_string())
            .expected("1, 2 or 3, the same for all ranks"));
    }
    Ok(stage)
}

/// What the tensors are that are added.
enum Owner {
    Weight,
    /// What the optimizer remembers of each parameter, by its name.
    Slot(String),
    Counter,
}

/// A checkpoint that is put together.
struct Merge<'a> {
    limits: &'a Limits,
    owner: Owner,
    contents: Contents,
    names: HashMap<Name, TensorId>,
    /// Bytes of the tensors, which are more than those of the files if parameters are shared.
    viewed: Viewed,
}

impl Merge<'_> {
    fn add(&mut self, mut tensor: Tensor, placement: Placement) -> Result<()> {
        match &self.owner {
            Owner::Weight => {}
            Owner::Slot(slot) => {
                let own = Slot { variable: tensor.name.clone(), name: slot_name(slot).to_owned() };
                tensor.name = format!("optimizer.state.{}.{slot}", tensor.name).into();
                tensor = tensor.with_role(Role::Optimizer).with_slot(own);
            }
            Owner::Counter => tensor = tensor.with_role(Role::Counter),
        }
        let name = tensor.name.clone();
        let id = TensorId(self.contents.placements.len());
        self.limits.check(ckpt_api::Limit::Tensors, id.0 as u64)?;
        self.viewed.add(&tensor).map_err(|error| error.tensor(&name))?;
        if self.names.insert(name.clone(), id).is_some() {
            return Err(Error::corrupt("two parameters have the same name").tensor(&name));
        }
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.placements.push(placement.with_tensor(id).with_name(&name));
        Ok(())
    }

    /// Removes all tensors but the first ones.
    fn forget(&mut self, from: usize) {
        self.contents.checkpoint.tensors.truncate(from);
        self.contents.placements.truncate(from);
        self.names.retain(|_, id| id.0 < from);
    }

    /// Adds a parameter whose elements are in these extents.
    fn parameter(&mut self, name: &str, shape: &Shape, joined: &Joined, extents: Vec<Extent>) -> Result<()> {
        let (dtype, encoding) = joined.encoding().ok_or_else(|| lacks("fp32 groups"))?;
        let encoding: Encoding = encoding.clone().with_order(AxisOrder::row_major(shape.rank()));
        let extents = if extents.is_empty() { vec![Extent::new(FileId(0), 0, 0)] } else { extents };
        let tensor = Tensor::new(name, dtype, shape.clone());
        let placement = Placement::new(TensorId(0), &tensor.name, extents, encoding);
        self.add(tensor, placement)
    }

    fn buffers(&mut self, model: &States<'_>) -> Result<()> {
        let module = model.by_key(&["module"]);
        for name in model.texts(&["buffer_names"])? {
            let on_tensor = |error: Error| error.tensor(&name);
            let id = *module.get(name.as_str()).ok_or_else(|| on_tensor(lacks("module")))?;
            let (tensor, placement) = model.tensor(id, &name).map_err(on_tensor)?;
            self.add(tensor, placement)?;
        }
        Ok(())
    }

    /// Adds the parameters that were not trained: each whole (stages 1 and 2), or cut by the ranks (stage 3).
    fn frozen(&mut self, shapes: &Shapes, models: &[States<'_>]) -> Result<()> {
        let models: Vec<_> = models.iter().map(|model| (model, model.by_key(&[FRAGMENTS]))).collect();
        for (name, shape) in shapes {
            let on_tensor = |error: Error| error.tensor(name);
            let mut row = Joined::default();
            for (model, fragments) in &models {
                let id = *fragments.get(name.as_str()).ok_or_else(|| on_tensor(lacks(FRAGMENTS)))?;
                row.push(model.flat(id).map_err(on_tensor)?).map_err(on_tensor)?;
            }
            let mut extents = Vec::new();
            row.slice(0, shape.elements(), &mut extents)
                .ok_or_else(|| on_tensor(too_short(shape, row.elements())))?;
            self.parameter(name, shape, &row, extents)?;
        }
        Ok(())
    }

    /// Stages 1 and 2: cuts the row of each group at the parameters.
    fn pieces(
        &mut self,
        groups: &[Shapes],
        rows: &[Joined],
        paddings: &[Vec<u64>],
        ranks: u64,
    ) -> Result<()> {
        if groups.len() != rows.len() {
            return Err(Error::corrupt("the ranks store another number of groups than the shapes name")
                .found(rows.len().to_string())
                .expected(groups.len().to_string()));
        }
        for (number, (group, row)) in groups.iter().zip(rows).enumerate() {
            let mut at = 0u64;
            for (index, (name, shape)) in group.iter().enumerate() {
                let padding = paddings.get(number).and_then(|group| group.get(index)).copied().unwrap_or(0);
                let mut extents = Vec::new();
                row.slice(at, shape.elements(), &mut extents)
                    .ok_or_else(|| too_short(shape, row.elements().saturating_sub(at)).tensor(name))?;
                self.parameter(name, shape, row, extents)?;
                at = at.saturating_add(shape.elements()).saturating_add(padding);
            }
            // The end of the row is padded to a multiple of this; some versions leave the padding out.
            let unit = ranks.saturating_mul(2).max(1);
            if at.checked_next_multiple_of(unit) != row.elements().checked_next_multiple_of(unit) {
                return Err(left_over(row.elements(), at));
            }
        }
        Ok(())
    }

    /// Stage 3: joins the equal shares that the ranks have of each parameter.
    fn shares(&mut self, groups: &[Shapes], rows: &[Joined]) -> Result<()> {
        let first = rows.first().ok_or_else(|| lacks("fp32_flat_groups"))?;
        let ranks = (rows.len() as u64).max(1);
        let mut at = 0u64;
        for (name, shape) in groups.iter().flatten() {
            let share = shape.elements().div_ceil(ranks);
            let (mut left, mut extents) = (shape.elements(), Vec::new());
            for row in rows {
                check_same(first, row)?;
                let own = share.min(left);
                row.slice(at, own, &mut extents)
                    .ok_or_else(|| too_short(shape, row.elements().saturating_sub(at)).tensor(name))?;
                left -= own;
            }
            self.parameter(name, shape, first, extents)?;
            at = at.saturating_add(share);
        }
        match rows.iter().find(|row| row.elements() != at) {
            Some(row) => Err(left_over(row.elements(), at)),
            None => Ok(()),
        }
    }

    /// Stages 1 and 2: adds the tensors of the module that nothing else names, and returns how many. Stage 1 does not list
    /// the parameters that were not trained, and `zero_to_fp32` leaves them out.
    fn rest(&mut self, model: &States<'_>) -> Result<usize> {
        let before = self.contents.placements.len();
        for (name, id) in model.tensors(&["module"]) {
            if !self.names.contains_key(name) {
                let (tensor, placement) = model.tensor(id, name).map_err(|error| error.tensor(name))?;
                self.add(tensor, placement)?;
            }
        }
        Ok(self.contents.placements.len().saturating_sub(before))
    }

    /// Adds other names of parameters, which share their bytes.
    fn aliases(&mut self, model: &States<'_>) -> Result<()> {
        for (alias, name) in &model.pairs(&["shared_params"])? {
            let missing =
                || Error::corrupt("a shared parameter is another name of one that is missing").tensor(alias);
            let id = *self.names.get(name.as_str()).ok_or_else(|| missing().found(name.as_str()))?;
            let (tensor, placement) = self.contents.tensor_at(id)?;
            model.spend(placement.extents.len())?;
            let (mut tensor, placement) = (tensor.clone(), placement.clone());
            tensor.name = alias.into();
            self.add(tensor, placement)?;
        }
        Ok(())
    }
}

fn check_same(first: &Joined, row: &Joined) -> Result<()> {
    match first.encoding() == row.encoding() {
        true => Ok(()),
        false => Err(Error::unsupported("the ranks store the parameters with different dtypes")),
    }
}

fn too_short(shape: &Shape, left: u64) -> Error {
    Error::corrupt("the ranks have too few elements for the parameter")
        .found(ckpt_api::count(left, "element"))
        .expected(shape.to_string())
}

fn left_over(stored: u64, used: u64) -> Error {
    Error::corrupt("the ranks store another number of elements than the parameters have")
        .found(ckpt_api::count(stored, "element"))
        .expected(ckpt_api::count(used, "element"))
}
