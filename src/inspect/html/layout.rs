//! Lays out boxes and lines in ranks from top to bottom, ordered by the barycenter of their neighbors (Sugiyama, Tagawa
//! and Toda 1981). The layout is deterministic.

use std::collections::BTreeSet;

/// Size of a box, in pixels.
pub(super) const WIDTH: f64 = 220.0;
pub(super) const HEIGHT: f64 = 58.0;
const GAP_X: f64 = 28.0;
const GAP_Y: f64 = 40.0;
const MARGIN: f64 = 8.0;
/// Width of the lane of a line that passes a rank.
const LANE: f64 = 12.0;
/// Passes over the ranks that improve their order, and their positions.
const SWEEPS: usize = 12;
const MOVES: usize = 80;
/// Most lanes that are laid out. With more, lines pass behind boxes.
const LANES: usize = 2000;

/// The positions of boxes and lines.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The middle of the upper edge of each box.
    pub(super) boxes: Vec<(f64, f64)>,
    /// The points of each line: from the lower edge of a box, in and out of each rank that it passes, to the upper
    /// edge of another box.
    pub(super) lines: Vec<Vec<(f64, f64)>>,
}

/// Lays out `count` boxes; every line leads to a box of a larger index.
pub(super) fn layout(count: usize, lines: &BTreeSet<(usize, usize)>) -> Layout {
    let mut graph = Ranked::new(count, lines);
    let chains: Vec<Vec<usize>> = graph.route(lines);
    graph.order();
    let x = graph.place();
    let y = |item: usize| MARGIN + graph.rank[item] as f64 * (HEIGHT + GAP_Y);
    let points = |chain: &Vec<usize>| {
        let mut points = Vec::new();
        for (index, item) in chain.iter().enumerate() {
            if index > 0 {
                points.push((x[*item], y(*item)));
            }
            if index + 1 < chain.len() {
                points.push((x[*item], y(*item) + HEIGHT));
            }
        }
        points
    };
    let right = (0..x.len()).map(|item| x[item] + graph.half(item)).fold(0.0, f64::max);
    let bottom = (0..count).map(y).fold(0.0, f64::max) + HEIGHT;
    Layout {
        width: right + MARGIN,
        height: bottom + MARGIN,
        boxes: (0..count).map(|item| (x[item], y(item))).collect(),
        lines: chains.iter().map(points).collect(),
    }
}

/// Items by rank: boxes, then lanes.
struct Ranked {
    boxes: usize,
    /// Rank of each item.
    rank: Vec<usize>,
    /// Items of each rank, from left to right.
    ranks: Vec<Vec<usize>>,
    /// Neighbors of each item in the ranks above and below.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
}

impl Ranked {
    fn new(boxes: usize, lines: &BTreeSet<(usize, usize)>) -> Self {
        let mut rank = vec![0; boxes];
        // Lines are sorted by their start, and a line to a box starts before it.
        for (from, to) in lines {
            rank[*to] = rank[*to].max(rank[*from] + 1);
        }
        // A box without inputs stands just above the first box that uses it.
        let taken: BTreeSet<usize> = lines.iter().map(|(_, to)| *to).collect();
        for source in (0..boxes).filter(|item| !taken.contains(item)) {
            let targets = lines.range((source, 0)..(source + 1, 0)).map(|(_, to)| rank[*to]);
            rank[source] = targets.min().map_or(0, |first| first - 1);
        }
        let ranks = vec![Vec::new(); rank.iter().max().map_or(0, |last| last + 1)];
        let mut ranked = Ranked { boxes, rank: Vec::new(), ranks, above: Vec::new(), below: Vec::new() };
        for rank in rank {
            ranked.add(rank);
        }
        ranked
    }

    fn add(&mut self, rank: usize) -> usize {
        let item = self.rank.len();
        self.rank.push(rank);
        self.ranks[rank].push(item);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        item
    }

    /// Gives each line a lane in every rank that it passes. Returns the items of each line.
    fn route(&mut self, lines: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
        let passed: usize = lines.iter().map(|(from, to)| self.rank[*to] - self.rank[*from] - 1).sum();
        let mut chains = Vec::with_capacity(lines.len());
        for (from, to) in lines {
            let mut chain = vec![*from];
            if passed <= LANES {
                for rank in self.rank[*from] + 1..self.rank[*to] {
                    let lane = self.add(rank);
                    self.join(*chain.last().unwrap_or(from), lane);
                    chain.push(lane);
                }
            }
            self.join(*chain.last().unwrap_or(from), *to);
            chain.push(*to);
            chains.push(chain);
        }
        chains
    }

    fn join(&mut self, upper: usize, lower: usize) {
        self.below[upper].push(lower);
        self.above[lower].push(upper);
    }

    /// Orders the items of each rank by the mean position of their neighbors, downwards and upwards in turn.
    fn order(&mut self) {
        let mut place = vec![0.0; self.rank.len()];
        let number = |items: &[usize], place: &mut [f64]| {
            items.iter().enumerate().for_each(|(index, item)| place[*item] = index as f64);
        };
        self.ranks.iter().for_each(|items| number(items, &mut place));
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            for step in 0..self.ranks.len() {
                let rank = if down { step } else { self.ranks.len() - 1 - step };
                let near = if down { &self.above } else { &self.below };
                let key = |item: &usize| mean(&near[*item], &place).unwrap_or(place[*item]);
                let mut items = std::mem::take(&mut self.ranks[rank]);
                items.sort_by(|a, b| key(a).total_cmp(&key(b)));
                number(&items, &mut place);
                self.ranks[rank] = items;
            }
        }
    }

    /// Returns the horizontal center of each item: near its neighbors, and apart from the other items of its rank.
    fn place(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.rank.len()];
        for sweep in 0..MOVES {
            for step in 0..self.ranks.len() {
                let rank = if sweep % 2 == 0 { step } else { self.ranks.len() - 1 - step };
                let items = &self.ranks[rank];
                let wanted: Vec<f64> = items.iter().map(|item| self.wanted(*item, &x)).collect();
                for (item, found) in items.iter().zip(self.apart(items, &wanted)) {
                    x[*item] = found;
                }
            }
        }
        let left = (0..x.len()).map(|item| x[item] - self.half(item)).fold(f64::INFINITY, f64::min);
        x.iter().map(|x| (x - left + MARGIN).round()).collect()
    }

    fn wanted(&self, item: usize, x: &[f64]) -> f64 {
        let near: Vec<usize> = self.above[item].iter().chain(&self.below[item]).copied().collect();
        mean(&near, x).unwrap_or(x[item])
    }

    /// Returns positions near the wanted ones that leave every item its room: the mean of those that only move right
    /// and of those that only move left.
    fn apart(&self, items: &[usize], wanted: &[f64]) -> Vec<f64> {
        let room = |a: usize, b: usize| self.half(a) + self.half(b) + GAP_X;
        let (mut right, mut left) = (wanted.to_vec(), wanted.to_vec());
        for k in 1..items.len() {
            right[k] = right[k].max(right[k - 1] + room(items[k - 1], items[k]));
        }
        for k in (1..items.len()).rev() {
            left[k - 1] = left[k - 1].min(left[k] - room(items[k - 1], items[k]));
        }
        right.iter().zip(&left).map(|(right, left)| (right + left) / 2.0).collect()
    }

    fn half(&self, item: usize) -> f64 {
        if item < self.boxes { WIDTH / 2.0 } else { LANE / 2.0 }
    }
}

fn mean(items: &[usize], places: &[f64]) -> Option<f64> {
    let sum: f64 = items.iter().map(|item| places[*item]).sum();
    (!items.is_empty()).then(|| sum / items.len() as f64)
}
