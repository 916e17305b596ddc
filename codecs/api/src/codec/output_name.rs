//! Names of output files: they follow from the name that the user gave, never from what an input says.

use crate::{Error, FormatInfo, OutputFile, OutputLayout, PartName, Result};

impl OutputLayout {
    /// Checks that the name of every file follows from `name`, the one that the user gave for the output:
    ///
    /// - it is `name`, or
    /// - it is inside the directory `name`; an empty name is the directory that the user named, or
    /// - it is beside `name`, and begins with its stem (`model` of `model.onnx`) and a character that is neither a
    ///   letter nor a digit: `model.onnx.data`, `model-00001-of-00002.bin`, or
    /// - it is beside `name`, and a constant of the format ([`FormatInfo::fixed_names`]).
    ///
    /// A checkpoint may come from a stranger. A name of a file in it is data, with which nobody chose what is written.
    ///
    /// # Errors
    /// [`crate::Kind::Defect`]: the codec is wrong, not the input.
    pub fn check_names(&self, info: &FormatInfo, name: &str) -> Result<()> {
        let stray = |file: &&OutputFile| !follows(&file.name, name, info.fixed_names);
        match self.files.iter().find(stray) {
            None => Ok(()),
            Some(file) => {
                Err(Error::defect("the name of an output file does not follow from the output's name")
                    .file(&file.name)
                    .expected(format!("a name that begins with '{}'", stem(name).escape_debug()))
                    .help("the target's codec has a bug: please report it"))
            }
        }
    }
}

fn follows(file: &str, name: &str, fixed: &[&str]) -> bool {
    let name = name.strip_suffix('/').unwrap_or(name);
    let Some(rest) = file.strip_prefix(name).filter(|_| !name.is_empty()) else {
        return name.is_empty() || is_beside(file, name, fixed);
    };
    rest.is_empty() || rest.starts_with('/') || is_beside(file, name, fixed)
}

fn is_beside(file: &str, name: &str, fixed: &[&str]) -> bool {
    let folder = name.rfind('/').map_or("", |end| name.get(..=end).unwrap_or_default());
    let Some(file) = file.strip_prefix(folder).filter(|file| !file.contains('/')) else { return false };
    let is_companion = |rest: &str| rest.chars().next().is_none_or(|character| !character.is_alphanumeric());
    fixed.contains(&file) || file.strip_prefix(stem(name)).is_some_and(is_companion)
}

/// The part of a file's name before its extensions, and before the number of a shard.
fn stem(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    // Every name begins with an empty stem.
    if let Some(part) = PartName::parse(base).filter(|part| !part.stem.is_empty()) {
        return part.stem;
    }
    // A dot at the start hides a file, and begins no extension.
    let end = base.char_indices().skip(1).find(|(_, character)| *character == '.').map(|(at, _)| at);
    end.and_then(|end| base.get(..end)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    static INFO: FormatInfo = FormatInfo::new("toy", "Toy format").with_fixed_names(&["checkpoint"]);

    fn is_allowed(name: &str, file: &str) -> bool {
        OutputLayout::default().with_files(vec![OutputFile::new(file, 1)]).check_names(&INFO, name).is_ok()
    }

    #[test]
    fn the_output_its_companions_and_what_is_in_its_directory_are_written() {
        for (name, file) in [
            ("out.onnx", "out.onnx"),
            ("out.onnx", "out.onnx.data"),
            ("model.safetensors", "model-00001-of-00002.safetensors"),
            ("model.safetensors", "model.safetensors.index.json"),
            ("model.bin.index.json", "model-00001-of-00002.bin"),
            ("big-00001-of-00009.gguf", "big-00002-of-00003.gguf"),
            ("model.weights.json", "model_00000.weights.h5"),
            ("steps/model.ckpt-7.index", "steps/model.ckpt-7.data-00000-of-00001"),
            ("steps/model", "steps/checkpoint"),
            (".hidden.onnx", ".hidden.onnx.data"),
            ("net", "net/optimiser_state/weights.bin"),
            ("net/", "net/raw.bin"),
            ("", "raw.bin"),
        ] {
            assert!(is_allowed(name, file), "{file} of {name}");
        }
    }

    #[test]
    fn any_other_file_is_refused() {
        for (name, file) in [
            ("out.onnx", ".bashrc"),
            ("out.onnx", "outer.onnx"),
            ("out.onnx", "weights.bin"),
            ("out.onnx", "sub/out.onnx.data"),
            ("out.onnx", "checkpoint/x"),
            (".hidden.onnx", ".bashrc"),
            ("steps/model", "checkpoint"),
            ("steps/model", "model.index"),
            ("net", "network/raw.bin"),
            ("-00001-of-00003.bin", "weights.bin"),
        ] {
            assert!(!is_allowed(name, file), "{file} of {name}");
        }
    }
}
