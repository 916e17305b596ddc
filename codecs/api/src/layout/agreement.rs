//! Tensors that are added where they agree in sign.

use crate::{Agreement, Computed, Error, Result, Scalar, Term};

/// The most tensors that may agree.
const MAX_TERMS: usize = 256;

impl Term {
    /// A tensor with a weight.
    pub fn new(name: impl Into<String>, weight: Scalar, numbers: Computed) -> Self {
        Term { name: name.into(), weight, numbers }
    }
}

impl Agreement {
    /// An agreement of these tensors.
    pub fn new(terms: Vec<Term>, is_mean: bool, factor: Scalar) -> Self {
        Agreement { terms, is_mean, factor }
    }

    /// Checks that the terms fit a tensor of so many elements.
    pub(crate) fn check(&self, elements: u64) -> Result<()> {
        if self.terms.is_empty() || self.terms.len() > MAX_TERMS {
            return Err(Error::unsupported("too many tensors, or none, are added where they agree")
                .found(self.terms.len().to_string())
                .expected(format!("1 to {MAX_TERMS}")));
        }
        match self.terms.iter().find(|term| term.numbers.elements() != Some(elements)) {
            Some(term) => Err(Error::corrupt("a tensor does not fit the one that it is added to")
                .tensor(&term.name)
                .found(
                    term.numbers.elements().map(|found| crate::count(found, "element")).unwrap_or_default(),
                )
                .expected(crate::count(elements, "element"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Encoding, Extent, FileId, Operation};

    fn scalar(number: f32) -> Scalar {
        Scalar::new(number).unwrap()
    }

    #[test]
    fn every_element_has_a_number_in_each_tensor_that_may_agree() {
        let numbers = |count: u64| {
            Computed::new(Extent::new(FileId(0), 0, count * 4), Encoding::new(DType::F32, vec![0]))
        };
        let sum = |counts: &[u64]| {
            let terms = counts.iter().map(|count| Term::new("t", scalar(1.0), numbers(*count))).collect();
            let agreement = Agreement::new(terms, true, scalar(1.0));
            numbers(6).with_operations(vec![Operation::AddAgreeing(Box::new(agreement))]).into_extent()
        };
        assert_eq!(sum(&[6, 6]).unwrap().stored_ranges().count(), 3);
        assert!(sum(&[6, 5]).is_err() && sum(&[]).is_err() && sum(&[6; 257]).is_err());
    }
}
