//! What is asked of a codec.

use super::errors::ErrorForm;
use ckpt_api::{Error, Limit, Limits, Match};
use serde::{Deserialize, Serialize};
use std::io;

/// A function of a codec that runs elsewhere, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Function {
    /// Nothing → [`Description`](crate::Description).
    Describe = 0,
    /// ([`InputForm`](crate::InputForm), [`LimitsForm`]) → [`MatchForm`].
    Probe = 1,
    /// ([`InputForm`](crate::InputForm), [`OptionsForm`](crate::OptionsForm), [`LimitsForm`]) →
    /// [`ContentsForm`](crate::ContentsForm).
    Read = 2,
    /// ([`CheckpointForm`](crate::CheckpointForm), name, [`OptionsForm`](crate::OptionsForm)) →
    /// [`OutputLayoutForm`](crate::OutputLayoutForm).
    Place = 3,
    /// ([`OutputLayoutForm`](crate::OutputLayoutForm), one [`WrittenForm`](crate::WrittenForm) for each placement) → a list of
    /// [`LiteralForm`](crate::LiteralForm)s.
    Finish = 4,
    /// (number of the block encoding, blocks) → the numbers, 32-bit floats in little-endian order.
    DecodeBlocks = 5,
    /// (number of the block encoding, position of the first number in its tensor, numbers) → the largest difference between a
    /// number and what its block stands for, and the blocks.
    EncodeBlocks = 6,
    /// (number of the decoder, number of stored bytes, parameters) → the most bytes that so many can decode to.
    LongestOutput = 7,
    /// (number of the decoder, parameters, length of the output, stored bytes) → how many bytes were decoded, and as many as
    /// the output has; or a [`DamageForm`].
    DecodeWhole = 8,
    /// (number of the decoder, parameters, length of the output, number of stored bytes) → nothing, or a [`DamageForm`].
    StartStream = 9,
    /// (at most so many bytes) → the next decoded bytes, none at the end; or a [`DamageForm`].
    ReadStream = 10,
    /// Nothing → the number of stored bytes that were decoded, if the decoder counts them; or a [`DamageForm`].
    FinishStream = 11,
    /// (number of the operator, [`OpShapesForm`](crate::OpShapesForm)) → the shape of the result.
    OperatorShape = 12,
    /// (number of the operator, [`OpShapesForm`](crate::OpShapesForm), shape of the result,
    /// [`OpValuesForm`](crate::OpValuesForm)) → the elements of the result, 64-bit floats in little-endian order.
    RunOperator = 13,
    /// ([`InputForm`](crate::InputForm), [`ContentsForm`](crate::ContentsForm), [`OptionsForm`](crate::OptionsForm)) →
    /// the [`ContentsForm`](crate::ContentsForm) with the tensors that are replaced, if any are.
    Prepare = 14,
}

impl Function {
    /// Every function.
    pub const ALL: [Function; 15] = [
        Function::Describe,
        Function::Probe,
        Function::Read,
        Function::Place,
        Function::Finish,
        Function::DecodeBlocks,
        Function::EncodeBlocks,
        Function::LongestOutput,
        Function::DecodeWhole,
        Function::StartStream,
        Function::ReadStream,
        Function::FinishStream,
        Function::OperatorShape,
        Function::RunOperator,
        Function::Prepare,
    ];

    /// The function of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Function::ALL.into_iter().find(|function| function.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// What errors call it.
    pub const fn name(self) -> &'static str {
        match self {
            Function::Describe => "describe",
            Function::Probe => "probe",
            Function::Read => "read",
            Function::Place => "place",
            Function::Finish => "finish",
            Function::DecodeBlocks => "decode blocks",
            Function::EncodeBlocks => "encode blocks",
            Function::LongestOutput => "bound the output of a decoder",
            Function::DecodeWhole => "decode",
            Function::StartStream => "start a decoder",
            Function::ReadStream => "decode a stream",
            Function::FinishStream => "finish a decoder",
            Function::OperatorShape => "shape of an operator",
            Function::RunOperator => "run an operator",
            Function::Prepare => "prepare tensors",
        }
    }
}

/// Why bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageForm {
    /// What is damaged.
    Damage(String),
    /// Another error.
    Error(ErrorForm),
}

impl From<io::Error> for DamageForm {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => DamageForm::Error(ErrorForm::from(&error)),
            Err(error) => DamageForm::Damage(error.to_string()),
        }
    }
}

impl From<DamageForm> for io::Error {
    fn from(form: DamageForm) -> Self {
        match form {
            DamageForm::Damage(text) => io::Error::other(text),
            DamageForm::Error(error) => io::Error::other(Error::from(error)),
        }
    }
}

/// The form of a [`Match`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatchForm {
    /// It is something else.
    No,
    /// Nothing contradicts it, and nothing proves it.
    Possible(String),
    /// A magic number or an equally strong sign.
    Certain(String),
}

impl From<Match> for MatchForm {
    fn from(verdict: Match) -> Self {
        match verdict {
            Match::No => MatchForm::No,
            Match::Possible(why) => MatchForm::Possible(why),
            Match::Certain(why) => MatchForm::Certain(why),
        }
    }
}

impl From<MatchForm> for Match {
    fn from(form: MatchForm) -> Self {
        match form {
            MatchForm::No => Match::No,
            MatchForm::Possible(why) => Match::Possible(why),
            MatchForm::Certain(why) => Match::Certain(why),
        }
    }
}

/// The form of [`Limits`]: names and values. A limit that is not among them has its usual value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsForm(pub Vec<(String, u64)>);

impl From<&Limits> for LimitsForm {
    fn from(limits: &Limits) -> Self {
        let value = |limit: &Limit| (limit.name().to_owned(), limits.get(*limit));
        LimitsForm(Limit::ALL.iter().map(value).collect())
    }
}

impl From<LimitsForm> for Limits {
    /// Limits of other names, which a newer program has, are ignored: they bound what only it does.
    fn from(form: LimitsForm) -> Self {
        let known = form.0.into_iter().filter_map(|(name, value)| Some((Limit::from_name(&name)?, value)));
        known.fold(Limits::default(), |limits, (limit, value)| limits.with(limit, value))
    }
}
