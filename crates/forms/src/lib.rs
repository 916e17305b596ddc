//! What a codec is given and returns, as data.
//!
//! A codec that does not run in the program itself, such as one in WebAssembly, gets and returns *forms*: types that serde
//! serializes, one for each type of the contract. Converting a form to the contract's type checks it: what converts is as
//! good as what a codec in the program returns, and [`Contents::check`](ckpt_api::Contents::check) and
//! [`OutputLayout::check`](ckpt_api::OutputLayout::check) check the rest.
//!
//! Forms have two representations. A serializer for people (JSON, dicts of Python) writes lists of tensors and placements with
//! a map for each, as plans have them. [`encode`] writes columns, so that a million tensors take a few of allocations and no
//! name of a field; what is rare in them stands there as JSON, a [`Document`].
//!
//! ```
//! use ckpt_api::{Contents, DType, Encoding, Extent, FileId, Limits, Placement, Shape, Tensor, TensorId};
//! use ckpt_forms::{ContentsForm, decode, encode};
//! let tensor = Tensor::new("w", DType::F32, Shape::new([2])?);
//! let extent = Extent::new(FileId(0), 16, 8);
//! let placement = Placement::new(TensorId(0), "w", extent, Encoding::row_major(&tensor));
//! let mut contents = Contents::default().with_files(vec!["m.toy".into()]).with_placements(vec![placement]);
//! contents.checkpoint.tensors.push(tensor);
//!
//! let message = encode(&ContentsForm::from(contents.clone()))?;
//! let form: ContentsForm = decode(&message)?;
//! assert_eq!(form.into_contents(&Limits::default())?, contents);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bytes;
mod checkpoint;
mod columns;
mod contents;
mod description;
mod document;
mod errors;
mod messages;
mod operators;
mod output;
mod placements;
mod tensors;
#[cfg(test)]
mod tests;
mod texts;
mod wire;

pub use bytes::Bytes;
pub use checkpoint::{CheckpointForm, InputForm, OptionsForm};
pub use contents::{ContentsForm, MissingGraphForm, ShapeMismatchForm};
pub use description::{DecoderForm, DecoderKindForm, Description, FormatForm, OptionForm, OptionKindForm};
pub use document::Document;
pub use errors::ErrorForm;
pub use messages::{DamageForm, Function, LimitsForm, MatchForm};
pub use operators::{
    OpIndexForm, OpInputForm, OpParameterForm, OpShapesForm, OpValuesForm, OperatorForm, OwnedShapes, narrow,
};
pub use output::{LeftOutForm, LiteralForm, LossForm, OutputLayoutForm, WrittenForm};
pub use placements::PlacementsForm;
pub use tensors::TensorsForm;
pub use texts::{SegmentForm, TextForm};
pub use wire::{VERSION, decode, encode};
