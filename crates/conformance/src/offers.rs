//! Checkpoints with what other formats have: dtypes, numbers, shapes, names, meanings, metadata, graphs.

use crate::reading::Reading;
use ckpt_api::{
    Affine, Attribute, Axis, Checkpoint, DType, Graph, Metadata, MetadataValue, Node, Op, Quantization,
    Result, Role, Shape, Slot, Tensor, Value,
};
use std::num::NonZeroU32;

/// A checkpoint that is offered to a codec.
pub(crate) struct Offer {
    /// What is special about it.
    pub(crate) what: String,
    /// Whether it is a sample's with additions: then it is read again as the sample is.
    pub(crate) is_sample: bool,
    pub(crate) checkpoint: Checkpoint,
    /// One for each tensor, as [`super::read`] returns them.
    pub(crate) values: Vec<Vec<u8>>,
}

/// Every offer: a plain checkpoint and a sample's, each with additions.
pub(crate) fn offers((contents, values): &Reading) -> Vec<Offer> {
    let sample = Offer {
        what: String::new(),
        is_sample: true,
        checkpoint: contents.checkpoint.clone(),
        values: values.clone(),
    };
    let mut offers = vec![plain()];
    offers.extend(DType::ALL.iter().map(|dtype| of_dtype(*dtype)));
    offers.push(shapes());
    offers.push(names());
    for (of, base) in [("", plain()), (" beside the sample's", sample)] {
        for (what, add) in ADDITIONS {
            let mut offer = base.copy(&format!("{what}{of}"));
            if add(&mut offer).is_some() {
                offers.push(offer);
            }
        }
    }
    offers
}

impl Offer {
    fn copy(&self, what: &str) -> Self {
        Offer {
            what: what.to_owned(),
            is_sample: self.is_sample,
            checkpoint: self.checkpoint.clone(),
            values: self.values.clone(),
        }
    }

    fn empty(what: impl Into<String>) -> Self {
        Offer { what: what.into(), is_sample: false, checkpoint: Checkpoint::default(), values: Vec::new() }
    }

    fn push(&mut self, name: &str, dtype: DType, dims: &[u64], value: Vec<u8>) {
        let Ok(shape) = Shape::new(dims) else { return };
        self.checkpoint.tensors.push(Tensor::new(name, dtype, shape));
        self.values.push(value);
    }
}

/// A matrix and a vector of floats, with every number that is easy to lose.
fn plain() -> Offer {
    let mut offer = Offer::empty("special numbers");
    let bits = [0x7fc0_1234u32, 0xff80_0001, f32::INFINITY.to_bits(), 0xff80_0000, 0x8000_0000, 1];
    offer.push(
        "foreign/kernel",
        DType::F32,
        &[2, 3],
        bits.iter().flat_map(|bits| bits.to_le_bytes()).collect(),
    );
    offer.push("foreign/bias", DType::F32, &[3], floats(&[0.5, -1e30, 3.0]));
    offer
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Five elements of one dtype: zero, the highest and the lowest bit alone, all bits, others.
fn of_dtype(dtype: DType) -> Offer {
    let mut offer = Offer::empty(format!("a tensor of {dtype}"));
    let Some(bits) = dtype.bits() else {
        // Protocol buffers, which elements of variants are.
        offer.push("foreign/tensor", dtype, &[3], b"\x0a\x01t\x0a\x03abc".to_vec());
        offer.checkpoint.tensors.iter_mut().for_each(|tensor| tensor.lengths = Some([3, 0, 5].into()));
        return offer;
    };
    let all = u128::MAX >> (128 - bits);
    let patterns = match dtype {
        DType::Bool => [0, 1, 1, 0, 1],
        _ => [0, 1 << (bits - 1), 1, all, 0x5a5a_a5a5_1234_4321_5a5a_a5a5_1234_4321 & all],
    };
    let size = bits.div_ceil(8) as usize;
    let value = patterns.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect();
    offer.push("foreign/tensor", dtype, &[5], value);
    offer
}

fn shapes() -> Offer {
    let mut offer = Offer::empty("scalars and empty tensors");
    offer.push("foreign/scalar", DType::F32, &[], floats(&[1.5]));
    offer.push("foreign/empty", DType::F32, &[0], Vec::new());
    offer.push("foreign/none", DType::F32, &[2, 0, 3], Vec::new());
    offer.push("foreign/deep", DType::F32, &[1, 2, 1, 1, 2], floats(&[1.0, 2.0, 3.0, 4.0]));
    offer
}

fn names() -> Offer {
    let mut offer = Offer::empty("unusual names");
    let long = "long".repeat(50);
    let names = ["a b", "ünï", "a.b/c:0", "\"quoted\"\\", "..", "tab\t", "W", "w", &long];
    for (k, name) in names.into_iter().enumerate() {
        offer.push(name, DType::F32, &[1], floats(&[k as f32]));
    }
    offer
}

/// What is added, and how; `None` if the checkpoint has no place for it.
type Addition = (&'static str, fn(&mut Offer) -> Option<()>);

const ADDITIONS: [Addition; 15] = [
    ("a tensor more", |offer| {
        offer.push("foreign/more", DType::F32, &[2], floats(&[1.0, 2.0]));
        Some(())
    }),
    ("metadata", |offer| {
        describe(&mut offer.checkpoint.metadata);
        Some(())
    }),
    ("metadata beyond JSON", |offer| {
        describe_beyond_json(&mut offer.checkpoint.metadata);
        Some(())
    }),
    ("metadata of a tensor", |offer| {
        describe(&mut offer.checkpoint.tensors.first_mut()?.metadata);
        Some(())
    }),
    ("a graph", |offer| add_graph(offer, Numbers::Finite)),
    ("a graph with NaN and infinities", |offer| add_graph(offer, Numbers::Special)),
    ("axes", |offer| {
        let bare = |tensor: &&mut Tensor| tensor.axes.is_none() && tensor.shape.rank() == 2;
        let tensor = offer.checkpoint.tensors.iter_mut().find(bare)?;
        tensor.axes = Some([Axis::In, Axis::Out].into());
        Some(())
    }),
    ("roles", |offer| {
        let is_weight = |tensor: &&mut Tensor| tensor.role == Role::Weight && tensor.slot.is_none();
        offer.checkpoint.tensors.iter_mut().rfind(is_weight)?.role = Role::Counter;
        Some(())
    }),
    ("a slot", |offer| {
        let (mut tensor, value) = (offer.checkpoint.tensors.first()?.clone(), offer.values.first()?.clone());
        let variable = std::mem::replace(&mut tensor.name, "foreign/slot".into());
        (tensor.role, tensor.slot) =
            (Role::Optimizer, Some(Box::new(Slot { variable, name: "m".to_owned() })));
        tensor.metadata = Metadata::default();
        offer.checkpoint.tensors.push(tensor);
        offer.values.push(value);
        Some(())
    }),
    ("a scale of 1", |offer| add_scaled(offer, 1)),
    ("a scale of 3", |offer| add_scaled(offer, 3)),
    ("a scale of 64", |offer| add_scaled(offer, 64)),
    ("the largest scale", |offer| add_scaled(offer, u32::MAX)),
    ("a scale and a zero point", |offer| add_affine(offer, Affine::new([0.1], [3.0], None))),
    ("scales of an axis", |offer| add_affine(offer, Affine::new([0.1, 0.2], [0.0, 1.0], Some(0)))),
];

/// A tensor of integers of which `scale` stands for 1.0.
fn add_scaled(offer: &mut Offer, scale: u32) -> Option<()> {
    offer.push("foreign/scaled", DType::I8, &[2], vec![1, 0xff]);
    let scale = NonZeroU32::new(scale)?;
    offer.checkpoint.tensors.last_mut()?.quantization = Some(Quantization::Units { scale });
    Some(())
}

/// A tensor of integers with scales and zero points.
fn add_affine(offer: &mut Offer, affine: Result<Affine>) -> Option<()> {
    offer.push("foreign/affine", DType::I8, &[2], vec![1, 0xff]);
    offer.checkpoint.tensors.last_mut()?.quantization = Some(affine.ok()?.into());
    Some(())
}

/// Values of every kind that JSON has, under the id of a format that does not exist.
fn describe(metadata: &mut Metadata) {
    metadata.insert("foreign", "text", "ä \"quoted\" \\ text\n");
    metadata.insert("foreign", "smallest", i64::MIN);
    metadata.insert("foreign", "largest", u64::MAX);
    metadata.insert("foreign", "number", 0.1);
    metadata.insert("foreign", "flag", true);
    metadata.insert("foreign", "list", vec![1, 2, 3]);
}

/// Values that JSON alone loses: other widths, NaN, infinities, the sign of zero, bytes.
fn describe_beyond_json(metadata: &mut Metadata) {
    metadata.insert("foreign", "nan", f64::NAN);
    metadata.insert("foreign", "infinity", f32::NEG_INFINITY);
    metadata.insert("foreign", "zero", -0.0);
    metadata.insert("foreign", "width", 5u16);
    metadata.insert("foreign", "bytes", MetadataValue::Bytes(vec![0, 0xff]));
    metadata.insert("foreign", "key $", MetadataValue::List(vec![MetadataValue::Null]));
}

#[derive(Clone, Copy, PartialEq)]
enum Numbers {
    Finite,
    Special,
}

/// One layer that takes the first tensor as its weight, with attributes of every kind.
fn add_graph(offer: &mut Offer, numbers: Numbers) -> Option<()> {
    if offer.checkpoint.graph.is_some() {
        return None;
    }
    let weight = offer.checkpoint.tensors.first()?.name.clone();
    let value = |name: &str| Value::new(name, vec![None, Some(3)]);
    let mut attributes = vec![
        ("integer", Attribute::Int(i64::MIN)),
        ("number", Attribute::Float(0.1)),
        ("text", Attribute::Text("ä".to_owned())),
        ("integers", Attribute::Ints(vec![1, -2])),
    ];
    if numbers == Numbers::Special {
        attributes.push(("nan", Attribute::Float(f64::NAN)));
        attributes.push(("infinity", Attribute::Float(f64::INFINITY)));
        attributes.push(("zero", Attribute::Float(-0.0)));
    }
    let node = Node {
        name: "layer".to_owned(),
        op: Op::Gemm,
        inputs: vec!["input".to_owned()],
        outputs: vec!["output".to_owned()],
        parameters: [("weight".to_owned(), weight.into())].into(),
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    offer.checkpoint.graph = Some(Graph {
        name: "foreign".to_owned(),
        inputs: vec![value("input")],
        outputs: vec![value("output")],
        nodes: vec![node],
    });
    Some(())
}
