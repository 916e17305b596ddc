//! The messages of a model, without the bytes of its tensors.

use std::ops::Range;

/// `ModelProto`.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) ir_version: i64,
    /// `producer_name`, `producer_version`, `domain`, `doc_string`, in this order, if they are not empty.
    pub(crate) texts: Vec<(&'static str, String)>,
    pub(crate) model_version: i64,
    /// The versions of the operator sets, by domain.
    pub(crate) opsets: Vec<(String, i64)>,
    /// `metadata_props`.
    pub(crate) properties: Vec<(String, String)>,
    /// Functions that the model defines.
    pub(crate) functions: usize,
    pub(crate) graph: Option<Graph>,
    /// The fields that name the files of external data: where in the model each is, and the name.
    pub(crate) locations: Vec<(Range<u64>, String)>,
}

impl Model {
    /// The version of ONNX's own operator set.
    pub(crate) fn opset(&self) -> Option<i64> {
        let own = self.opsets.iter().filter(|(domain, _)| matches!(domain.as_str(), "" | "ai.onnx"));
        own.map(|(_, version)| *version).next_back()
    }
}

/// `GraphProto`.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The whole field, with its tag.
    pub(crate) span: Range<u64>,
    /// The message.
    pub(crate) body: Range<u64>,
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) initializers: Vec<Tensor>,
    /// Names of sparse initializers.
    pub(crate) sparse: Vec<String>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) values: Vec<Value>,
}

impl Graph {
    /// The graph and those within its nodes.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &Graph> {
        let mut open = vec![self];
        std::iter::from_fn(move || {
            let graph = open.pop()?;
            let within: Vec<&Graph> = graph.nodes.iter().flat_map(Node::graphs).collect();
            open.extend(within.into_iter().rev());
            Some(graph)
        })
    }
}

impl Node {
    /// The graphs among its attributes.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.iter().filter_map(|(_, attribute)| match attribute {
            Attribute::Graph(graph) => Some(&**graph),
            _ => None,
        })
    }
}

/// `NodeProto`.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<(String, Attribute)>,
    /// `metadata_props`.
    pub(crate) properties: Vec<(String, String)>,
}

/// `AttributeProto`.
#[derive(Debug)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(Vec<u8>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<Vec<u8>>),
    /// Floats, integers or texts, too many for an attribute of a layer: of these, only whether they are floats is known.
    Long {
        is_float: bool,
    },
    Tensor(Box<Tensor>),
    Graph(Box<Graph>),
    /// A graph that nests deeper than graphs are read.
    Deep,
    /// Graphs, or something else that no supported operator has.
    Other,
}

/// `TensorProto`, without its bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensor {
    /// The whole field, with its tag.
    pub(crate) span: Range<u64>,
    /// The message.
    pub(crate) body: Range<u64>,
    pub(crate) name: String,
    pub(crate) dims: Vec<i64>,
    pub(crate) data_type: i64,
    /// The bytes of `raw_data`.
    pub(crate) raw: Option<Range<u64>>,
    /// Numbers in the fields of a type each.
    pub(crate) typed: Vec<Chunk>,
    /// Number of strings.
    pub(crate) strings: usize,
    /// Where the external data is, each pair with the place of its field.
    pub(crate) external: Vec<(String, String, Range<u64>)>,
    pub(crate) location: i64,
}

impl Tensor {
    /// Whether the bytes are in another file.
    pub(crate) fn is_external(&self) -> bool {
        self.location == 1
    }
}

/// Numbers of a typed field that are one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// The field's number.
    pub(crate) field: u64,
    /// Bytes of the tag before each number; 0 for packed numbers.
    pub(crate) tag_bytes: u8,
    /// The numbers, with the tags before each where they are not packed.
    pub(crate) range: Range<u64>,
    /// The whole field or fields.
    pub(crate) span: Range<u64>,
}

impl Chunk {
    /// Whether the bytes of the range are the elements.
    pub(crate) fn is_plain(&self) -> bool {
        self.tag_bytes == 0 && matches!(self.field, 4 | 10)
    }
}

/// `ValueInfoProto` of a tensor.
#[derive(Debug, Default)]
pub(crate) struct Value {
    pub(crate) name: String,
    /// Number of the data type; 0 for what is no tensor.
    pub(crate) data_type: i64,
    /// `None` if the rank is not stated.
    pub(crate) shape: Option<Vec<Dimension>>,
}

/// The length of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Known(u64),
    Named(String),
    Free,
}
