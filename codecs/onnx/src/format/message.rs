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
    /// With the nodes of functions in the place of their calls.
    pub(crate) graph: Option<Graph>,
    /// Why functions that the model defines are still called.
    pub(crate) refusal: Option<String>,
    /// The fields that name the files of external data: where in the model each is, and the name.
    pub(crate) locations: Vec<(Range<u64>, String)>,
}

impl Model {
    /// The version of ONNX's own operator set.
    pub(crate) fn opset(&self) -> Option<i64> {
        own_opset(&self.opsets)
    }
}

fn own_opset(opsets: &[(String, i64)]) -> Option<i64> {
    let own = opsets.iter().filter(|(domain, _)| matches!(domain.as_str(), "" | "ai.onnx"));
    own.map(|(_, version)| *version).next_back()
}

/// `FunctionProto`.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) overload: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) nodes: Vec<Node>,
    /// The attributes that a call may leave out: `attribute_proto`.
    pub(crate) defaults: Vec<(String, Attribute)>,
    pub(crate) opsets: Vec<(String, i64)>,
}

impl Function {
    /// The version of ONNX's own operator set.
    pub(crate) fn opset(&self) -> Option<i64> {
        own_opset(&self.opsets)
    }
}

/// `GraphProto`.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    /// Which of the functions of one name it calls.
    pub(crate) overload: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<(String, Attribute)>,
    /// `metadata_props`.
    pub(crate) properties: Vec<(String, String)>,
    /// In `ai.onnx.ml`, the attributes that are lists of floats, as tensors with the attributes' names.
    pub(crate) lists: Vec<Tensor>,
}

/// `AttributeProto`.
#[derive(Clone, Debug)]
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
    /// In a function: the attribute of this name of its call.
    Reference(String),
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
    /// The bytes of the numbers in fields of their type.
    pub(crate) fn bytes(&self) -> u64 {
        self.typed.iter().map(|chunk| chunk.range.end.saturating_sub(chunk.range.start)).sum()
    }

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
#[derive(Clone, Debug, Default)]
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
