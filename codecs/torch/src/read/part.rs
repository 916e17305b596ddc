//! Files that are parts of a model: what their names, the files beside them and their tensors tell.

use crate::format::ID;
use crate::zero;
use ckpt_api::{Contents, Error, Input, Loss, LossKind, MetadataValue, PartName, Setting, first_few, text};
use std::collections::BTreeMap;

/// What stands before the number of one of Meta's files.
const CONSOLIDATED: &str = "consolidated.";
/// What stands before the number of a rank of DeepSpeed or Megatron.
const MP_RANK: &str = "mp_rank_";
/// The file in the folder of a rank of Megatron.
const MEGATRON: [&str; 2] = ["model_optim_rng.pt", "model_rng.pt"];
/// Names that a message lists.
const SHOWN: usize = 8;
/// Digits of a rank in a name.
const MOST_DIGITS: usize = 6;

/// The losses of reading one file of a model that has several.
pub(super) fn losses(input: &Input, contents: &Contents) -> Vec<Loss> {
    let name = input.entry();
    let found = PartName::parse(name).and_then(|part| part.loss(name));
    let found = found.or_else(|| of_zero(name, contents)).or_else(|| of_world(name));
    found.or_else(|| of_meta(input, contents)).or_else(|| of_megatron(input, contents)).into_iter().collect()
}

/// How many parts a model has.
#[derive(Clone, Copy)]
enum Count {
    Known(u64),
    AtLeast(u64),
    Unknown,
}

impl Count {
    /// The number that a file states, unless the parts that are seen are more; `None` for a single part.
    fn of(stated: u64, seen: u64) -> Option<Self> {
        let count = if stated >= seen { Count::Known(stated) } else { Count::AtLeast(seen) };
        (stated.max(seen) > 1).then_some(count)
    }
}

fn partial(name: &str, number: Option<u64>, count: Count, rest: &str) -> Loss {
    let number = number.map_or(String::new(), |number| format!(" {}", number.saturating_add(1)));
    let count = match count {
        Count::Known(count) => count.to_string(),
        Count::AtLeast(count) => format!("at least {count}"),
        Count::Unknown => "several".to_owned(),
    };
    Loss::new(LossKind::Partial, name, format!("part{number} of {count} of a model{rest}"))
}

/// The number that follows a word in a name.
pub(super) fn number_after(name: &str, word: &str) -> Option<u64> {
    let (_, rest) = name.split_once(word)?;
    let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    rest.get(..digits).filter(|text| text.len() <= MOST_DIGITS)?.parse().ok()
}

/// How many files beside the input have a number after this word, if they are numbered from 0.
fn numbered(input: &Input, word: &str) -> u64 {
    let names = input.list("").unwrap_or_default();
    names.iter().filter_map(|name| number_after(name, word)).max().map_or(0, |last| last.saturating_add(1))
}

/// A file of one rank of DeepSpeed's ZeRO.
fn of_zero(name: &str, contents: &Contents) -> Option<Loss> {
    let rank = number_after(name, "zero_pp_rank_")?;
    let is_empty = contents.checkpoint.tensors.iter().any(|tensor| tensor.shape[..] == [0]);
    let rest = format!(
        ", that of rank {rank} in a checkpoint of DeepSpeed's ZeRO; name the folder that has 'latest'"
    );
    (is_empty || name.ends_with("_optim_states.pt")).then(|| partial(name, None, Count::Unknown, &rest))
}

/// A file that a rank of a sharded training saved: `model_world_size_2_rank_0.pt`.
fn of_world(name: &str) -> Option<Loss> {
    let (count, rank) = (number_after(name, "world_size_")?, number_after(name, "_rank_")?);
    let rest = "; merge the ranks: torch.distributed.checkpoint, or full_tensor() of each DTensor";
    (count > 1).then(|| partial(name, Some(rank), Count::Known(count), rest))
}

/// The files of a directory that are the ranks of one model-parallel model: those of Meta, DeepSpeed and Megatron, which has a
/// folder for each rank. `None` for fewer than two.
pub(super) fn model_parallel(input: &Input, names: &[String]) -> Option<Vec<String>> {
    let beside = |word: &str| -> BTreeMap<u64, String> {
        let ours = names.iter().filter(|name| word != CONSOLIDATED || name.starts_with(word));
        ours.filter_map(|name| Some((number_after(name, word)?, name.clone()))).collect()
    };
    let folders = |step: &str| -> BTreeMap<u64, String> {
        let files = |rank: u64| MEGATRON.map(|file| (rank, format!("{step}{MP_RANK}{rank:02}/{file}")));
        (0..2).flat_map(files).filter(|(_, name)| input.has_file(name)).collect()
    };
    // The folder of the last step, which a file of the directory names.
    let of_deepspeed = || -> Option<BTreeMap<u64, String>> {
        let step = zero::last_step(input)?;
        let names = input.list(&step).ok()?.into_iter();
        Some(
            names
                .filter_map(|name| Some((number_after(&name, MP_RANK)?, format!("{step}/{name}"))))
                .collect(),
        )
    };
    let of_megatron = || Some(folders(&format!("iter_{:07}/", last_iteration(input)?)));
    let last = [of_deepspeed(), of_megatron()].into_iter().flatten();
    let mut found = [beside(CONSOLIDATED), beside(MP_RANK), folders("")].into_iter().chain(last);
    found.find(|files| files.len() > 1).map(|files| files.into_values().collect())
}

/// The number of the last step, as Megatron writes it beside the folders of the steps.
fn last_iteration(input: &Input) -> Option<u64> {
    const LATEST: &str = "latest_checkpointed_iteration.txt";
    let file = input.has_file(LATEST).then(|| input.file(LATEST).ok())??;
    let text = file.bytes(0, file.len().min(32)).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// The error of a directory with the ranks of a model-parallel model.
pub(super) fn not_joined(input: &Input, names: &[String]) -> Error {
    let is_metas = names.iter().all(|name| name.starts_with(CONSOLIDATED));
    let tool = match is_metas {
        true => "transformers' convert_llama_weights_to_hf.py, or the project's own tool",
        false => "the tool of the framework that saved it, such as Megatron-LM's tools/checkpoint/convert.py",
    };
    Error::unsupported(
        "the files are the ranks of one model-parallel model, which cuts its tensors across them",
    )
    .file(input.display(""))
    .found(first_few(names, SHOWN))
    .expected("a model that is whole, or shards of whole tensors")
    .help(text![
        format!(
            "joining the ranks needs the model's layout, which the files do not state: merge them \
                 first with {tool}; to convert what one rank has, name its file and set "
        ),
        Setting::ALLOW.of("partial"),
    ])
}

/// One of Meta's files `consolidated.NN.pth`, across which most tensors are cut.
fn of_meta(input: &Input, contents: &Contents) -> Option<Loss> {
    const WORD: &str = CONSOLIDATED;
    let name = input.entry();
    let number = number_after(name, WORD).filter(|_| name.starts_with(WORD))?;
    let len = |name: &str, axis: usize| contents.checkpoint.tensor(name)?.1.shape.get(axis).copied();
    // The rows of a query are cut, those of a normalization are not.
    let rows = len("layers.0.attention.wq.weight", 0).filter(|rows| *rows > 0);
    let cut = rows.zip(len("norm.weight", 0)).map(|(rows, all)| all / rows).filter(|count| *count > 1);
    let count = Count::of(cut.unwrap_or(0), numbered(input, WORD).max(number.saturating_add(1)))?;
    let rest =
        ", which cuts tensors across its files; merge them with transformers' convert_llama_weights_to_hf.py";
    Some(partial(name, Some(number), count, rest))
}

/// One of the files of a model that Megatron or DeepSpeed cut across devices: `mp_rank_00`.
fn of_megatron(input: &Input, contents: &Contents) -> Option<Loss> {
    const WORD: &str = MP_RANK;
    let name = input.entry();
    let metadata = &contents.checkpoint.metadata;
    let stated = |key: &str| metadata.value(ID, key).and_then(MetadataValue::as_u64);
    let of_arguments = |key: &str| metadata.value(ID, "args")?.as_map()?.get(key)?.as_u64();
    let sizes = ["tensor_model_parallel_size", "pipeline_model_parallel_size"];
    let sizes = sizes.map(of_arguments).into_iter().flatten().fold(1u64, u64::saturating_mul);
    let number = number_after(name, WORD);
    let beside = if number.is_some() { numbered(input, WORD) } else { 0 };
    let seen = beside.max(number.map_or(0, |number| number.saturating_add(1)));
    let count = Count::of(stated("mp_world_size").unwrap_or(0).max(sizes), seen)?;
    let rest = ", which is cut across devices; merge the parts with the tools of its framework";
    Some(partial(name, number, count, rest))
}

#[cfg(test)]
mod tests {
    use super::number_after;

    #[test]
    fn the_number_after_a_word_ends_with_its_digits() {
        assert_eq!(number_after("zero_pp_rank_12_mp_rank_03_model_states.pt", "mp_rank_"), Some(3));
        assert_eq!(number_after("zero_pp_rank_12_mp_rank_03_model_states.pt", "zero_pp_rank_"), Some(12));
        for name in ["mp_rank_", "mp_rank_x", "mp_rank_1234567", "rank_1"] {
            assert_eq!(number_after(name, "mp_rank_"), None, "{name}");
        }
    }
}
