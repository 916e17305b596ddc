//! What the package calls settings, in errors and notes.

use ckpt::api::{LibraryWords, Setting, Vocabulary};

/// Keyword arguments of the package's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keywords;

impl Vocabulary for Keywords {
    fn name(&self, setting: Setting<'_>) -> String {
        let option = |option: &str| match option.split_once('=') {
            Some((key, value)) => format!("options={{\"{key}\": \"{value}\"}}"),
            None => "options={…}".to_owned(),
        };
        let quoted = |keyword: &str, value: &str| match value.is_empty() {
            true => format!("{keyword}="),
            false => format!("{keyword}=\"{value}\""),
        };
        match setting {
            Setting::Architecture => "architecture=".to_owned(),
            Setting::ReadOption(value) | Setting::WriteOption(value) => option(value),
            Setting::SourceOption(value) => format!("ckpt.open(…, {})", option(value)),
            Setting::TargetOption(value) => format!("{} beside an open checkpoint", option(value)),
            Setting::SourceFormat => "format=".to_owned(),
            Setting::TargetFormat(id) => quoted("to", id),
            Setting::Limit(value) => match value.split_once('=') {
                Some((name, number)) => format!("limits={{\"{name}\": {number}}}"),
                None => "limits={…}".to_owned(),
            },
            Setting::StoreOption(value) => match value.split_once('=') {
                Some((key, value)) => format!("ckpt.set_store_options({key}=\"{value}\")"),
                None => "ckpt.set_store_options(…)".to_owned(),
            },
            Setting::Allow(kinds) => {
                let kinds = kinds.split(',').filter(|kind| !kind.is_empty());
                format!("allow=[{}]", kinds.map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", "))
            }
            Setting::Strict => "strict=True".to_owned(),
            Setting::Include => "include=".to_owned(),
            Setting::Exclude => "exclude=".to_owned(),
            Setting::Mapping => "map=".to_owned(),
            Setting::MappingParameter(value) => format!("map=\"…,{value}\""),
            Setting::Dtype(name) => quoted("dtype", name),
            Setting::Memory(size) => quoted("max_memory", size),
            Setting::ForwardMemory => "max_memory=".to_owned(),
            Setting::Overwrite => "overwrite=True".to_owned(),
            Setting::Resume => "resume=True".to_owned(),
            Setting::Verify => "verify=True".to_owned(),
            Setting::PerLayer => "ckpt.verify(a, b, per_layer=True)".to_owned(),
            Setting::Tolerance => "atol= and rtol=".to_owned(),
            Setting::Device => "device=".to_owned(),
            Setting::Inputs(_) => "the inputs, as a dict of arrays by name".to_owned(),
            Setting::ReceiptRoot => "root=".to_owned(),
            Setting::CheckReceipt => "ckpt.check_receipt(receipt)".to_owned(),
            Setting::TensorNames => "`Checkpoint.keys()`".to_owned(),
            other => LibraryWords.name(other),
        }
    }
}
