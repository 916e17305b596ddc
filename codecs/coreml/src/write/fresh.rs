//! Writes a new package.

use super::blobs::Blobs;
use super::messages::{Message, Type, Value, constant, named, number, value};
use super::names::{Identifiers, below};
use crate::format::{
    DATA, DESCRIBED, Element, KEY_USER_DEFINED, MANIFEST, NAMESPACE, USER_DEFINED, WEIGHTS_FILE, blob_element,
};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Metadata, MetadataValue, OutputFile,
    OutputLayout, Packing, Placement, Result, TensorId,
};

/// The model's file, below the folder of items.
pub(super) const MODEL: &str = "com.apple.CoreML/model.mlmodel";
/// The folder of the blob file there.
const WEIGHTS: &str = "com.apple.CoreML/weights";
/// The files of the package, in their order.
const MODEL_FILE: FileId = FileId(0);
const BLOB_FILE: FileId = FileId(1);
/// Versions of the format and their operators: of iOS 17, and of iOS 18, which has integers of 4 bits.
const IOS_17: (u64, &str) = (8, "CoreML7");
const IOS_18: (u64, &str) = (9, "CoreML8");
/// A number of an array's type in a description: 32-bit floats.
const ARRAY_OF_F32: u64 = 65568;

/// The layout of a package of tensors alone: a program of constants, which returns its input.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let (mut blobs, mut names) = (Blobs::new(), Identifiers::default());
    let (input, output) = (names.of("x"), names.of("y"));
    let mut operations = Vec::new();
    let mut layout = OutputLayout::default();
    let mut version = IOS_17;
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        let Some((number, element)) = holder(tensor.dtype) else { continue };
        let dtype = element.dtype.unwrap_or(tensor.dtype);
        if element.is_packed() || dtype == DType::U32 {
            version = IOS_18;
        }
        let packing = if element.is_packed() { Packing::Bits } else { Packing::Bytes };
        let encoding = Encoding::row_major(tensor).with_dtype(dtype).with_packing(packing);
        let blob = blobs.add(element, tensor.shape.elements());
        let blob = blob.map_err(|error| error.tensor(&tensor.name))?;
        let ty = Type { number, lens: tensor.shape.to_vec() };
        let own = Value::Blob { ty: ty.clone(), offset: blob.metadata };
        operations.push(constant(&names.of(&tensor.name), &tensor.name, &ty, &own));
        let extent = (blob.len > 0).then(|| Extent::new(BLOB_FILE, blob.data, blob.len));
        let extents: Vec<Extent> = extent.into_iter().collect();
        layout.placements.push(Placement::new(TensorId(id), &tensor.name, extents, encoding));
    }
    let ty = Type { number: number::F32, lens: vec![1] };
    operations.push(identity(&input, &output, &ty));
    let block =
        operations.iter().fold(Message::default().text(2, &output), |block, own| block.message(3, own));
    let function =
        Message::default().message(1, &named(&input, &ty)).text(2, version.1).entry(3, version.1, &block);
    let program = Message::default().int(1, 1).entry(2, "main", &function);
    let description = Message::default()
        .message(1, &feature(&input))
        .message(10, &feature(&output))
        .message(100, &described(&checkpoint.metadata));
    let model = Message::default().int(1, version.0).message(2, &description).message(502, &program);
    files(&mut layout, name, model.0, blobs.finish())?;
    Ok(layout)
}

/// The operation that returns its input.
fn identity(input: &str, output: &str, ty: &Type) -> Message {
    let argument = Message::default().message(1, &Message::default().text(1, input));
    Message::default().text(1, "identity").entry(2, "x", &argument).message(3, &named(output, ty)).entry(
        5,
        "name",
        &value(&Value::Text(output.to_owned())),
    )
}

/// The description of an input or output of one number.
fn feature(name: &str) -> Message {
    let mut shape = Vec::new();
    ckpt_containers::protobuf::put_varint(&mut shape, 1);
    let array = Message::default().bytes(1, &shape).int(2, ARRAY_OF_F32);
    Message::default().text(1, name).message(3, &Message::default().message(5, &array))
}

/// What the checkpoint's authors say of it.
fn described(metadata: &Metadata) -> Message {
    let texts = DESCRIBED.iter().filter_map(|(field, key)| Some((*field, metadata.text(NAMESPACE, key)?)));
    let own = texts.fold(Message::default(), |own, (field, text)| own.text(field, text));
    let further = metadata.value(NAMESPACE, KEY_USER_DEFINED).and_then(MetadataValue::as_map);
    further.into_iter().flat_map(|map| map.iter()).fold(own, |own, (key, value)| match value {
        MetadataValue::Text(text) => {
            own.message(USER_DEFINED, &Message::default().text(1, key.as_ref()).text(2, text))
        }
        _ => own,
    })
}

/// Adds the files of a package.
fn files(layout: &mut OutputLayout, name: &str, model: Vec<u8>, blobs: Blobs) -> Result<()> {
    if model.len() as u64 > 1 << 31 {
        return Err(Error::unsupported("the program has too many bytes").expected("at most 2 GiB"));
    }
    let weights = WEIGHTS_FILE.rsplit('/').next().unwrap_or(WEIGHTS_FILE);
    let manifest = manifest(true);
    layout.files = vec![
        OutputFile::new(below(name, &format!("{DATA}/{MODEL}")), model.len() as u64),
        OutputFile::new(below(name, &format!("{DATA}/{WEIGHTS}/{weights}")), blobs.len),
        OutputFile::new(below(name, MANIFEST), manifest.len() as u64),
    ];
    layout.literals.push(Literal { file: MODEL_FILE, offset: 0, bytes: model });
    let heads = blobs.literals.into_iter();
    layout.literals.extend(heads.map(|(offset, bytes)| Literal { file: BLOB_FILE, offset, bytes }));
    layout.literals.push(Literal { file: FileId(2), offset: 0, bytes: manifest });
    Ok(())
}

/// The type to store a dtype as: its own or one that holds every value exactly; `None` if there is none.
fn holder(dtype: DType) -> Option<(u64, Element)> {
    let dtype = if dtype == DType::Bool { DType::U8 } else { dtype };
    blob_element(dtype.holder(|dtype| blob_element(dtype).is_some())?)
}

/// The manifest of a package: the model, and a folder of weights. Its identifiers are always the same, so that the same input
/// gives the same bytes.
pub(super) fn manifest(has_weights: bool) -> Vec<u8> {
    let item = |number: u8, description: &str, name: &str, path: &str| {
        format!(
            "        \"00000000-0000-4000-8000-00000000000{number}\": {{\n            \"author\": \"com.apple.CoreML\",\n            \
             \"description\": \"{description}\",\n            \"name\": \"{name}\",\n            \"path\": \"{path}\"\n        }}"
        )
    };
    let mut items = vec![item(0, "CoreML Model Specification", "model.mlmodel", MODEL)];
    if has_weights {
        items.push(item(1, "CoreML Model Weights", "weights", WEIGHTS));
    }
    let items = items.join(",\n");
    format!(
        "{{\n    \"fileFormatVersion\": \"1.0.0\",\n    \"itemInfoEntries\": {{\n{items}\n    }},\n    \
         \"rootModelIdentifier\": \"00000000-0000-4000-8000-000000000000\"\n}}\n"
    )
    .into_bytes()
}
