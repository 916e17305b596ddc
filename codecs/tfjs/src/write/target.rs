//! The names of the files, and the dtypes of weights.

use crate::format::MODEL;
use ckpt_api::{DType, FileId, Literal, OutputFile, OutputLayout};

/// The names of the files.
pub(super) struct Target<'n> {
    name: &'n str,
    /// What names of shards begin with, if the output is a file.
    pub(super) stem: Option<&'n str>,
}

impl<'n> Target<'n> {
    pub(super) fn new(name: &'n str) -> Self {
        let base = name.rsplit('/').next().unwrap_or(name);
        Target { name, stem: base.strip_suffix(".json") }
    }

    /// The path of a shard, relative to the model's file.
    pub(super) fn beside(&self, shard: &str) -> String {
        match self.stem {
            Some(stem) => format!("{stem}.{shard}"),
            None => shard.to_owned(),
        }
    }

    /// The name of the output file at a path that is relative to the model's file.
    pub(super) fn file(&self, path: &str) -> String {
        let folder = match self.stem {
            Some(_) => self.name.rsplit_once('/').map_or("", |(folder, _)| folder),
            None => self.name.strip_suffix('/').unwrap_or(self.name),
        };
        if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
    }

    fn model(&self) -> String {
        match self.stem {
            Some(_) => self.name.to_owned(),
            None => self.file(MODEL),
        }
    }
}

/// Adds the file with the manifest, which makes the others findable.
pub(super) fn add_model(placed: &mut OutputLayout, target: &Target<'_>, text: String) {
    let file = FileId(placed.files.len());
    placed.files.push(OutputFile::new(target.model(), text.len() as u64));
    placed.literals.push(Literal { file, offset: 0, bytes: text.into_bytes() });
}

/// The dtype that the program computes with, and the stored one; `None` if there is none.
pub(super) fn dtypes(dtype: DType, is_half: bool) -> Option<(DType, DType)> {
    let own = match dtype {
        DType::F16 => return Some((DType::F32, DType::F16)),
        DType::F32 | DType::F64 if is_half => return Some((DType::F32, DType::F16)),
        DType::I64
        | DType::I16
        | DType::I8
        | DType::U64
        | DType::U32
        | DType::U16
        | DType::U8
        | DType::I4
        | DType::U4
        | DType::I2
        | DType::U2 => DType::I32,
        dtype if dtype.is_float() => DType::F32,
        DType::I32 | DType::Bool | DType::C64 | DType::String => dtype,
        _ => return None,
    };
    Some((own, own))
}
