//! Decides which files are written, from the output's name, the options and the source.

use crate::format::{Content, ID, KEY_PARTS, QUANTISED, RAW, StateFile};
use crate::net::architecture::Architecture;
use ckpt_api::{Checkpoint, Error, Options, Result, nearest};

/// The files to write.
pub(super) struct Target {
    /// The name of the single file, or the directory's name followed by a slash.
    name: String,
    pub(super) is_single: bool,
    /// The contents to write, sorted.
    pub(super) parts: Vec<Content>,
    /// What the source consisted of, if it was bullet's.
    pub(super) source_parts: Option<Vec<Content>>,
    /// The optimizer's file that the name of a single file stands for.
    pub(super) state: Option<StateFile>,
}

impl Target {
    pub(super) fn new(
        checkpoint: &Checkpoint,
        name: &str,
        options: &Options,
        architecture: Option<&Architecture>,
    ) -> Result<Self> {
        let source_parts = source_parts(checkpoint);
        let content = options.text("content").and_then(Content::from_name);
        let state = StateFile::from_name(name);
        let is_single =
            content.is_some() || state.is_some() || name.ends_with(".bin") || name.ends_with(".nnue");
        let chosen = options.list("parts");
        let mut parts = match (is_single, chosen) {
            (true, Some(_)) => {
                return Err(Error::usage("parts are for directories, but the output is a single file")
                    .field("parts")
                    .help("name its content with the option content, or name a directory as the output"));
            }
            (true, None) => {
                let by_source = || match source_parts.as_deref() {
                    Some([only]) => Some(*only),
                    _ => None,
                };
                let by_name = || content_by_name(name, state, architecture);
                vec![content.or_else(by_name).or_else(by_source).unwrap_or(Content::Quantised)]
            }
            (false, Some(words)) => words.into_iter().map(part).collect::<Result<Vec<Content>>>()?,
            (false, None) => directory_parts(source_parts.as_deref(), architecture),
        };
        parts.sort_unstable();
        parts.dedup();
        let name = if is_single || name.is_empty() { name.to_owned() } else { format!("{name}/") };
        Ok(Target { name, is_single, parts, source_parts, state })
    }

    /// Checks that every option that was given applies to what is written.
    pub(super) fn check_options(&self, options: &Options) -> Result<()> {
        let rules = [
            ("records", Content::State, "the optimizer's files"),
            ("padding", Content::Quantised, "quantised.bin"),
            ("profile", Content::Engine, "an engine file, as for a name that ends in .nnue"),
        ];
        let is_idle = |(name, content, _): &(&str, Content, &str)| {
            options.text(name).is_some() && !self.parts.contains(content)
        };
        match rules.into_iter().find(is_idle) {
            Some((name, _, expected)) => {
                let parts: Vec<&str> = self.parts.iter().map(|part| part.name()).collect();
                Err(Error::usage("the option has no effect on what is written")
                    .field(name)
                    .found(format!("an output of {}", parts.join(", ")))
                    .expected(expected)
                    .help("leave the option out, or write what it applies to"))
            }
            None => Ok(()),
        }
    }

    /// The path of a file in a folder of the directory, or the name of the single file.
    pub(super) fn path(&self, folder: &str, name: &str) -> String {
        if self.is_single { self.name.clone() } else { format!("{}{folder}{name}", self.name) }
    }

    /// The path of the output itself.
    pub(super) fn entry(&self) -> String {
        self.name.trim_end_matches('/').to_owned()
    }

    /// Whether the source was bullet's and had this content.
    pub(super) fn source_has(&self, content: Content) -> bool {
        self.source_parts.as_ref().is_some_and(|parts| parts.contains(&content))
    }
}

/// Returns what the source consisted of, from its metadata.
pub(super) fn source_parts(checkpoint: &Checkpoint) -> Option<Vec<Content>> {
    let parts = checkpoint.metadata.value(ID, KEY_PARTS)?.as_list()?;
    Some(parts.iter().filter_map(|part| Content::from_name(part.as_text()?)).collect())
}

/// Returns the content that the name of a single file stands for.
fn content_by_name(
    name: &str,
    state: Option<StateFile>,
    architecture: Option<&Architecture>,
) -> Option<Content> {
    let has_engine = architecture.is_some_and(|architecture| architecture.net.engine.is_some());
    match (state, name) {
        (Some(_), _) => Some(Content::State),
        (None, RAW) => Some(Content::Raw),
        (None, QUANTISED) => Some(Content::Quantised),
        (None, _) if has_engine && name.ends_with(".nnue") => Some(Content::Engine),
        _ => None,
    }
}

/// Returns the parts of a directory that the options do not choose: those of the source, or all that can be written.
fn directory_parts(source: Option<&[Content]>, architecture: Option<&Architecture>) -> Vec<Content> {
    match (source, architecture) {
        (Some(source), _) if !source.contains(&Content::Engine) => source.to_vec(),
        (_, Some(_)) => vec![Content::Raw, Content::Quantised, Content::State],
        (_, None) => vec![Content::State],
    }
}

fn part(word: &str) -> Result<Content> {
    let known = [Content::Raw, Content::Quantised, Content::State];
    known.into_iter().find(|content| content.name() == word).ok_or_else(|| {
        Error::usage("unknown part of a directory")
            .field("parts")
            .found(format!("'{word}'"))
            .help(nearest(word, known.iter().map(|content| content.name())))
    })
}
