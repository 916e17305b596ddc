//! What the command line calls settings.

use ckpt_api::Vocabulary;

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
    /// `--NAME`, or `--a-NAME` and `--b-NAME` if there are two checkpoints.
    fn of_source(self, flag: &str) -> String {
        match self {
            Flags::One | Flags::Planned => format!("--{flag}"),
            Flags::First => format!("--a-{flag}"),
            Flags::Second => format!("--b-{flag}"),
        }
    }
}

impl Vocabulary for Flags {
    fn words(&self, setting: &str, value: &str) -> Option<String> {
        let valued = |flag: &str| with(flag, value);
        Some(match setting {
            "architecture" => self.of_source("arch"),
            "read-option" => valued(&self.of_source("set")),
            "write-option" => valued("--set"),
            "source-option" => valued("--from-set"),
            "target-option" => valued("--to-set"),
            "source-format" => self.of_source("from"),
            "target-format" => valued("--to"),
            "limit" => valued("--limit"),
            "store-option" => valued("--store-set"),
            "allow" => value.split(',').map(|kind| with("--allow", kind)).collect::<Vec<_>>().join(" "),
            "strict" => "--strict".to_owned(),
            "include" => "--include".to_owned(),
            "exclude" => "--exclude".to_owned(),
            "mapping" => "--map".to_owned(),
            "dtype" => valued("--dtype"),
            "memory" => valued("--max-memory"),
            "forward-memory" => "--max-memory".to_owned(),
            "keep-quantized" => "--keep-quantized".to_owned(),
            "parts" => "--parts".to_owned(),
            "overwrite" if *self == Flags::Planned => "`ckpt plan --force`".to_owned(),
            "overwrite" => "--force".to_owned(),
            "resume" => "--resume".to_owned(),
            "verify" => "--verify".to_owned(),
            "per-layer" => "ckpt verify IN OUT --per-layer".to_owned(),
            "tolerance" => "--atol and --rtol".to_owned(),
            "device" => "--device".to_owned(),
            "inputs" => valued("--input"),
            "receipt-root" => "--root".to_owned(),
            "check-receipt" if cfg!(feature = "forward") => "`ckpt verify --receipt`".to_owned(),
            "check-receipt" => "`ckpt verify --receipt` of a build with the feature `forward`".to_owned(),
            "run-plan" => "`ckpt run-plan` and `ckpt commit`".to_owned(),
            "tensor-names" => "`ckpt inspect`".to_owned(),
            "inverse-table" => "ckpt map invert --of CHECKPOINT".to_owned(),
            "mapping-parameter" => format!("--map MAP,{value}"),
            "more-formats" if cfg!(feature = "plugins") => "a plugin that has its codec: --plugin".to_owned(),
            "more-formats" => "a program that has its codec".to_owned(),
            "remove-format" => format!("`ckpt plugin remove {value}`, or leave out its --plugin"),
            "feature" => format!("cargo install --path . --features {value}"),
            _ => return None,
        })
    }
}

/// A flag, and its value if there is one.
fn with(flag: &str, value: &str) -> String {
    let space = if value.is_empty() { "" } else { " " };
    format!("{flag}{space}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Setting;
    use ckpt_engine::settings::{self, MEMORY, OVERWRITE, SOURCE_FORMAT};

    #[test]
    fn every_setting_has_words_of_the_command_line() {
        for setting in settings::ALL {
            assert!(Flags::One.words(setting.name(), "").is_some(), "{setting:?}");
        }
    }

    #[test]
    fn a_setting_of_a_source_is_a_flag_of_that_side() {
        let names = |setting: Setting, value: &str| {
            let text = setting.of(value);
            [Flags::One, Flags::First, Flags::Second].map(|flags| text.in_words(&flags).into_owned())
        };
        assert_eq!(names(Setting::ARCHITECTURE, ""), ["--arch", "--a-arch", "--b-arch"]);
        assert_eq!(names(SOURCE_FORMAT, ""), ["--from", "--a-from", "--b-from"]);
        let option = names(Setting::READ_OPTION, "border=zero");
        assert_eq!(option, ["--set border=zero", "--a-set border=zero", "--b-set border=zero"]);
        assert_eq!(names(OVERWRITE, ""), ["--force"; 3]);
    }

    #[test]
    fn a_value_follows_its_flag_where_there_is_one() {
        assert_eq!(MEMORY.of("7m").in_words(&Flags::One), "--max-memory 7m");
        assert_eq!(MEMORY.of("").in_words(&Flags::One), "--max-memory");
        let kinds = Setting::ALLOW.of("narrowed,clipped");
        assert_eq!(kinds.in_words(&Flags::One), "--allow narrowed --allow clipped");
    }
}
