//! The syntax of an architecture file, in which errors quote what to write.

use crate::{Error, nearest};
use std::path::Path;

/// JSON, or TOML if the file's name ends in `.toml`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Json,
    Toml,
}

impl Syntax {
    /// The syntax of a file of this name.
    pub(super) fn of(name: Option<&str>) -> Self {
        let extension = name.and_then(|name| Path::new(name).extension());
        if extension.is_some_and(|extension| extension == "toml") { Syntax::Toml } else { Syntax::Json }
    }

    /// A key with a list of words.
    pub(super) fn list(self, key: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        self.entry(key, &format!("[{}]", words.join(", ")))
    }

    /// A key with a word.
    pub(super) fn word(self, key: &str, word: &str) -> String {
        self.entry(key, &format!("\"{word}\""))
    }

    fn entry(self, key: &str, value: &str) -> String {
        match self {
            Syntax::Json => format!("\"{key}\": {value}"),
            Syntax::Toml => format!("{key} = {value}"),
        }
    }

    /// How a file with one layer looks.
    pub(super) fn example(self) -> &'static str {
        match self {
            Syntax::Json => {
                "it looks like { \"layers\": [{ \"type\": \"dense\", \"activation\": \"relu\" }] }"
            }
            Syntax::Toml => {
                "begin each layer with [[layers]], then write lines such as type = \"dense\" and activation = \"relu\""
            }
        }
    }
}

/// The error for a message of the parser.
pub(super) fn invalid(message: &str) -> Error {
    let error = Error::usage("the architecture file is not valid");
    let (what, place) = message.rfind(" at line ").map_or((message, ""), |at| message.split_at(at));
    let mut quoted = what.split('`').skip(1).step_by(2);
    let wrong = [("unknown field", "key"), ("unknown variant", "value")];
    match (wrong.into_iter().find(|(begin, _)| what.starts_with(begin)), quoted.next()) {
        (Some((_, kind)), Some(wrong)) => {
            let found = format!("unknown {kind} '{}'{place}", wrong.escape_debug());
            error.found(found).help(nearest(wrong, quoted))
        }
        _ => error.found(message),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Architecture, ArchitectureFile};

    fn refused(name: &str, json: &str) -> String {
        let file = ArchitectureFile::from_json(json).unwrap().named(name);
        file.layers().unwrap_err().to_string()
    }

    #[test]
    fn a_misspelled_key_or_value_names_the_nearest() {
        for (json, found, nearest) in [
            (r#"{"layers":[{"type":"dense","activaton":"relu"}]}"#, "unknown key 'activaton'", "activation"),
            (r#"{"layers":[{"type":"dense","activation":"reul"}]}"#, "unknown value 'reul'", "relu"),
            (r#"{"layers":[{"type":"dens"}]}"#, "unknown value 'dens'", "dense"),
            (r#"{"layer":[]}"#, "unknown key 'layer'", "layers"),
        ] {
            let error = refused("net.json", json);
            assert!(error.contains(found), "{error}");
            assert!(error.contains(&format!("did you mean '{nearest}'? known: ")), "{error}");
        }
        let error = Architecture::from_json(r#"{"layers":[{"type":"conv","stride":[1,1]}]}"#);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("unknown key 'stride' at line 1 column ") && error.contains("'strides'"),
            "{error}"
        );
    }

    #[test]
    fn a_layer_that_no_architecture_file_describes_names_those_that_one_does() {
        let error = refused("net.json", r#"{"layers":[{"type":"batch_normalization"}]}"#);
        let limits = "a chain has only dense layers and convolutions";
        assert!(
            error.contains("known: activation, conv, dense, flatten") && error.contains(limits),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_layers_is_shown_some_in_its_syntax() {
        assert!(refused("net.json", "{}").contains("{ \"layers\": [{ \"type\": \"dense\""));
        assert!(refused("net.toml", "{}").contains("begin each layer with [[layers]]"));
    }
}
