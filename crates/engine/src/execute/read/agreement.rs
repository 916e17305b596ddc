//! Tensors that are added to numbers where they agree.

use super::files::ComputedNumbers;
use super::memory::to_usize;
use crate::resources::COMPUTED_ELEMENTS;
use crate::transform::Consensus;
use ckpt_api::{Agreement, Result};

/// Elements of all terms that are held at once.
const HELD: u64 = COMPUTED_ELEMENTS / 4;

/// Adds what several tensors agree on to runs of a tensor's elements.
pub(super) struct AgreementReader<'a> {
    terms: Vec<HeldTerm<'a>>,
    is_mean: bool,
    factor: f32,
    consensus: Consensus,
}

/// A term, and some of its numbers.
struct HeldTerm<'a> {
    weight: f32,
    numbers: Box<dyn ComputedNumbers + 'a>,
    bytes: Vec<u8>,
}

impl<'a> AgreementReader<'a> {
    /// Adds the terms of an agreement, which have these numbers.
    pub(super) fn new(agreement: &Agreement, numbers: Vec<Box<dyn ComputedNumbers + 'a>>) -> Self {
        let terms = agreement.terms.iter().zip(numbers);
        let terms =
            terms.map(|(term, numbers)| HeldTerm { weight: term.weight.get(), numbers, bytes: Vec::new() });
        AgreementReader {
            terms: terms.collect(),
            is_mean: agreement.is_mean,
            factor: agreement.factor.get(),
            consensus: Consensus::default(),
        }
    }

    /// Adds to `elements`, from number `first` on. Returns whether a finite number became one that is not.
    pub(super) fn apply(&mut self, first: u64, elements: &mut [[u8; 4]]) -> Result<bool> {
        let (mut at, mut overflows) = (first, false);
        for part in elements.chunks_mut(to_usize(HELD)?) {
            for term in &mut self.terms {
                term.bytes.resize(part.len() * 4, 0);
                term.numbers.read_at(at.saturating_mul(4), &mut term.bytes)?;
            }
            let terms = self.terms.iter().map(|term| (term.weight, term.bytes.as_chunks::<4>().0));
            overflows |= self.consensus.add_to(part, terms, (self.is_mean, self.factor));
            at += part.len() as u64;
        }
        Ok(overflows)
    }
}
