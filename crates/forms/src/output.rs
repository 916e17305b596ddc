//! The result of placing, and what finishing takes and returns.

use super::bytes::Bytes;
use super::document::Document;
use super::placements::PlacementsForm;
use super::texts::TextForm;
use ckpt_api::{
    Aspect, FileId, FinishState, Limit, Limits, Literal, Loss, LossKind, OutputFile, OutputLayout, Reading,
    Result, TensorId, Written,
};
use serde::{Deserialize, Serialize};

/// The form of an [`OutputLayout`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputLayoutForm {
    /// The files that will exist.
    pub files: Vec<OutputFile>,
    /// Header and padding bytes known before any tensor is read.
    pub literals: Vec<LiteralForm>,
    /// Where tensors go.
    pub placements: PlacementsForm,
    /// Losses that only the codec knows.
    pub losses: Vec<LossForm>,
    /// Losses that an option asks for by name.
    pub asked: Vec<Document<LossKind>>,
    /// What the format keeps and this output does not.
    pub left_out: Vec<LeftOutForm>,
    /// Tensors whose numbers are whole units of the scale that they are stored with.
    pub whole_units: Vec<u64>,
    /// What finishing needs beside the placements.
    pub finish: Document<FinishState>,
    /// How the result is read back, if the output's name is not enough.
    pub readings: Vec<Document<Reading>>,
    /// Bytes of memory that placing took beside all this.
    pub working_memory: u64,
}

/// The form of a [`Literal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiteralForm {
    /// Which file.
    pub file: u64,
    /// First byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// The form of a [`Loss`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossForm {
    /// What sort of loss.
    pub kind: Document<LossKind>,
    /// The tensor, layer or metadata key.
    pub subject: String,
    /// What happens to it and why.
    pub detail: TextForm,
}

/// What the format keeps and an output does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutForm {
    /// What is left out.
    pub aspect: Document<Aspect>,
    /// Why.
    pub reason: String,
}

/// The form of [`Written`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenForm {
    /// For each extent the checksum that it asked for.
    pub checksums: Vec<Option<u32>>,
}

impl From<&Loss> for LossForm {
    fn from(loss: &Loss) -> Self {
        let Loss { kind, subject, detail } = loss;
        LossForm { kind: Document(*kind), subject: subject.clone(), detail: detail.into() }
    }
}

impl LossForm {
    /// The loss.
    pub fn into_loss(self) -> Loss {
        Loss::new(self.kind.0, self.subject, self.detail)
    }
}

impl From<Literal> for LiteralForm {
    fn from(literal: Literal) -> Self {
        LiteralForm { file: literal.file.0 as u64, offset: literal.offset, bytes: Bytes(literal.bytes) }
    }
}

impl LiteralForm {
    /// The literal. A file that no output can have is none of this one's, which [`OutputLayout::check`] reports.
    pub fn into_literal(self) -> Literal {
        let file = FileId(usize::try_from(self.file).unwrap_or(usize::MAX));
        Literal { file, offset: self.offset, bytes: self.bytes.0 }
    }
}

impl From<&Written> for WrittenForm {
    fn from(written: &Written) -> Self {
        WrittenForm { checksums: written.checksums.to_vec() }
    }
}

impl From<WrittenForm> for Written {
    fn from(form: WrittenForm) -> Self {
        Written { checksums: form.checksums.into() }
    }
}

impl From<OutputLayout> for OutputLayoutForm {
    fn from(layout: OutputLayout) -> Self {
        let left_out = layout.left_out.into_iter();
        OutputLayoutForm {
            files: layout.files,
            literals: layout.literals.into_iter().map(LiteralForm::from).collect(),
            placements: layout.placements.into(),
            losses: layout.losses.iter().map(LossForm::from).collect(),
            asked: layout.asked.into_iter().map(Document).collect(),
            left_out: left_out
                .map(|(aspect, reason)| LeftOutForm { aspect: Document(aspect), reason })
                .collect(),
            whole_units: layout.whole_units.into_iter().map(|id| id.0 as u64).collect(),
            finish: Document(layout.finish),
            readings: layout.readings.into_iter().map(Document).collect(),
            working_memory: layout.working_memory,
        }
    }
}

impl OutputLayoutForm {
    /// The layout. Whether it fits its checkpoint, [`OutputLayout::check`] checks, as for any codec.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`]; [`ckpt_api::Kind::Unsupported`] for columns that contradict each other.
    pub fn into_layout(self, limits: &Limits) -> Result<OutputLayout> {
        limits.check(Limit::Files, self.files.len() as u64)?;
        let left_out = self.left_out.into_iter().map(|left| (left.aspect.0, left.reason));
        let asked: Vec<LossKind> = self.asked.into_iter().map(|Document(kind)| kind).collect();
        let id = |number| TensorId(usize::try_from(number).unwrap_or(usize::MAX));
        Ok(OutputLayout::default()
            .with_files(self.files)
            .with_literals(self.literals.into_iter().map(LiteralForm::into_literal).collect())
            .with_placements(self.placements.into_placements(limits)?)
            .with_losses(self.losses.into_iter().map(LossForm::into_loss).collect())
            .with_asked(&asked)
            .with_left_out(left_out.collect())
            .with_whole_units(self.whole_units.into_iter().map(id).collect())
            .with_finish(self.finish.0)
            .with_readings(self.readings.into_iter().map(|Document(reading)| reading).collect())
            .with_working_memory(self.working_memory))
    }
}
