//! `IQ3_S`: four magnitudes at a time are a point of a codebook, with a sign for each number.

use super::encoded::{ELEMENTS, Encoded, SUPER, count};
use super::lanes::nearest_one;
use super::pack;
use crate::blocks::grids::IQ3_S;
use half::f16;
use std::sync::LazyLock;

/// The numbers of a point.
const POINT: usize = 4;
/// The points of a group.
const POINTS: usize = ELEMENTS / POINT;

/// Magnitudes from 0 to 7: `m` stands for `2·m + 1` times the scale.
type Magnitudes = [u8; POINT];

/// The codebook, and where the points are that it has not.
struct Codebook {
    /// Of four magnitudes of three bits, the number of their point.
    points: Vec<Option<u16>>,
    /// Of four magnitudes without a point, the points of the three smallest distances, nearest first.
    neighbors: Vec<Vec<Neighbor>>,
}

/// A point near others: its magnitudes, and what they stand for.
#[derive(Clone, Copy)]
struct Neighbor {
    magnitudes: Magnitudes,
    values: [f32; POINT],
}

static CODEBOOK: LazyLock<Codebook> = LazyLock::new(|| {
    let mut points = vec![None; 1 << (3 * POINT)];
    for number in 0..IQ3_S.len() {
        points[index(point(number))] = Some(number as u16);
    }
    let neighbors = (0..points.len()).map(|at| if points[at].is_none() { near(at) } else { Vec::new() });
    Codebook { neighbors: neighbors.collect(), points }
});

/// Returns the points of the three smallest distances from four magnitudes, nearest first.
fn near(index: usize) -> Vec<Neighbor> {
    let own: Magnitudes = std::array::from_fn(|k| (index >> (3 * k) & 7) as u8);
    let distance = |number: usize| -> u32 {
        own.iter().zip(point(number)).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let mut all: Vec<(u32, u16)> = (0..IQ3_S.len()).map(|number| (distance(number), number as u16)).collect();
    all.sort_unstable();
    let mut distances: Vec<u32> = all.iter().map(|(distance, _)| *distance).collect();
    distances.dedup();
    let most = distances.get(2).copied().unwrap_or(u32::MAX);
    let nearest = all.into_iter().take_while(|(distance, _)| *distance <= most).map(|(_, number)| {
        let magnitudes = point(usize::from(number));
        Neighbor { magnitudes, values: magnitudes.map(value) }
    });
    nearest.collect()
}

fn point(number: usize) -> Magnitudes {
    std::array::from_fn(|k| (IQ3_S[number] >> (4 * k) & 7) as u8)
}

fn index(magnitudes: Magnitudes) -> usize {
    magnitudes.iter().rev().fold(0, |index, magnitude| index << 3 | usize::from(*magnitude))
}

/// A group of 32 numbers: their magnitudes, and how much an error of each counts.
struct Group {
    codebook: &'static Codebook,
    numbers: [f32; ELEMENTS],
    weights: [f32; ELEMENTS],
    roots: [f32; ELEMENTS],
}

impl Group {
    /// Returns the points nearest to the numbers times `inverse`, and whether the codebook has all of them.
    fn points(&self, inverse: f32, scale: f32) -> ([Magnitudes; POINTS], bool) {
        let (mut points, mut has_all) = ([[0; POINT]; POINTS], true);
        for (k, numbers) in self.numbers.as_chunks::<POINT>().0.iter().enumerate() {
            let own = numbers.map(|number| nearest_one(0.5 * (inverse * number - 1.0)).clamp(0, 7) as u8);
            points[k] = own;
            if self.codebook.points[index(own)].is_none() {
                has_all = false;
                points[k] = self.neighbor(k, index(own), scale);
            }
        }
        (points, has_all)
    }

    /// Returns the neighbor of four magnitudes that leaves the smallest error.
    fn neighbor(&self, k: usize, index: usize, scale: f32) -> Magnitudes {
        let numbers = &self.numbers.as_chunks::<POINT>().0[k];
        let weights = &self.roots.as_chunks::<POINT>().0[k];
        let (mut least, mut nearest) = (f32::MAX, [0; POINT]);
        for neighbor in &self.codebook.neighbors[index] {
            let mut error = 0.0;
            for ((value, number), weight) in neighbor.values.iter().zip(numbers).zip(weights) {
                let difference = scale * value - number;
                error += weight * difference * difference;
            }
            if error < least {
                (least, nearest) = (error, neighbor.magnitudes);
            }
        }
        nearest
    }

    /// Returns the weighted sums of the products of numbers and values, and of the squares of values.
    fn sums(&self, points: &[Magnitudes; POINTS]) -> (f32, f32) {
        let (mut sum_xq, mut sum_qq) = (0.0, 0.0);
        for ((magnitude, x), w) in points.as_flattened().iter().zip(&self.numbers).zip(&self.weights) {
            let q = value(*magnitude);
            sum_xq += w * x * q;
            sum_qq += w * q * q;
        }
        (sum_xq, sum_qq)
    }

    /// Returns the points and the scale with the smallest weighted error.
    fn fit(&self) -> ([Magnitudes; POINTS], f32) {
        let most = self.numbers.iter().fold(0f32, |most, number| most.max(*number));
        let mut points = [[0; POINT]; POINTS];
        if most == 0.0 {
            return (points, 0.0);
        }
        let (mut best, mut scale, mut has_all) = (0.0, most / 15.0, false);
        for number in -9i8..=9 {
            let inverse = (15.0 + f32::from(number) * 0.2) / most;
            let (tried, tried_has_all) = self.points(inverse, 1.0 / inverse);
            let (sum_xq, sum_qq) = self.sums(&tried);
            if sum_qq > 0.0 && sum_xq * sum_xq > best * sum_qq {
                scale = sum_xq / sum_qq;
                best = scale * sum_xq;
                (points, has_all) = (tried, tried_has_all);
            }
        }
        if !has_all && scale > 0.0 {
            points = self.points(1.0 / scale, scale).0;
            let (sum_xq, sum_qq) = self.sums(&points);
            if sum_qq > 0.0 {
                scale = sum_xq / sum_qq;
            }
        }
        (points, scale)
    }
}

fn value(magnitude: u8) -> f32 {
    f32::from(2 * magnitude + 1)
}

#[inline(always)]
pub fn iq3_s(numbers: &[f32; SUPER], block: &mut [u8; 110]) -> Encoded {
    let codebook = &*CODEBOOK;
    let mut scales = [0.0; SUPER / ELEMENTS];
    // llama.cpp counts no group of zeros here: what it stores of the groups behind one is a place too early.
    let mut place = 0;
    for (k, (own, fitted)) in numbers.as_chunks::<ELEMENTS>().0.iter().zip(&mut scales).enumerate() {
        let weights = own.map(|number| number * number);
        let group = Group { codebook, numbers: own.map(f32::abs), weights, roots: weights.map(f32::sqrt) };
        let (points, scale) = group.fit();
        *fitted = scale;
        if group.numbers.iter().all(|number| *number == 0.0) {
            continue;
        }
        for (l, magnitudes) in points.iter().enumerate() {
            let number = codebook.points[index(*magnitudes)].unwrap_or_default();
            block[2 + 8 * place + l] = number as u8;
            block[66 + k] |= ((number >> 8) as u8) << l;
        }
        for (i, number) in own.iter().enumerate() {
            block[74 + 4 * place + i / 8] |= u8::from(*number < 0.0) << (i % 8);
        }
        place += 1;
    }
    let most = scales.iter().fold(0f32, |most, scale| most.max(*scale));
    let d = most / 31.0;
    // As llama.cpp does: the largest scale is rarely the best one of all groups.
    let half = f16::from_f32(d * 1.033);
    if most > 0.0 {
        pack::halves(&mut block[..2], [half]);
        let inverse = 1.0 / d;
        for (k, scale) in scales.iter().enumerate() {
            let scale = nearest_one(0.5 * (inverse * scale - 1.0)).clamp(0, 15) as u8;
            block[106 + k / 2] |= scale << (k % 2 * 4);
        }
    }
    count(numbers, most, [half])
}
