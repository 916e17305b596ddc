//! What the command line calls settings.

use ckpt_api::{Setting, Vocabulary};

/// The flags of a command for one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flags {
    /// The command has one.
    One,
    /// The command has one, which a plan names.
    Planned,
    /// The first of two.
    First,
    /// The second of two.
    Second,
}

impl Flags {
    /// `--NAME`, or `--a-NAME` and `--b-NAME` where there are two checkpoints.
    fn of_source(self, flag: &str) -> String {
        match self {
            Flags::One | Flags::Planned => format!("--{flag}"),
            Flags::First => format!("--a-{flag}"),
            Flags::Second => format!("--b-{flag}"),
        }
    }
}

impl Vocabulary for Flags {
    fn name(&self, setting: Setting<'_>) -> String {
        let with = |flag: &str, value: &str| {
            let space = if value.is_empty() { "" } else { " " };
            format!("{flag}{space}{value}")
        };
        match setting {
            Setting::Architecture => self.of_source("arch"),
            Setting::ReadOption(option) => with(&self.of_source("set"), option),
            Setting::WriteOption(option) => with("--set", option),
            Setting::SourceOption(option) => with("--from-set", option),
            Setting::TargetOption(option) => with("--to-set", option),
            Setting::SourceFormat => self.of_source("from"),
            Setting::TargetFormat(id) => with("--to", id),
            Setting::Limit(limit) => with("--limit", limit),
            Setting::StoreOption(option) => with("--store-set", option),
            Setting::Allow(kinds) => {
                kinds.split(',').map(|kind| with("--allow", kind)).collect::<Vec<_>>().join(" ")
            }
            Setting::Strict => "--strict".to_owned(),
            Setting::Include => "--include".to_owned(),
            Setting::Exclude => "--exclude".to_owned(),
            Setting::Mapping => "--map".to_owned(),
            Setting::Dtype(name) => with("--dtype", name),
            Setting::Memory(size) => with("--max-memory", size),
            Setting::ForwardMemory => "--max-memory".to_owned(),
            Setting::Overwrite if *self == Flags::Planned => "`ckpt plan --force`".to_owned(),
            Setting::Overwrite => "--force".to_owned(),
            Setting::Resume => "--resume".to_owned(),
            Setting::Verify => "--verify".to_owned(),
            Setting::PerLayer => "ckpt verify IN OUT --per-layer".to_owned(),
            Setting::Tolerance => "--atol and --rtol".to_owned(),
            Setting::Device => "--device".to_owned(),
            Setting::Inputs(input) => with("--input", input),
            Setting::ReceiptRoot => "--root".to_owned(),
            Setting::CheckReceipt if cfg!(feature = "forward") => "`ckpt verify --receipt`".to_owned(),
            Setting::CheckReceipt => {
                "`ckpt verify --receipt` of a build with the feature `forward`".to_owned()
            }
            Setting::RunPlan => "`ckpt run-plan` and `ckpt commit`".to_owned(),
            Setting::TensorNames => "`ckpt inspect`".to_owned(),
            Setting::InverseTable => "ckpt map invert --of CHECKPOINT".to_owned(),
            Setting::MappingParameter(value) => format!("--map MAP,{value}"),
            Setting::MoreFormats => "a program that has its codec".to_owned(),
            Setting::Feature(name) => format!("cargo install --path . --features {name}"),
            other => ckpt_api::LibraryWords.name(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_a_source_is_a_flag_of_that_side() {
        let names = |setting| [Flags::One, Flags::First, Flags::Second].map(|flags| flags.name(setting));
        assert_eq!(names(Setting::Architecture), ["--arch", "--a-arch", "--b-arch"]);
        assert_eq!(names(Setting::SourceFormat), ["--from", "--a-from", "--b-from"]);
        let option = Setting::ReadOption("border=zero");
        assert_eq!(names(option), ["--set border=zero", "--a-set border=zero", "--b-set border=zero"]);
        assert_eq!(names(Setting::Overwrite), ["--force"; 3]);
    }

    #[test]
    fn a_value_follows_its_flag_where_there_is_one() {
        assert_eq!(Flags::One.name(Setting::Memory("7m")), "--max-memory 7m");
        assert_eq!(Flags::One.name(Setting::Memory("")), "--max-memory");
        assert_eq!(Flags::One.name(Setting::Allow("narrowed,clipped")), "--allow narrowed --allow clipped");
    }
}
