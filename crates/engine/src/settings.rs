//! Settings of conversions, comparisons and stores, for texts that name them.
//!
//! [`ckpt_api::Setting`] has those that codecs name, too.

use ckpt_api::Setting;

/// An option that both formats have, given for reading the source, as `key=value`.
pub const SOURCE_OPTION: Setting = Setting::new("source-option", "OpenOptions::option")
    .with_words(|option| format!("the option `{option}` of `OpenOptions`"));
/// An option that both formats have, given for writing the target, as `key=value`.
pub const TARGET_OPTION: Setting = Setting::new("target-option", "Conversion::option")
    .with_words(|option| format!("the option `{option}` of `Conversion`"));
/// The format of the source.
pub const SOURCE_FORMAT: Setting = Setting::new("source-format", "OpenOptions::format");
/// The format of the target: its id.
pub const TARGET_FORMAT: Setting =
    Setting::new("target-format", "Conversion::to").with_words(|id| format!("`Conversion::to(\"{id}\")`"));
/// An option of stores that are opened by address, as `key=value`.
pub const STORE_OPTION: Setting = Setting::new("store-option", "RemoteOptions")
    .with_words(|option| format!("the option `{option}` of `RemoteOptions`"));
/// Whether every loss stops the conversion.
pub const STRICT: Setting = Setting::new("strict", "Policy::strict");
/// The memory of a conversion: a size.
pub const MEMORY: Setting = Setting::new("memory", "Resources::max_memory")
    .with_words(|size| format!("`Resources::max_memory` of {size}"));
/// Whether the tensors that are stored for quantized weights are carried as they are.
pub const KEEP_QUANTIZED: Setting = Setting::new("keep-quantized", "Conversion::keep_quantized");
/// Whether quantized weights are read as the tensors that are stored for them.
pub const PARTS: Setting = Setting::new("parts", "OpenOptions::parts");
/// The memory of a forward pass.
pub const FORWARD_MEMORY: Setting = Setting::new("forward-memory", "verify::Options::memory");
/// Whether an existing output is replaced.
pub const OVERWRITE: Setting = Setting::new("overwrite", "Conversion::overwrite");
/// Whether a killed conversion goes on.
pub const RESUME: Setting = Setting::new("resume", "Conversion::resume");
/// Whether the output is read back and compared with its source.
pub const VERIFY: Setting = Setting::new("verify", "Conversion::verify");
/// Whether a verification reports every layer.
pub const PER_LAYER: Setting = Setting::new("per-layer", "verify::Options::per_layer");
/// The tolerance of a comparison.
pub const TOLERANCE: Setting = Setting::new("tolerance", "verify::Options::tolerance");
/// The device that a graph runs on.
pub const DEVICE: Setting = Setting::new("device", "verify::devices");
/// The inputs of a graph: which, and from where.
pub const INPUTS: Setting = Setting::new("inputs", "verify::Inputs");
/// The directory that a receipt's relative paths are looked up in.
pub const RECEIPT_ROOT: Setting = Setting::new("receipt-root", "root");
/// What checks the files of a receipt.
pub const CHECK_RECEIPT: Setting = Setting::new("check-receipt", "receipt::check");
/// What runs the items of a plan and finishes its output.
pub const RUN_PLAN: Setting = Setting::new("run-plan", "Planned::resume");
/// The inverse of a mapping as a table of one checkpoint's names.
pub const INVERSE_TABLE: Setting = Setting::new("inverse-table", "Applied::inverse_table");
/// The value of a mapping's parameter, as `name=value`.
pub const MAPPING_PARAMETER: Setting = Setting::new("mapping-parameter", "Mapping::with_parameter");
/// Formats beside those that are known.
pub const MORE_FORMATS: Setting = Setting::new("more-formats", "Registry::add");

/// A format that is not part of the program, by its id.
pub const REMOVE_FORMAT: Setting = Setting::new("remove-format", "Registry");

/// All settings that a text can name: an interface has words of its own for each, or means the library's.
pub const ALL: [Setting; 35] = [
    Setting::ARCHITECTURE,
    Setting::READ_OPTION,
    Setting::WRITE_OPTION,
    Setting::LIMIT,
    Setting::ALLOW,
    Setting::INCLUDE,
    Setting::EXCLUDE,
    Setting::MAPPING,
    Setting::DTYPE,
    Setting::TENSOR_NAMES,
    Setting::FEATURE,
    SOURCE_OPTION,
    TARGET_OPTION,
    SOURCE_FORMAT,
    TARGET_FORMAT,
    STORE_OPTION,
    STRICT,
    MEMORY,
    KEEP_QUANTIZED,
    PARTS,
    FORWARD_MEMORY,
    OVERWRITE,
    RESUME,
    VERIFY,
    PER_LAYER,
    TOLERANCE,
    DEVICE,
    INPUTS,
    RECEIPT_ROOT,
    CHECK_RECEIPT,
    RUN_PLAN,
    INVERSE_TABLE,
    MAPPING_PARAMETER,
    MORE_FORMATS,
    REMOVE_FORMAT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ALL.iter().map(|setting| setting.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn no_words_of_the_library_are_those_of_a_command_line() {
        for setting in ALL {
            let texts = [setting.of(""), setting.of("a=b")];
            assert!(texts.iter().all(|text| !text.contains("--")), "{setting:?}");
        }
    }

    #[test]
    fn the_library_names_its_items_with_values() {
        assert_eq!(SOURCE_OPTION.of("arch=a"), "the option `arch=a` of `OpenOptions`");
        assert_eq!(TARGET_OPTION.of("arch=a"), "the option `arch=a` of `Conversion`");
        assert_eq!(STORE_OPTION.of("region=eu"), "the option `region=eu` of `RemoteOptions`");
        assert_eq!(MEMORY.of("7m"), "`Resources::max_memory` of 7m");
        assert_eq!(TARGET_FORMAT.of("npz"), "`Conversion::to(\"npz\")`");
    }
}
