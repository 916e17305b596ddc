//! The equations of `EinsumDense`.

use ckpt_api::Axis;

/// The operands and the result of an equation of two operands: `abc,cd->abd`.
pub(super) struct Equation {
    /// The first operand; may begin with three points.
    pub(super) left: String,
    /// The second operand.
    pub(super) right: String,
    /// The result; may begin with three points.
    pub(super) result: String,
}

impl Equation {
    pub(super) fn parse(text: &str) -> Option<Equation> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = text.split_once("->")?;
        let (left, right) = operands.split_once(',')?;
        let letters = |text: &str| text.trim_start_matches("...").chars().all(|c| c.is_ascii_alphabetic());
        let is_plain = letters(left) && letters(result) && right.chars().all(|c| c.is_ascii_alphabetic());
        is_plain.then(|| Equation {
            left: left.to_owned(),
            right: right.to_owned(),
            result: result.to_owned(),
        })
    }

    /// Whether this multiplies the last axis by a matrix, and whether the matrix is `[out, in]` then.
    pub(super) fn dense(&self) -> Option<bool> {
        let (kept, inner) = split_last(&self.left)?;
        let mut letters = self.right.chars();
        let (Some(a), Some(b), None) = (letters.next(), letters.next(), letters.next()) else { return None };
        let (out, is_transposed) = if a == inner { (b, false) } else { (a, b == inner) };
        let is_product = (a == inner) != (b == inner)
            && !kept.is_empty()
            && self.result == format!("{kept}{out}")
            && !kept.contains(inner)
            && !kept.contains(out);
        is_product.then_some(is_transposed)
    }
}

fn split_last(text: &str) -> Option<(&str, char)> {
    let last = text.chars().next_back().filter(|c| c.is_ascii_alphabetic())?;
    Some((text.get(..text.len() - last.len_utf8())?, last))
}

/// The axes of a kernel that multiplies the last axis.
pub(super) fn kernel_axes(equation: &str) -> Option<Vec<Axis>> {
    match Equation::parse(equation)?.dense()? {
        true => Some(vec![Axis::Out, Axis::In]),
        false => Some(vec![Axis::In, Axis::Out]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equation_over_the_last_axis_is_a_product_with_a_matrix() {
        let dense = |text| Equation::parse(text).and_then(|equation| equation.dense());
        assert_eq!(dense("abc,cd->abd"), Some(false));
        assert_eq!(dense("...x, xy -> ...y"), Some(false));
        assert_eq!(dense("ab,cb->ac"), Some(true));
        for other in ["abc,cde->abde", "abc,bd->adc", "ab,bb->ab", "a,ab->b", "ab"] {
            assert_eq!(dense(other), None, "{other}");
        }
    }
}
