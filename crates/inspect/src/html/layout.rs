//! Lays out boxes and lines in ranks from top to bottom. The longest path is a straight column in the middle; branches
//! and the lines that pass ranks are columns beside it. The layout is deterministic.

use std::collections::BTreeSet;
use std::ops::Range;

/// Size of a box of up to three lines of text, in pixels.
pub(super) const WIDTH: f64 = 220.0;
pub(super) const HEIGHT: f64 = 60.0;
const GAP_X: f64 = 24.0;
const GAP_Y: f64 = 34.0;
const MARGIN: f64 = 12.0;
/// Width of the lane of a line that passes a rank.
const LANE: f64 = 2.0;
/// How far from the middle of a box the lines of other columns meet it.
const PORT: f64 = 56.0;

/// The positions of boxes and lines.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The middle of the upper edge of each box.
    pub(super) boxes: Vec<(f64, f64)>,
    /// The points of each line: from the lower edge of a box, in and out of the lane that passes ranks, to the upper
    /// edge of another box.
    pub(super) lines: Vec<Vec<(f64, f64)>>,
}

/// Lays out boxes of the given heights; every line leads to a box of a larger index.
pub(super) fn layout(heights: &[f64], lines: &BTreeSet<(usize, usize)>) -> Layout {
    let count = heights.len();
    let rank = ranks(count, lines);
    let tops = tops(heights, &rank);
    let mut columns = columns(&rank, lines);
    let mut lane: Vec<Option<usize>> = vec![None; count];
    for (from, ranks) in lanes(&rank, lines) {
        lane[from] = Some(columns.len());
        columns.push(Column { boxes: Vec::new(), ranks });
    }
    let places = places(&columns, tops.len() - 1);
    let left = columns.iter().zip(&places).map(|(column, x)| x - column.half()).fold(0.0, f64::min);
    let right = columns.iter().zip(&places).map(|(column, x)| x + column.half()).fold(0.0, f64::max);
    let shift = |x: f64| (x - left + MARGIN).round();
    let y = |rank: usize| tops[rank];
    // Where the highest box of a rank ends.
    let end = |rank: usize| tops[rank + 1] - GAP_Y;
    let mut boxes = vec![(0.0, 0.0); count];
    for (column, x) in columns.iter().zip(&places) {
        column.boxes.iter().for_each(|index| boxes[*index] = (shift(*x), y(rank[*index])));
    }
    let route = |(from, to): &(usize, usize)| {
        let ((start, upper), (target, lower)) = (boxes[*from], boxes[*to]);
        let (edge, bottom) = (upper + heights[*from], end(rank[*from]));
        let lane = lane[*from].filter(|_| rank[*to] > rank[*from] + 1).map(|column| shift(places[column]));
        let mut points = vec![(port(start, lane.unwrap_or(target)), edge)];
        if edge < bottom {
            // Straight past the higher boxes beside it.
            points.push((points[0].0, bottom));
        }
        if let Some(x) = lane {
            points.extend([(x, y(rank[*from] + 1)), (x, end(rank[*to] - 1))]);
        }
        points.push((port(target, lane.unwrap_or(start)), lower));
        points
    };
    Layout {
        width: shift(right) + MARGIN,
        height: (tops[tops.len() - 1] - GAP_Y).max(MARGIN) + MARGIN,
        lines: lines.iter().map(route).collect(),
        boxes,
    }
}

/// Returns where each rank begins, and where one behind the last would.
fn tops(heights: &[f64], rank: &[usize]) -> Vec<f64> {
    let mut highest = vec![0.0f64; rank.iter().max().map_or(0, |last| last + 1)];
    heights.iter().zip(rank).for_each(|(height, rank)| highest[*rank] = highest[*rank].max(*height));
    let mut tops = vec![MARGIN];
    let mut next = MARGIN;
    for height in highest {
        next += height + GAP_Y;
        tops.push(next);
    }
    tops
}

/// Where a line from or to `other` meets the edge of a box.
fn port(middle: f64, other: f64) -> f64 {
    middle + (other - middle).clamp(-PORT, PORT)
}

/// Returns the rank of each box: below all boxes that it takes from.
fn ranks(boxes: usize, lines: &BTreeSet<(usize, usize)>) -> Vec<usize> {
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
    rank
}

/// Boxes in consecutive ranks, or the lane of the lines of one box.
struct Column {
    boxes: Vec<usize>,
    ranks: Range<usize>,
}

impl Column {
    fn half(&self) -> f64 {
        if self.boxes.is_empty() { LANE / 2.0 } else { WIDTH / 2.0 }
    }
}

/// Returns the boxes in columns: first the longest path, then paths through what remains.
fn columns(rank: &[usize], lines: &BTreeSet<(usize, usize)>) -> Vec<Column> {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); rank.len()];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); rank.len()];
    for (from, to) in lines.iter().filter(|(from, to)| rank[*from] + 1 == rank[*to]) {
        above[*to].push(*from);
        below[*from].push(*to);
    }
    let mut taken = vec![false; rank.len()];
    let mut main: Vec<usize> = Vec::new();
    // Of equally long paths, the one through the middle.
    let mut next = (0..rank.len()).max_by_key(|index| rank[*index]);
    while let Some(index) = next {
        taken[index] = true;
        main.push(index);
        next = above[index].get(above[index].len() / 2).copied();
    }
    main.reverse();
    let column = |boxes: Vec<usize>| {
        let start = boxes.first().map_or(0, |first| rank[*first]);
        Column { ranks: start..start + boxes.len(), boxes }
    };
    let mut columns = vec![column(main)];
    for first in 0..rank.len() {
        let mut path = Vec::new();
        let mut next = Some(first).filter(|first| !taken[*first]);
        while let Some(index) = next {
            taken[index] = true;
            path.push(index);
            next = below[index].iter().copied().find(|index| !taken[*index]);
        }
        if !path.is_empty() {
            columns.push(column(path));
        }
    }
    columns
}

/// Returns the ranks that the lines of a box pass, for each box with such lines. They share a lane.
fn lanes(rank: &[usize], lines: &BTreeSet<(usize, usize)>) -> Vec<(usize, Range<usize>)> {
    let mut lanes: Vec<(usize, Range<usize>)> = Vec::new();
    for (from, to) in lines.iter().filter(|(from, to)| rank[*from] + 1 < rank[*to]) {
        match lanes.last_mut() {
            Some((last, ranks)) if last == from => ranks.end = ranks.end.max(rank[*to]),
            _ => lanes.push((*from, rank[*from] + 1..rank[*to])),
        }
    }
    lanes
}

/// Returns the horizontal center of each column. The first is at 0; the others stand beside it, the short ones near,
/// each on the side on which it is nearer.
fn places(columns: &[Column], ranks: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|index| {
        let column = &columns[*index];
        (*index > 0, column.ranks.len(), column.boxes.is_empty(), column.ranks.start)
    });
    let mut x = vec![0.0; columns.len()];
    // How far boxes and lanes reach to the right and to the left, by rank.
    let mut reach = [vec![None; ranks], vec![None; ranks]];
    for index in order {
        let column = &columns[index];
        let side = |reach: &[Option<f64>]| {
            let taken = reach[column.ranks.clone()].iter().flatten().copied().reduce(f64::max);
            taken.map_or(0.0, |edge: f64| edge + GAP_X + column.half())
        };
        let [right, left] = [side(&reach[0]), side(&reach[1])];
        let (own, place) = if right <= left { (0, right) } else { (1, left) };
        x[index] = if own == 0 { place } else { -place };
        for rank in column.ranks.clone() {
            let edges = if place == 0.0 { [0, 1].as_slice() } else { &[own] };
            edges.iter().for_each(|own| reach[*own][rank] = Some(place + column.half()));
        }
    }
    x
}
