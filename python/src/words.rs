//! What the package calls settings, in errors and notes.

use ckpt::api::Vocabulary;

/// Keyword arguments of the package's functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keywords;

impl Vocabulary for Keywords {
    fn words(&self, setting: &str, value: &str) -> Option<String> {
        let option = || match value.split_once('=') {
            Some((key, value)) => format!("options={{\"{key}\": \"{value}\"}}"),
            None => "options={…}".to_owned(),
        };
        let quoted = |keyword: &str| match value.is_empty() {
            true => format!("{keyword}="),
            false => format!("{keyword}=\"{value}\""),
        };
        Some(match setting {
            "architecture" => "architecture=".to_owned(),
            "read-option" | "write-option" => option(),
            "source-option" => format!("ckpt.open(…, {})", option()),
            "target-option" => format!("{} beside an open checkpoint", option()),
            "source-format" => "format=".to_owned(),
            "target-format" => quoted("to"),
            "limit" => match value.split_once('=') {
                Some((name, number)) => format!("limits={{\"{name}\": {number}}}"),
                None => "limits={…}".to_owned(),
            },
            "store-option" => match value.split_once('=') {
                Some((key, value)) => format!("ckpt.set_store_options({key}=\"{value}\")"),
                None => "ckpt.set_store_options(…)".to_owned(),
            },
            "allow" => {
                let kinds = value.split(',').filter(|kind| !kind.is_empty());
                format!("allow=[{}]", kinds.map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", "))
            }
            "strict" => "strict=True".to_owned(),
            "include" => "include=".to_owned(),
            "exclude" => "exclude=".to_owned(),
            "mapping" => "map=".to_owned(),
            "mapping-parameter" => format!("map=\"…,{value}\""),
            "dtype" => quoted("dtype"),
            "memory" => quoted("max_memory"),
            "forward-memory" => "max_memory=".to_owned(),
            "keep-quantized" => "keep_quantized=True".to_owned(),
            "parts" => "ckpt.open(…, parts=True)".to_owned(),
            "overwrite" => "overwrite=True".to_owned(),
            "resume" => "resume=True".to_owned(),
            "verify" => "verify=True".to_owned(),
            "per-layer" => "ckpt.verify(a, b, per_layer=True)".to_owned(),
            "tolerance" => "atol= and rtol=".to_owned(),
            "device" => "device=".to_owned(),
            "inputs" => "the inputs, as a dict of arrays by name".to_owned(),
            "receipt-root" => "root=".to_owned(),
            "check-receipt" => "ckpt.check_receipt(receipt)".to_owned(),
            "tensor-names" => "`Checkpoint.keys()`".to_owned(),
            _ => return None,
        })
    }
}
