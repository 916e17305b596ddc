//! What a codec is: its format, its options, and what it decodes by itself.

use super::document::Document;
use super::operators::OperatorForm;
use ckpt_api::{
    Aspect, Blocks, Codec, DType, Decoder, DecoderUnit, Error, FormatInfo, Network, Op, OptionKind,
    OptionSpec, Result, Side,
};
use serde::{Deserialize, Serialize};

/// Bytes of a name in a description.
const MOST_NAME: usize = 256;
/// Bytes of a text of a description.
const MOST_TEXT: usize = 4096;
/// Elements of a list of a description.
const MOST_ELEMENTS: usize = 1024;

/// Everything that is known of a codec before it is given an input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The codec's own version, as its author counts them.
    pub version: String,
    /// What the format is and can hold.
    pub format: FormatForm,
    /// The block encodings that reading gives tensors. Functions number them from 0.
    #[serde(default)]
    pub blocks: Vec<Document<Blocks>>,
    /// The decoders of compressed extents. Functions number them from 0.
    #[serde(default)]
    pub decoders: Vec<DecoderForm>,
    /// The operators beyond ONNX's that the format's graphs use. Functions number them from 0.
    #[serde(default)]
    pub operators: Vec<OperatorForm>,
}

/// The form of a [`FormatInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FormatForm {
    /// Short name, as `--from` and `--to` take it.
    pub id: String,
    /// Full name.
    pub title: String,
    /// File name endings, without the dot.
    pub extensions: Vec<String>,
    /// Networks that are read, by name.
    pub reads: Vec<String>,
    /// Networks that are written, by name.
    pub writes: Vec<String>,
    /// Dtypes that can be written as they are.
    pub dtypes: Vec<Document<DType>>,
    /// Names of the operators that can be written.
    pub ops: Vec<String>,
    /// Whether tensors can have any name.
    pub free_names: bool,
    /// The framework whose files these are.
    pub framework: Option<String>,
    /// What comes back when a file of the format is read.
    pub keeps: Vec<Document<Aspect>>,
    /// The options that the codec knows.
    pub options: Vec<OptionForm>,
    /// Whether the format's own metadata describes the model.
    pub describes_models: bool,
    /// Whether the codec stores weights quantized by itself.
    pub quantizes_itself: bool,
    /// Names of files that an output can have beside the one that the user names.
    pub fixed_names: Vec<String>,
    /// The file that holds the graph, if a model of the format is a directory.
    pub graph_file: Option<String>,
    /// What the tensors are called in a directory that other programs open.
    pub directory_file: Option<String>,
    /// The ending of files that hold one array and not its name.
    pub unnamed_array: Option<String>,
}

/// The form of an [`OptionSpec`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionForm {
    /// The key.
    pub name: String,
    /// What values it takes.
    pub kind: OptionKindForm,
    /// When it applies.
    pub side: Document<Side>,
    /// What it does, in one line, with the default.
    pub help: String,
}

/// The form of an [`OptionKind`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionKindForm {
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(Vec<String>),
    /// A number of bytes.
    Size,
    /// A number of things.
    Count,
    /// Any text.
    Text,
    /// Words separated by commas.
    List,
}

/// A decoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderForm {
    /// Its name in plans and messages.
    pub name: String,
    /// What it decodes at once.
    pub kind: DecoderKindForm,
    /// Bytes of memory of a stream, beyond half a mebibyte.
    #[serde(default)]
    pub memory: u64,
}

/// What a decoder decodes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderKindForm {
    /// The bytes of an extent, one after the other.
    Stream,
    /// All bytes of an extent.
    Whole,
    /// Any bytes of an extent, which are as many as are stored.
    InPlace,
}

impl Description {
    /// The description of a codec of this version.
    pub fn of(codec: &dyn Codec, version: &str) -> Self {
        Description {
            version: version.to_owned(),
            format: FormatForm::from(codec.info()),
            blocks: codec.block_encodings().iter().cloned().map(Document).collect(),
            decoders: codec.decoders().iter().map(|decoder| DecoderForm::from(*decoder)).collect(),
            operators: codec.ops().iter().map(OperatorForm::from).collect(),
        }
    }

    /// Checks what [`FormatForm::into_info`] does, and that the names of block encodings begin with the format's id, and that no
    /// two of them, or of decoders, have one name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`], with the name.
    pub fn check(&self) -> Result<()> {
        self.format.check()?;
        check_text("version", &self.version, MOST_NAME)?;
        let start = format!("{}.", self.format.id);
        let blocks = self.blocks.iter().map(|Document(blocks)| blocks.name());
        check_names("block encoding", blocks.clone())?;
        if let Some(odd) = blocks.clone().find(|name| !name.starts_with(&start)) {
            return Err(refused("a block encoding has a name of another format").found(format!("'{odd}'")));
        }
        check_names("decoder", self.decoders.iter().map(|decoder| decoder.name.as_str()))?;
        check_names("operator", self.operators.iter().map(|operator| operator.name.as_str()))?;
        self.operators.iter().try_for_each(check_operator)
    }
}

impl From<&Decoder> for DecoderForm {
    fn from(decoder: &Decoder) -> Self {
        let (kind, memory) = match decoder.unit() {
            DecoderUnit::Stream { memory } => (DecoderKindForm::Stream, memory),
            DecoderUnit::Whole => (DecoderKindForm::Whole, 0),
            DecoderUnit::InPlace => (DecoderKindForm::InPlace, 0),
        };
        DecoderForm { name: decoder.name().to_owned(), kind, memory }
    }
}

impl From<&FormatInfo> for FormatForm {
    fn from(info: &FormatInfo) -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let networks =
            |networks: &[Network]| networks.iter().map(|network| network.name().to_owned()).collect();
        FormatForm {
            id: info.id.to_owned(),
            title: info.title.to_owned(),
            extensions: texts(info.extensions),
            reads: networks(info.reads),
            writes: networks(info.writes),
            dtypes: info.dtypes.iter().copied().map(Document).collect(),
            ops: info.ops.iter().map(|op| op.name().to_owned()).collect(),
            free_names: info.free_names,
            framework: info.framework.map(str::to_owned),
            keeps: info.keeps.iter().copied().map(Document).collect(),
            options: info.options.iter().map(OptionForm::from).collect(),
            describes_models: info.describes_models,
            quantizes_itself: info.quantizes_itself,
            fixed_names: texts(info.fixed_names),
            graph_file: info.graph_file.map(str::to_owned),
            directory_file: info.directory_file.map(str::to_owned),
            unnamed_array: info.unnamed_array.map(str::to_owned),
        }
    }
}

impl From<&OptionSpec> for OptionForm {
    fn from(spec: &OptionSpec) -> Self {
        let kind = match spec.kind {
            OptionKind::Flag => OptionKindForm::Flag,
            OptionKind::Choice(words) => {
                OptionKindForm::Choice(words.iter().map(|word| (*word).to_owned()).collect())
            }
            OptionKind::Size => OptionKindForm::Size,
            OptionKind::Count => OptionKindForm::Count,
            OptionKind::List => OptionKindForm::List,
            _ => OptionKindForm::Text,
        };
        OptionForm { name: spec.name.to_owned(), kind, side: Document(spec.side), help: spec.help.to_owned() }
    }
}

impl FormatForm {
    /// The format's description. It stays in memory until the process ends, as those of formats that are part of the program
    /// do: a few kilobytes for each codec.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for an id, an ending or an option that no program could use: the id is lowercase letters,
    /// digits, `-` and `_`; endings have no dot; options differ and are explained.
    pub fn into_info(self) -> Result<&'static FormatInfo> {
        self.check()?;
        let mut info = FormatInfo::new(leak(self.id), leak(self.title))
            .with_extensions(leak_all(self.extensions))
            .with_reads(networks(self.reads))
            .with_writes(networks(self.writes))
            .with_dtypes(leak_list(self.dtypes.into_iter().map(|Document(dtype)| dtype).collect()))
            .with_ops(leak_list(self.ops.into_iter().map(Op::from).collect()))
            .with_keeps(leak_list(self.keeps.into_iter().map(|Document(aspect)| aspect).collect()))
            .with_options(leak_list(self.options.into_iter().map(OptionForm::into_spec).collect()))
            .with_fixed_names(leak_all(self.fixed_names));
        info.free_names = self.free_names;
        info.describes_models = self.describes_models;
        info.quantizes_itself = self.quantizes_itself;
        info.framework = self.framework.map(leak);
        info.graph_file = self.graph_file.map(leak);
        info.directory_file = self.directory_file.map(leak);
        info.unnamed_array = self.unnamed_array.map(leak);
        Ok(Box::leak(Box::new(info)))
    }

    fn check(&self) -> Result<()> {
        let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if self.id.is_empty() || !self.id.chars().all(is_id) {
            return Err(refused("a format has an id that cannot be used")
                .found(format!("'{}'", self.id.escape_debug()))
                .expected("lowercase letters, digits, - and _"));
        }
        check_text("id", &self.id, MOST_NAME)?;
        check_text("title", &self.title, MOST_NAME)?;
        check_names("extension", self.extensions.iter().map(String::as_str))?;
        let is_odd = |ending: &&String| {
            ending.starts_with('.') || ending.contains('/') || ending.to_ascii_lowercase() != **ending
        };
        if let Some(odd) = self.extensions.iter().find(is_odd) {
            return Err(refused("an ending of file names cannot be used")
                .found(format!("'{}'", odd.escape_debug()))
                .expected("lowercase, without a leading dot"));
        }
        for names in [&self.reads, &self.writes, &self.ops, &self.fixed_names] {
            check_names("name", names.iter().map(String::as_str))?;
        }
        let single = [&self.framework, &self.graph_file, &self.directory_file, &self.unnamed_array];
        single.into_iter().flatten().try_for_each(|name| check_text("name", name, MOST_NAME))?;
        check_count("dtype", self.dtypes.len())?;
        check_count("aspect", self.keeps.len())?;
        check_names("option", self.options.iter().map(|option| option.name.as_str()))?;
        self.options.iter().try_for_each(OptionForm::check)
    }
}

impl OptionForm {
    fn check(&self) -> Result<()> {
        check_text("help of an option", &self.help, MOST_TEXT)?;
        match &self.kind {
            OptionKindForm::Choice(words) => check_names("word", words.iter().map(String::as_str)),
            _ => Ok(()),
        }
    }

    fn into_spec(self) -> OptionSpec {
        let kind = match self.kind {
            OptionKindForm::Flag => OptionKind::Flag,
            OptionKindForm::Choice(words) => OptionKind::Choice(leak_all(words)),
            OptionKindForm::Size => OptionKind::Size,
            OptionKindForm::Count => OptionKind::Count,
            OptionKindForm::Text => OptionKind::Text,
            OptionKindForm::List => OptionKind::List,
        };
        OptionSpec::new(leak(self.name), kind, self.side.0, leak(self.help))
    }
}

fn check_operator(operator: &OperatorForm) -> Result<()> {
    check_count("input", operator.inputs.len())?;
    check_names("role", operator.parameters.iter().map(|parameter| parameter.role.as_str()))?;
    check_names("attribute", operator.attributes.iter().map(String::as_str))?;
    let indices = operator.inputs.iter().filter_map(|input| input.index.as_ref());
    let lists = operator.parameters.iter().flat_map(|parameter| [&parameter.axes, &parameter.optional_axes]);
    let lists = lists.chain(indices.map(|index| &index.axes));
    lists.into_iter().try_for_each(|axes| check_count("axis", axes.len()))
}

fn networks(names: Vec<String>) -> &'static [Network] {
    leak_list(names.into_iter().map(|name| Network::new(leak(name))).collect())
}

fn leak(text: String) -> &'static str {
    text.leak()
}

fn leak_all(texts: Vec<String>) -> &'static [&'static str] {
    leak_list(texts.into_iter().map(leak).collect())
}

fn leak_list<T>(list: Vec<T>) -> &'static [T] {
    list.leak()
}

/// Checks that names are usable and differ.
fn check_names<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut known = std::collections::BTreeSet::new();
    for name in names {
        check_text(what, name, MOST_NAME)?;
        if !known.insert(name) {
            return Err(refused("a codec states a name twice")
                .field(what.to_owned())
                .found(format!("'{name}'")));
        }
    }
    check_count(what, known.len())
}

fn check_count(what: &str, count: usize) -> Result<()> {
    match count <= MOST_ELEMENTS {
        true => Ok(()),
        false => Err(refused("a codec states too many names")
            .field(what.to_owned())
            .found(count.to_string())
            .expected(format!("at most {MOST_ELEMENTS}"))),
    }
}

/// Checks that a text is one line that can be shown.
fn check_text(what: &str, text: &str, most: usize) -> Result<()> {
    let is_shown = !text.is_empty() && text.len() <= most && !text.contains(char::is_control);
    match is_shown {
        true => Ok(()),
        false => Err(refused("a text of a codec cannot be shown")
            .field(what.to_owned())
            .found(format!("'{}'", text.chars().take(64).collect::<String>().escape_debug()))
            .expected(format!("a line of 1 to {most} bytes"))),
    }
}

fn refused(message: &str) -> Error {
    Error::unsupported(message)
}
