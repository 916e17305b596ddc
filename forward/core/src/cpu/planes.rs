//! Convolutions of few outputs in a group, such as one: each plane by itself, without products of padding.

use super::number::{Number, Stored};
use super::parallel;
use super::product::Product;
use super::taps::Taps;
use crate::kernel::Conv;

/// The operands of a [`Conv`].
pub(super) struct Operands<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) bias: Option<&'a [T]>,
}

/// Computes each plane of the output.
pub(super) fn conv<T: Stored<A>, A: Product>(conv: &Conv, from: &Operands<T>, y: &mut [T]) -> Option<()> {
    let places = conv.window.places();
    let plane = conv.window.input.iter().product::<usize>();
    let (inputs, outputs) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
    let taps = Taps::new(conv);
    let factors = [conv.batch, conv.outputs, places, inputs, taps.len()];
    let work = factors.into_iter().fold(1, usize::saturating_mul);
    let [by_output, by_input, ..] = conv.weight;
    parallel::rows(y, places, work, |first, y| {
        let mut sums = vec![A::ZERO; places];
        for (number, y) in (first..).zip(y.chunks_exact_mut(places)) {
            let (image, output) = (number / conv.outputs, number % conv.outputs);
            sums.fill(A::ZERO);
            for input in 0..inputs {
                let x = image * conv.inputs + output / outputs * inputs + input;
                let weight = &from.weight[output * by_output + input * by_input..];
                A::add_taps(&mut sums, &from.x[x * plane..][..plane], weight, &taps);
            }
            store(&sums, from.bias.map(|bias| bias[output].widen()), y)?;
        }
        Some(())
    })
}

/// Stores sums of one output, whose bias is added last.
pub(super) fn store<T: Stored<A>, A: Number>(sums: &[A], bias: Option<A>, y: &mut [T]) -> Option<()> {
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = T::narrow(bias.map_or(*sum, |bias| sum.add(bias)))?;
    }
    Some(())
}
