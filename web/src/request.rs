//! What the page asks for.

use serde::Deserialize;

/// A file that the person chose.
#[derive(Debug, Deserialize)]
pub(crate) struct ChosenFile {
    /// What the worker calls it.
    pub(crate) number: u32,
    /// Its path below what was chosen.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    /// When it was last written, in milliseconds since 1970.
    pub(crate) modified: f64,
}

/// Which of the two checkpoints that can be open.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// The one that is shown and converted.
    #[default]
    First,
    /// The one that it is compared with.
    Second,
}

/// How a checkpoint is opened.
#[derive(Debug, Deserialize)]
pub(crate) struct Opening {
    /// All files that were chosen.
    pub(crate) files: Vec<ChosenFile>,
    /// The one that is meant: a file, a directory, or what their names begin with.
    pub(crate) entry: String,
    #[serde(default)]
    pub(crate) side: Side,
    /// The format, if the person names it.
    #[serde(default)]
    pub(crate) format: Option<String>,
    /// Options for reading, `key=value` each.
    #[serde(default)]
    pub(crate) options: Vec<String>,
}

/// A plugin that is added.
#[derive(Debug, Deserialize)]
pub(crate) struct Plugging {
    /// Its file alone.
    pub(crate) files: Vec<ChosenFile>,
}

/// What to convert to, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Wanted {
    /// The format's id.
    pub(crate) to: String,
    /// What the output is called.
    pub(crate) name: String,
    /// Whether it is a directory, as other programs open a model.
    #[serde(default)]
    pub(crate) directory: bool,
    #[serde(default)]
    pub(crate) dtype: Option<String>,
    #[serde(default)]
    pub(crate) mapping: Option<String>,
    #[serde(default)]
    pub(crate) inverse: bool,
    #[serde(default)]
    pub(crate) keep_quantized: bool,
    #[serde(default)]
    pub(crate) include: Vec<String>,
    #[serde(default)]
    pub(crate) exclude: Vec<String>,
    /// Options for writing, `key=value` each.
    #[serde(default)]
    pub(crate) options: Vec<String>,
    /// Kinds of losses that are accepted.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    #[serde(default)]
    pub(crate) verify: bool,
}

/// How the graph is run.
#[derive(Debug, Deserialize)]
pub(crate) struct Running {
    /// Files of arrays; random numbers if there are none.
    #[serde(default)]
    pub(crate) files: Vec<ChosenFile>,
    /// What the numbers of the files are divided by.
    #[serde(default)]
    pub(crate) divide: Option<f32>,
    /// Random examples.
    pub(crate) batch: usize,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
    /// Length of the free axes but the first.
    #[serde(default)]
    pub(crate) length: Option<usize>,
}

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Which formats there are, and which mappings.
    Formats,
    /// Adds a plugin.
    Plug(Plugging),
    /// Opens a checkpoint.
    Open(Opening),
    /// The page on the open checkpoint; with all values read, or not.
    Contents { values: bool },
    /// Plans a conversion, which changes nothing.
    Plan(Wanted),
    /// Carries out what was planned last.
    Convert,
    /// Compares the two checkpoints.
    Compare,
    /// Runs the graph of the open checkpoint.
    Run(Running),
}
