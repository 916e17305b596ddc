//! Finds the index file from any of a checkpoint's files, its directory, or a SavedModel.

use crate::format::{INDEX, STATE_FILE, prefix_of_shard};
use crate::tf1::is_v1;
use crate::{state_file, table};
use ckpt_api::{Error, File, Input, Kind, Match, Result, first_few};

/// Names that a text lists.
const SHOWN: usize = 12;

const SAVED_MODEL: &str = "saved_model.pb";
/// What the name of a graph beside a checkpoint ends with.
const META_GRAPH: &str = ".meta";
const KERAS_METADATA: &str = "keras_metadata.pb";
const VARIABLES: &str = "variables/variables";

/// The files of a checkpoint, relative to the input's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Prefix of the names of all files.
    pub(crate) prefix: String,
    /// The index file.
    pub(crate) index: String,
    /// `saved_model.pb`, if the input is a SavedModel.
    pub(crate) saved_model: Option<String>,
    /// Whether the SavedModel has no variables, and so no index.
    pub(crate) is_without_variables: bool,
    /// `PREFIX.meta`, the graph that `tf.train.Saver` writes beside a checkpoint.
    pub(crate) meta_graph: Option<String>,
    /// `keras_metadata.pb`, if the SavedModel has one.
    pub(crate) keras_metadata: Option<String>,
    /// How the index was found, as the end of a sentence; empty if the user named one of the files.
    pub(crate) how: &'static str,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

impl Location {
    fn new(prefix: &str, how: &'static str) -> Self {
        Location {
            prefix: prefix.to_owned(),
            index: format!("{prefix}{INDEX}"),
            saved_model: None,
            is_without_variables: false,
            meta_graph: None,
            keras_metadata: None,
            how,
            notes: Vec::new(),
        }
    }
}

/// Finds the index file.
///
/// # Errors
/// [`Kind::Usage`] if the input could be several checkpoints, [`Kind::Io`] if there is none, [`Kind::Corrupt`] for a
/// state file that cannot be parsed or names no existing checkpoint.
pub(crate) fn locate(input: &Input) -> Result<Location> {
    let location = match input.is_directory() {
        true => in_directory(input)?.ok_or_else(|| {
            Error::new(Kind::Io, "the directory contains no TensorFlow checkpoint")
                .file(input.display(""))
                .expected("a file 'checkpoint', a PREFIX.index, or variables/variables.index")
        })?,
        false => by_name(input, input.entry())?,
    };
    let graph = format!("{}{META_GRAPH}", location.prefix);
    let meta_graph = (location.saved_model.is_none() && input.has_file(&graph)).then_some(graph);
    Ok(Location { meta_graph, ..location })
}

fn by_name(input: &Input, entry: &str) -> Result<Location> {
    if entry == STATE_FILE && input.is_file() && !has_table(input, entry)? {
        return by_state_file(input);
    }
    if entry == SAVED_MODEL && input.has_file(&format!("{VARIABLES}{INDEX}")) {
        return Ok(saved_model(input));
    }
    if let Some(prefix) = entry.strip_suffix(INDEX) {
        return Ok(Location::new(prefix, ""));
    }
    if entry == SAVED_MODEL && input.is_file() && begins_as_saved_model(&input.file(entry)?)? {
        return Ok(without_variables(input));
    }
    let graph_prefix = entry.strip_suffix(META_GRAPH).filter(|_| input.is_file());
    if let Some(prefix) = graph_prefix.filter(|prefix| input.has_file(&format!("{prefix}{INDEX}")))
        && begins_as_meta_graph(&input.file(entry)?)?
    {
        return Ok(Location::new(prefix, ""));
    }
    let prefix = prefix_of_shard(entry).unwrap_or(entry);
    let location = Location::new(prefix, "");
    if !input.has_file(&location.index) && input.is_file() && has_table(input, entry)? {
        return Ok(Location {
            index: entry.to_owned(),
            how: ", the only file of a V1 checkpoint",
            ..location
        });
    }
    Ok(location)
}

/// Whether a file begins as a `MetaGraphDef`: with what describes its graph, or with the graph.
fn begins_as_meta_graph(file: &File) -> Result<bool> {
    const FIRST_FIELDS: [u8; 2] = [0x0a, 0x12];
    Ok(file.bytes(0, file.len().min(1))?.first().is_some_and(|first| FIRST_FIELDS.contains(first)))
}

/// Returns whether the input is a checkpoint, and why.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let located = match input.is_directory() {
        true => in_directory(input),
        false => by_name(input, input.entry()).map(Some),
    };
    let location = match located {
        Ok(Some(location)) => location,
        Ok(None) => return Ok(Match::No),
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Err(error) => return Ok(Match::Possible(error.to_string())),
    };
    if location.is_without_variables {
        return Ok(Match::Certain(format!("{SAVED_MODEL} is a SavedModel without variables")));
    }
    // The other codec of this crate reads V1 checkpoints, if the user names the file itself.
    if input.is_file() && location.index == input.entry() && is_v1(&input.file(&location.index)?)? {
        return Ok(Match::No);
    }
    // LevelDB's tables have the same magic number.
    let is_leveldb = [".ldb", ".sst"].iter().any(|ending| location.index.ends_with(ending));
    match input.has_file(&location.index) && has_table(input, &location.index)? {
        true if is_leveldb => {
            Ok(Match::Possible(format!("{} is a table, possibly of LevelDB", location.index)))
        }
        true => Ok(Match::Certain(format!("{} is a TensorFlow index{}", location.index, location.how))),
        false => Ok(damaged(input, &location)?.map_or(Match::No, Match::Possible)),
    }
}

/// Returns why a file without an index's magic number may still be an index that was cut short.
fn damaged(input: &Input, location: &Location) -> Result<Option<String>> {
    let Location { index, prefix, .. } = location;
    if !input.has_file(index) {
        return Ok(None);
    }
    let why = match table::begins_with_header(&input.file(index)?)? {
        true => "begins like a TensorFlow index",
        false if has_data(input, prefix) => "is beside data files of the same name",
        false => return Ok(None),
    };
    Ok(Some(format!("{index} {why}, but does not end like an index")))
}

fn has_data(input: &Input, prefix: &str) -> bool {
    let (directory, prefix) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let names = input.list(directory).unwrap_or_default();
    names.iter().any(|name| prefix_of_shard(name) == Some(prefix))
}

fn has_table(input: &Input, name: &str) -> Result<bool> {
    table::has_magic(&input.file(name)?)
}

/// Finds the checkpoint in a directory. Returns `None` if there is none.
fn in_directory(input: &Input) -> Result<Option<Location>> {
    if input.has_file(&format!("{VARIABLES}{INDEX}")) {
        return Ok(Some(saved_model(input)));
    }
    if input.has_file(STATE_FILE) && !has_table(input, STATE_FILE)? {
        return by_state_file(input).map(Some);
    }
    let prefixes = prefixes(input)?;
    match &prefixes[..] {
        // `tf.train.Checkpoint.write` names files after a directory with an empty prefix.
        [prefix] => Ok(Some(Location::new(prefix, ", the directory's only index"))),
        [] if input.has_file(SAVED_MODEL) && begins_as_saved_model(&input.file(SAVED_MODEL)?)? => {
            Ok(Some(without_variables(input)))
        }
        [] => Ok(None),
        several => Err(Error::usage(
            "the directory contains several checkpoints, and no file 'checkpoint' names the latest",
        )
        .file(input.display(""))
        .found(first_few(shown(several), SHOWN))
        .help("name one of them")),
    }
}

/// Whether a file begins as a `SavedModel`: with its version, or with a graph.
fn begins_as_saved_model(file: &File) -> Result<bool> {
    let head = file.bytes(0, file.len().min(2))?;
    Ok(matches!(head[..], [0x08, ..=1] | [0x12, _]))
}

fn without_variables(input: &Input) -> Location {
    Location { is_without_variables: true, ..saved_model(input) }
}

fn saved_model(input: &Input) -> Location {
    let existing = |name: &str| input.has_file(name).then(|| name.to_owned());
    Location {
        saved_model: existing(SAVED_MODEL),
        keras_metadata: existing(KERAS_METADATA),
        ..Location::new(VARIABLES, ", in a SavedModel")
    }
}

fn by_state_file(input: &Input) -> Result<Location> {
    let file = input.file(STATE_FILE)?;
    let path = state_file::latest(&file)?;
    let exists = |prefix: &String| {
        input.has_file(&format!("{prefix}{INDEX}")) || (prefix != STATE_FILE && input.has_file(prefix))
    };
    let named = state_file::relative(&path).filter(exists);
    let beside = || state_file::file_name(&path).map(str::to_owned).filter(exists);
    let how = ", named by the file 'checkpoint'";
    let mut location = match (named, beside) {
        (Some(prefix), _) => Location::new(&prefix, how),
        (None, beside) => {
            let prefix = match beside() {
                Some(prefix) => prefix,
                None => only(input, &path)?,
            };
            let mut location = Location::new(&prefix, how);
            location.notes.push(format!(
                "the state file names '{}'; '{prefix}' beside the state file was read instead",
                path.escape_debug()
            ));
            location
        }
    };
    if !input.has_file(&location.index) {
        location.index.clone_from(&location.prefix);
    }
    Ok(location)
}

/// Returns the only checkpoint of a directory whose state file names one that is gone.
fn only(input: &Input, path: &str) -> Result<String> {
    let message = "the file 'checkpoint' names a checkpoint that is not in its directory";
    let known = prefixes(input)?;
    let leads_out = path.split(['/', '\\']).any(|part| part == "..");
    let (error, help) = match &known[..] {
        [prefix] if !leads_out => return Ok(prefix.clone()),
        [] => {
            let help = "the checkpoint was moved or removed: name the checkpoint itself";
            (Error::corrupt(message), help.to_owned())
        }
        known => {
            let known = first_few(shown(known), SHOWN);
            let error = if leads_out { Error::corrupt(message) } else { Error::usage(message) };
            (error, format!("name the checkpoint itself; the directory contains {known}"))
        }
    };
    Err(error
        .file(input.display(STATE_FILE))
        .field("model_checkpoint_path")
        .found(format!("'{}'", path.escape_debug()))
        .help(help))
}

fn prefixes(input: &Input) -> Result<Vec<String>> {
    let names = input.list("")?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(INDEX)).map(str::to_owned).collect())
}

/// Prefixes as people can name them: an empty one by its index.
fn shown(prefixes: &[String]) -> Vec<String> {
    let shown = |prefix: &String| if prefix.is_empty() { INDEX.to_owned() } else { prefix.clone() };
    prefixes.iter().map(shown).collect()
}
