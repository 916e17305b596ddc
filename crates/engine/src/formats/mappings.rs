//! The mappings that are chosen by name: files that come with the program, and generators.

use super::{Formats, RegisteredMapping};
use crate::mapping::Mapping;
use crate::text_file::read_text;
use ckpt_api::{Error, Limit, Limits, Result, nearest};
use std::path::Path;

impl Formats {
    /// Adds a mapping that can be chosen by its name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if its name is taken; [`ckpt_api::Kind::Mapping`] for a file that is not valid.
    ///
    /// ```
    /// use ckpt::RegisteredMapping;
    /// let mut registry = ckpt::Registry::builtin();
    /// let toml = "[lookup]\n\"a\" = \"b\"\n";
    /// registry.add_mapping(RegisteredMapping::File { name: "a-to-b", toml })?;
    /// let applied = registry.read_mapping("a-to-b", &Default::default())?.apply(&["a"], &Default::default())?;
    /// assert_eq!(applied.targets[0].name, "b");
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    pub fn add_mapping(&mut self, mapping: RegisteredMapping) -> Result<()> {
        let name = mapping.name();
        let Err(at) = self.mappings.binary_search_by(|known| known.name().cmp(name)) else {
            return Err(Error::usage("a mapping of this name is already registered").field(name));
        };
        mapping.read()?;
        self.mappings.insert(at, mapping);
        Ok(())
    }

    /// Returns the mapping of this name.
    ///
    /// ```
    /// let gpt2 = ckpt::Registry::builtin().mapping("gpt2-tf-to-hf").expect("it is built in");
    /// let applied = gpt2.apply(&["model/h0/attn/c_attn/w"], &ckpt_api::Limits::default())?;
    /// assert_eq!(applied.targets[0].name, "h.0.attn.c_attn.weight");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    pub fn mapping(&self, name: &str) -> Option<Mapping> {
        // What is added is read then, and a test reads what comes with the program: `ok` hides no error.
        self.mappings.iter().find(|mapping| mapping.name() == name)?.read().ok()
    }

    /// Returns the mappings that can be chosen by name, in the order of their names.
    pub fn mappings(&self) -> impl Iterator<Item = &RegisteredMapping> {
        self.mappings.iter()
    }

    /// Returns the mapping that `given` names: a file, or the mapping of this name if no such file exists.
    /// Values for its parameters may follow: `llama-hf-to-gguf,heads=32,kv_heads=8`. After a generated mapping,
    /// `names=sequential` chooses names as [`Mapping::with_names`] does, and others are settings of [`Mapping::with_setting`].
    ///
    /// ```
    /// let registry = ckpt::Registry::builtin();
    /// let llama = registry.read_mapping("llama-hf-to-gguf,heads=32", &Default::default())?;
    /// assert_eq!(llama.parameters().collect::<Vec<_>>(), ["kv_heads"]);
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that is neither a file nor a mapping's, and for a parameter without
    /// a number; those of [`Mapping::with_parameter`], [`Mapping::with_names`] and [`Mapping::from_toml_within`];
    /// [`ckpt_api::Kind::Io`].
    pub fn read_mapping(&self, given: &str, limits: &Limits) -> Result<Mapping> {
        let (name, parameters) = match given.split_once(',') {
            Some((name, parameters)) if !Path::new(given).exists() => (name, Some(parameters)),
            _ => (given, None),
        };
        let mut mapping = self.file_or_named(name, limits)?;
        for parameter in parameters.iter().flat_map(|parameters| parameters.split(',')) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if key == "names" && mapping.is_generated() {
                mapping = mapping.with_names(value)?;
                continue;
            }
            if mapping.is_generated() {
                mapping = mapping.with_setting(key, value)?;
                continue;
            }
            let value = value.parse().map_err(|_| {
                Error::usage("the parameter of a mapping has no value")
                    .found(format!("'{parameter}'"))
                    .expected("a whole number, such as heads=32")
            })?;
            mapping = mapping.with_parameter(key, value)?;
        }
        Ok(mapping)
    }

    fn file_or_named(&self, name: &str, limits: &Limits) -> Result<Mapping> {
        let path = Path::new(name);
        let looks_like_a_file = path.extension().is_some() || path.components().count() > 1;
        match self.mapping(name) {
            Some(mapping) if !path.exists() => Ok(mapping),
            None if !path.exists() && !looks_like_a_file => Err(self.unknown_mapping(name)),
            _ => Mapping::from_toml_within(
                &read_text(self.addresses(), path, limits, Limit::TextBytes)?,
                name,
                limits,
            ),
        }
    }

    /// The error for a name that neither a file nor a mapping has.
    pub fn unknown_mapping(&self, name: &str) -> Error {
        Error::usage("no mapping file and no built-in mapping has this name")
            .found(format!("'{name}'"))
            .help(nearest(name, self.mappings.iter().map(RegisteredMapping::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    fn add(name: &'static str, toml: &'static str) -> Result<Formats> {
        let mut formats = Formats::empty();
        formats.add_mapping(RegisteredMapping::File { name: "b", toml: "identity = true" })?;
        formats.add_mapping(RegisteredMapping::File { name, toml })?;
        Ok(formats)
    }

    #[test]
    fn mappings_are_listed_by_name_and_each_name_is_taken_once() {
        let formats = add("a", "identity = true").unwrap();
        assert_eq!(formats.mappings().map(RegisteredMapping::name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(add("b", "identity = true").unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn a_mapping_that_is_not_valid_is_refused_when_it_is_added() {
        let error = add("a", "identity = 3").unwrap_err();
        assert_eq!(error.kind(), Kind::Mapping, "{error}");
    }
}
