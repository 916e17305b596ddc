//! What the page calls settings, and how it gets errors.

use ckpt::api::{Error, Vocabulary};

/// The words on the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWords;

impl Vocabulary for PageWords {
    fn words(&self, setting: &str, value: &str) -> Option<String> {
        let option = |place: &str| match value {
            "" => place.to_owned(),
            value => format!("`{value}` in {place}"),
        };
        Some(match setting {
            "read-option" | "source-option" => option("the field “Options for reading”"),
            "write-option" | "target-option" => option("the field “Options for writing”"),
            "source-format" => "the field “Format of the source”".to_owned(),
            "target-format" => "the field “Format”".to_owned(),
            "allow" => match value {
                "" => "“accept” under “What the conversion loses”".to_owned(),
                kinds => format!("“accept” at {}", kinds.replace(',', ", ")),
            },
            "include" => "the field “Keep only”".to_owned(),
            "exclude" => "the field “Leave out”".to_owned(),
            "mapping" => "the field “Names”".to_owned(),
            "mapping-parameter" => format!("`,{value}` after the name of the mapping"),
            "dtype" => match value {
                "" => "the field “Numbers”".to_owned(),
                dtype => format!("{dtype} in the field “Numbers”"),
            },
            "keep-quantized" => "the box “Keep quantized tensors as they are stored”".to_owned(),
            "verify" => "the box “Read the result back and compare it with the source”".to_owned(),
            "inputs" => "the fields of “Run”".to_owned(),
            "tensor-names" => "the tab “Contents”".to_owned(),
            "more-formats" => "a program that has its codec".to_owned(),
            "architecture" | "limit" | "store-option" | "memory" | "forward-memory" | "parts" | "resume"
            | "overwrite" | "per-layer" | "tolerance" | "device" | "receipt-root" | "check-receipt"
            | "run-plan" | "inverse-table" | "strict" | "feature" | "remove-format" => {
                in_program(setting, value)
            }
            _ => return None,
        })
    }
}

/// The words for a setting that the page has no field for: the program has.
fn in_program(setting: &str, value: &str) -> String {
    let flag = match setting {
        "architecture" => "--arch",
        "store-option" => "--store-set",
        "memory" | "forward-memory" => "--max-memory",
        "overwrite" => "--force",
        "tolerance" => "--atol",
        "receipt-root" => "--root",
        "check-receipt" => "verify --receipt",
        "run-plan" => "run-plan",
        "inverse-table" => "map invert --of",
        "feature" => "a build with the feature",
        "remove-format" => "plugin remove",
        setting => return joined(&format!("--{setting}"), value),
    };
    joined(flag, value)
}

fn joined(flag: &str, value: &str) -> String {
    let space = if value.is_empty() { "" } else { " " };
    format!("`{flag}{space}{value}` of the program")
}

/// What an error says: its message, its kind, and where it is, in the order in which people should see them.
pub(crate) fn error(error: Error) -> serde_json::Value {
    let error = error.in_words(&PageWords);
    let facts: Vec<[String; 2]> =
        error.context().pairs().map(|(label, text)| [label.into(), text.into_owned()]).collect();
    let (kind, shown) = (error.kind(), error.kind().to_string());
    serde_json::json!({ "message": error.message(), "kind": kind, "shown": shown, "facts": facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_words_of_the_page() {
        for setting in ckpt_engine::settings::ALL.map(|setting| setting.name()) {
            assert!(PageWords.words(setting, "").is_some(), "{setting}");
        }
    }
}
