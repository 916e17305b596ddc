//! Which codecs exist, and which one an input is for.

mod architectures;
mod groups;
mod mappings;
mod models;
mod registered;
mod unread;

pub use architectures::OPTION_PREFIX;
pub use architectures::{Architectures, Choices};
pub use groups::{Group, Groups, Quantized, TensorGroups};
pub(crate) use models::no_metadata;
pub use models::{
    CompanionFile, ConstantTensor, Describe, GraphForm, ModelKinds, ModelRequest, ModelTranslation,
};
pub use registered::RegisteredMapping;
pub use unread::UnreadFormats;

use crate::settings;
use crate::store::{AddressOpener, Addresses};
use crate::words::printable;
use ckpt_api::{
    Codec, Error, FormatInfo, Input, Match, Op, OpSpec, Provenance, Result, Text, nearby, nearest, text,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unread::NoFormats;

/// Codecs, and mappings and architectures that are chosen by name: what opening a checkpoint needs. Registration is an explicit call; there is
/// no link-time magic.
#[derive(Clone, Default)]
pub struct Formats {
    codecs: Vec<Arc<dyn Codec>>,
    /// By their names.
    mappings: Vec<RegisteredMapping>,
    architectures: Option<Arc<dyn Architectures>>,
    model_kinds: Option<Arc<dyn ModelKinds>>,
    groups: Option<Arc<dyn TensorGroups>>,
    unread: Option<Arc<dyn UnreadFormats>>,
    addresses: Addresses,
}

impl std::fmt::Debug for Formats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.codecs().map(|codec| codec.info().id)).finish()
    }
}

/// The verdict of one codec on an input.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// The codec's format id.
    pub format: &'static str,
    /// The verdict, with its reason.
    #[serde(flatten)]
    pub verdict: Match,
}

impl Formats {
    /// A registry without codecs.
    pub fn empty() -> Self {
        Formats::default()
    }

    /// A registry of codecs and of mappings, each with a name of its own.
    pub fn with(codecs: Vec<Arc<dyn Codec>>, mut mappings: Vec<RegisteredMapping>) -> Self {
        mappings.sort_by_key(RegisteredMapping::name);
        Formats { codecs, mappings, ..Formats::default() }
    }

    /// Sets the architectures that are known by name.
    #[must_use]
    pub fn with_architectures(mut self, architectures: impl Architectures + 'static) -> Self {
        self.architectures = Some(Arc::new(architectures));
        self
    }

    /// The architectures that are known by name.
    pub fn architectures(&self) -> Option<&dyn Architectures> {
        self.architectures.as_deref()
    }

    /// Sets the kinds of models that conversions carry whole.
    #[must_use]
    pub fn with_model_kinds(mut self, kinds: impl ModelKinds + 'static) -> Self {
        self.model_kinds = Some(Arc::new(kinds));
        self
    }

    /// The kinds of models that conversions carry whole.
    pub fn model_kinds(&self) -> Option<&dyn ModelKinds> {
        self.model_kinds.as_deref()
    }

    /// Sets what recognizes weights that several stored tensors describe together.
    #[must_use]
    pub fn with_groups(mut self, groups: impl TensorGroups + 'static) -> Self {
        self.groups = Some(Arc::new(groups));
        self
    }

    /// What recognizes weights that several stored tensors describe together.
    pub fn groups(&self) -> Option<&dyn TensorGroups> {
        self.groups.as_deref()
    }

    /// Adds what opens addresses of its schemes, such as `s3://bucket/model`.
    #[must_use]
    pub fn with_opener(mut self, opener: impl AddressOpener + 'static) -> Self {
        self.addresses.add(opener);
        self
    }

    /// The places that are known by their addresses: paths of this machine, and those of the openers.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Sets the formats that no codec reads, which errors name.
    #[must_use]
    pub fn with_unread(mut self, formats: impl UnreadFormats + 'static) -> Self {
        self.unread = Some(Arc::new(formats));
        self
    }

    /// The formats that no codec reads.
    pub(crate) fn unread(&self) -> &dyn UnreadFormats {
        self.unread.as_deref().unwrap_or(&NoFormats)
    }

    /// Adds a codec, from wherever it comes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if its id or the name of one of its operators is taken.
    pub fn add(&mut self, codec: impl Codec + 'static) -> Result<()> {
        let id = codec.info().id;
        if self.codecs().any(|known| known.info().id == id) {
            return Err(Error::usage("a codec with this id is already registered").field(id));
        }
        for spec in codec.ops() {
            self.check_op(id, spec.name)?;
        }
        self.codecs.push(Arc::new(codec));
        Ok(())
    }

    /// Removes the codec with this id, if there is one.
    pub fn remove(&mut self, id: &str) {
        self.codecs.retain(|codec| codec.info().id != id);
    }

    /// Fails if the operator `name` of codec `id` is defined already.
    fn check_op(&self, id: &str, name: &str) -> Result<()> {
        let owner = match Op::from(name.to_owned()) {
            Op::Custom(_) => match self.codecs().find(|codec| codec.ops().iter().any(|op| op.name == name)) {
                Some(codec) => format!("codec '{}'", codec.info().id),
                None => return Ok(()),
            },
            _ => "the contract".to_owned(),
        };
        Err(Error::usage("two definitions of an operator have the same name")
            .field(name)
            .found(format!("a definition by codec '{id}'"))
            .expected(format!("only the one by {owner}"))
            .help("begin the name with the codec's namespace"))
    }

    /// Returns the definition of the operator of this name, if a codec registers one.
    pub fn op(&self, name: &str) -> Option<&'static OpSpec> {
        self.codecs().flat_map(|codec| codec.ops()).find(|spec| spec.name == name)
    }

    /// All codecs, in the order of registration.
    pub fn codecs(&self) -> impl Iterator<Item = &Arc<dyn Codec>> {
        self.codecs.iter()
    }

    /// The codec with this id.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], listing the known ids.
    pub fn codec(&self, id: &str) -> Result<Arc<dyn Codec>> {
        self.able(id, "does nothing", |_| true)
    }

    /// The codec with this id, if it reads.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], listing the ids of those that do; [`ckpt_api::Kind::Unsupported`] if it does not.
    pub fn reader(&self, id: &str) -> Result<Arc<dyn Codec>> {
        self.able(id, "can be written, but not read", |info| !info.reads.is_empty())
    }

    /// The codec with this id, if it writes.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], listing the ids of those that do; [`ckpt_api::Kind::Unsupported`] if it does not.
    pub fn writer(&self, id: &str) -> Result<Arc<dyn Codec>> {
        self.able(id, "can be read, but not written", |info| !info.writes.is_empty())
    }

    fn able(&self, id: &str, lack: &str, able: fn(&FormatInfo) -> bool) -> Result<Arc<dyn Codec>> {
        let known = self.codecs().map(|codec| codec.info()).filter(|info| able(info)).map(|info| info.id);
        match self.codecs().find(|codec| codec.info().id == id) {
            Some(codec) if able(codec.info()) => Ok(Arc::clone(codec)),
            Some(_) => Err(Error::unsupported(format!("format '{id}' {lack}")).help(nearest(id, known))),
            None => {
                let error = Error::usage("unknown format").found(format!("'{id}'"));
                if let Some(meant) = self.of_tool(id) {
                    let known = known.collect::<Vec<_>>().join(", ");
                    return Err(error.help(format!("did you mean '{meant}'? known: {known}")));
                }
                Err(match self.unread().instead(&id.to_ascii_lowercase()) {
                    Some(advice) => error.expected(known.collect::<Vec<_>>().join(", ")).help(advice),
                    None => error.help(text![
                        format!("{}; for another format, use ", nearest(id, known)),
                        settings::MORE_FORMATS
                    ]),
                })
            }
        }
    }

    /// The format of this id in another case, or of the tool that begins its title: `TF2`, `numpy`.
    fn of_tool(&self, id: &str) -> Option<&'static str> {
        let mut infos = self.codecs().map(|codec| codec.info());
        let is_tool = |info: &&FormatInfo| {
            info.title.split_whitespace().next().is_some_and(|tool| tool.eq_ignore_ascii_case(id))
        };
        infos.find(|info| info.id.eq_ignore_ascii_case(id) || is_tool(info)).map(|info| info.id)
    }

    /// Checks that the codec of this id is the one that a plan records.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if it is another one, or if there is none.
    pub(crate) fn check_provenance(&self, id: &str, recorded: Option<&Provenance>) -> Result<()> {
        let codec = self.codecs().find(|codec| codec.info().id == id);
        let known = codec.and_then(|codec| codec.provenance());
        let is_same = match (known, recorded) {
            (Some(known), Some(recorded)) => known.sha256 == recorded.sha256,
            (known, recorded) => known.is_none() && recorded.is_none(),
        };
        if is_same {
            return Ok(());
        }
        let shown = |provenance: &Provenance| {
            let Provenance { kind, origin, version, sha256, .. } = provenance;
            format!("the {kind} {origin}, version {version}, SHA-256 {sha256}")
        };
        let found = match (codec, known) {
            (None, _) => "no codec of this format".to_owned(),
            (_, None) => "a codec that is part of the program".to_owned(),
            (_, Some(known)) => shown(known),
        };
        Err(Error::usage(format!("the plan was made with another codec of format '{id}'"))
            .found(found)
            .expected(recorded.map_or("the codec that is part of the program".to_owned(), shown))
            .help("run the plan with the same codec, or make a new plan"))
    }

    /// The codec for an output name, by its extension.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if no codec, or several, claim the extension.
    pub fn for_extension(&self, name: &str) -> Result<Arc<dyn Codec>> {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        let extension = extension.map(str::to_ascii_lowercase);
        let claims = |codec: &&Arc<dyn Codec>| {
            let info = codec.info();
            !info.writes.is_empty() && extension.as_deref().is_some_and(|e| info.extensions.contains(&e))
        };
        let claiming: Vec<&Arc<dyn Codec>> = self.codecs().filter(claims).collect();
        let error = || Error::usage("the output's name does not show its format").found(format!("'{name}'"));
        match &claiming[..] {
            [codec] => Ok(Arc::clone(codec)),
            [] => Err(match extension {
                Some(extension) => self.unwritten(&extension).found(format!("'{name}'")),
                None => error(),
            }
            .expected(format!("a name that ends with {}", self.written_extensions()))
            .help(text![
                "name the format with ",
                settings::TARGET_FORMAT,
                format!(": one of {}", self.written_ids())
            ])),
            several => {
                let ids: Vec<&str> = several.iter().map(|codec| codec.info().id).collect();
                let ways = ids.iter().map(|id| settings::TARGET_FORMAT.of(id));
                Err(error()
                    .expected(format!("one format, but {} share the extension", ids.join(" and ")))
                    .help(text!["name one with ", Text::join(ways, " or ")]))
            }
        }
    }

    /// Whether a codec that writes claims the extension of a name.
    pub(crate) fn claims_extension(&self, name: &str) -> bool {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        let extension = extension.map(str::to_ascii_lowercase);
        let mut infos = self.codecs().map(|codec| codec.info());
        infos.any(|info| extension.as_deref().is_some_and(|own| info.extensions.contains(&own)))
    }

    /// The error for an output with an extension of no format that can be written: what it stands for elsewhere.
    fn unwritten(&self, extension: &str) -> Error {
        let reads = self.codecs().map(|codec| codec.info()).find(|info| info.extensions.contains(&extension));
        let error = match reads {
            Some(info) => Error::unsupported(format!("format '{}' can be read, but not written", info.id)),
            None => Error::usage(format!(
                "no format that is supported has names ending with .{}",
                printable(extension)
            )),
        };
        match self.unread().instead(extension) {
            Some(advice) => error.help(advice),
            None => error,
        }
    }

    /// `.npz or .npy (npz), .nn (nn)`: the extensions of formats that can be written.
    fn written_extensions(&self) -> String {
        let info = self.codecs().map(|codec| codec.info());
        let shown = info.filter(|info| !info.writes.is_empty() && !info.extensions.is_empty());
        let shown = shown.map(|info| format!(".{} ({})", info.extensions.join(" or ."), info.id));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The extensions of files that are read.
    pub(crate) fn read_extensions(&self) -> Vec<&'static str> {
        let infos = self.codecs().map(|codec| codec.info()).filter(|info| !info.reads.is_empty());
        infos.flat_map(|info| info.extensions).copied().collect()
    }

    fn written_ids(&self) -> String {
        let written = self.codecs().map(|codec| codec.info()).filter(|info| !info.writes.is_empty());
        written.map(|info| info.id).collect::<Vec<_>>().join(", ")
    }

    /// The error for a path that leads nowhere, whose help names no file that cannot be read.
    pub(crate) fn suggest(&self, error: Error) -> Error {
        /// Files that are looked at.
        const LOOKED_AT: usize = 16;
        let context = error.context();
        let suggests = context.help.is_some_and(|help| help.starts_with("did you mean"));
        let Some(path) = context.file.filter(|_| suggests && error.is_missing()) else { return error };
        let alike = nearby(Path::new(path));
        let Some(first) = alike.first().cloned() else { return error };
        let is_read = |path: &&PathBuf| {
            path.is_dir()
                || Input::open(path).is_ok_and(|input| {
                    self.codecs().any(|codec| codec.probe(&input).is_ok_and(|verdict| verdict != Match::No))
                })
        };
        match alike.iter().take(LOOKED_AT).find(is_read) {
            Some(meant) if *meant == first => error,
            Some(meant) => error.with_help(|_| format!("did you mean '{}'?", meant.display())),
            None => {
                error.with_help(|_| "check the name: no file of a similar name is a checkpoint".to_owned())
            }
        }
    }

    /// Asks every codec, and returns the one that is certain.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if none is certain, [`ckpt_api::Kind::Usage`] if several are; both
    /// with all reasons. [`ckpt_api::Kind::Io`] if the input cannot be read.
    pub fn identify(&self, input: &Input) -> Result<(Arc<dyn Codec>, Vec<Evidence>)> {
        let mut evidence = Vec::new();
        let mut certain: Vec<Arc<dyn Codec>> = Vec::new();
        for codec in self.codecs().filter(|codec| !codec.info().reads.is_empty()) {
            let verdict = codec.probe(input)?;
            if matches!(verdict, Match::Certain(_)) {
                certain.push(codec.clone());
            }
            evidence.push(Evidence { format: codec.info().id, verdict });
        }
        let shown = input.display(input.entry());
        let reasons: Vec<String> = evidence
            .iter()
            .filter_map(|evidence| match &evidence.verdict {
                Match::Certain(why) => Some(format!("{}: {why}", evidence.format)),
                Match::Possible(why) => Some(format!("possibly {}: {why}", evidence.format)),
                Match::No => None,
            })
            .collect();
        match (certain.len(), certain.pop()) {
            (1, Some(codec)) => Ok((codec, evidence)),
            (0, _) => {
                if let Some(foreign) = self.unread().known(input)? {
                    return Err(foreign);
                }
                let known: Vec<&str> = evidence.iter().map(|evidence| evidence.format).collect();
                let error = Error::unsupported("the input's format is not recognized").file(shown);
                Err(match (&reasons[..], begun(self.unread(), input)) {
                    ([], None) => {
                        self.unread().unrecognized(input, &self.read_extensions(), &known.join(", "))?
                    }
                    ([], Some(name)) => error
                        .expected(format!("one of: {}", known.join(", ")))
                        .found("no file of this name, but some whose names begin with it")
                        .help(format!("did you mean '{name}'?")),
                    (reasons, _) => error
                        .found(reasons.join("; "))
                        .help(text!["if that is right, name it with ", settings::SOURCE_FORMAT]),
                })
            }
            (_, last) => {
                let codecs = certain.iter().chain(&last);
                let added = codecs.filter_map(|codec| Some((codec.info().id, codec.provenance()?)));
                let help =
                    added.fold(text!["name one with ", settings::SOURCE_FORMAT], |help, (id, from)| {
                        text![
                            help,
                            format!("; {id} is the {from}: remove it with "),
                            settings::REMOVE_FORMAT.of(id)
                        ]
                    });
                let error = Error::usage("more than one format fits the input").file(shown);
                Err(error.found(reasons.join("; ")).help(help))
            }
        }
    }
}

/// Of an input that is only what names begin with: the first of these that is not of a format that nobody reads.
fn begun(unread: &dyn UnreadFormats, input: &Input) -> Option<String> {
    if input.is_directory() || input.is_file() {
        return None;
    }
    let start = format!("{}.", input.entry());
    let mut names = input.list("").ok()?;
    names.retain(|name| name.starts_with(&start));
    let is_read = |name: &&String| {
        let file = Input::within_store(input.store().clone(), name);
        matches!(unread.known(&file), Ok(None))
    };
    let name = names.iter().find(is_read).or(names.first())?;
    Some(input.display(name))
}
