//! Boxes of detection layers, as OpenCV computes them of maps.

use super::builder::Builder;
use crate::format::{BOX, Detection, Image};
use ckpt_api::{Attribute, Op};
use ckpt_graph::ints;

/// The most cells of all maps whose places are stated in the graph.
const MOST_CELLS: u64 = 1 << 20;

impl Detection {
    /// Makes `[batch · cells · boxes, 5 + classes]` of a map: for each row, column and box the center and the size in parts of
    /// the image, the probability that it is an object, and those of classes.
    pub(super) fn add(&self, builder: &mut Builder, map: &str, image: Image) -> Result<String, String> {
        if let Some(obstacle) = self.obstacle {
            return Err(format!("gives no boxes, for {obstacle}"));
        }
        let Image { height, width, .. } = image;
        let cells = height.checked_mul(width).and_then(|cells| builder.cells.checked_add(cells));
        let Some(cells) = cells.filter(|cells| *cells <= MOST_CELLS && !self.unit.contains(&0)) else {
            return Err("has a map or an input of no usual size".to_owned());
        };
        builder.cells = cells;
        let (boxes, numbers) = (self.anchors.len() as u64, self.numbers());
        let split = ints(&[0, boxes, numbers, height, width])?;
        let cells = builder.nodes.push("cells", Op::Reshape, &[map], [("shape", split)]);
        let order = Attribute::Ints(vec![0, 3, 4, 1, 2]);
        let places = builder.nodes.push("places", Op::Transpose, &[&cells], [("perm", order)]);
        let centers = self.centers(builder, &places, height, width)?;
        let sizes = self.sizes(builder, &places)?;
        let object = self.logistic(builder, "object", &places, [4, BOX])?;
        let scores = self.scores(builder, &places, &object)?;
        let parts = [&*centers, &sizes, &object, &scores];
        let rows = builder.nodes.push("rows", Op::Concat, &parts, [("axis", Attribute::Int(-1))]);
        let numbers = i64::try_from(numbers).map_err(|_| "has too many classes")?;
        let shape = Attribute::Ints(vec![-1, numbers]);
        Ok(builder.nodes.push("", Op::Reshape, &[&rows], [("shape", shape)]))
    }

    /// Numbers of each box from the first to before the second.
    fn part(builder: &mut Builder, name: &str, places: &str, range: [u64; 2]) -> Result<String, String> {
        let [start, end] = range;
        let axes = Attribute::Ints(vec![4]);
        let attributes = [("axes", axes), ("starts", ints(&[start])?), ("ends", ints(&[end])?)];
        Ok(builder.nodes.push(name, Op::Slice, &[places], attributes))
    }

    /// Numbers of each box as probabilities.
    fn logistic(
        &self,
        builder: &mut Builder,
        name: &str,
        places: &str,
        range: [u64; 2],
    ) -> Result<String, String> {
        let part = Self::part(builder, &format!("{name}_part"), places, range)?;
        Ok(match self.has_new_coordinates {
            true => part,
            false => builder.nodes.push(name, Op::Sigmoid, &[&part], []),
        })
    }

    /// The place within the cell, added to that of the cell.
    fn centers(
        &self,
        builder: &mut Builder,
        places: &str,
        height: u64,
        width: u64,
    ) -> Result<String, String> {
        let mut within = self.logistic(builder, "center", places, [0, 2])?;
        if self.reach != 1.0 {
            let by = builder.nodes.floats("reach", &[1], vec![self.reach])?;
            within = builder.nodes.push("reaching", Op::Mul, &[&within, &by], []);
        }
        let number = |number: u64| u32::try_from(number).map(f64::from).unwrap_or_default();
        let before = (self.reach - 1.0) / 2.0;
        let place = |row, column| [number(column) - before, number(row) - before];
        let grid = (0..height).flat_map(|row| (0..width).flat_map(move |column| place(row, column)));
        let grid = builder.nodes.floats("grid", &[1, height, width, 1, 2], grid.collect())?;
        let placed = builder.nodes.push("placed", Op::Add, &[&within, &grid], []);
        let sides = builder.nodes.floats("sides", &[2], vec![number(width), number(height)])?;
        Ok(builder.nodes.push("centers", Op::Div, &[&placed, &sides], []))
    }

    /// The size of the anchor, times what the map states.
    fn sizes(&self, builder: &mut Builder, places: &str) -> Result<String, String> {
        let part = Self::part(builder, "size", places, [2, 4])?;
        let [width, height] = self.unit.map(|unit| u32::try_from(unit).map(f64::from).unwrap_or(1.0));
        let (times, factor) = match self.has_new_coordinates {
            true => (builder.nodes.push("times", Op::Mul, &[&part, &part], []), 4.0),
            false => (builder.nodes.push("times", Op::Exp, &[&part], []), 1.0),
        };
        let sides = self
            .anchors
            .iter()
            .flat_map(|[own_width, own_height]| [own_width * factor / width, own_height * factor / height]);
        let anchors = builder.nodes.floats("anchors", &[self.anchors.len() as u64, 2], sides.collect())?;
        Ok(builder.nodes.push("sizes", Op::Mul, &[&times, &anchors], []))
    }

    /// Probabilities of classes, times that of an object; 0 up to the threshold.
    fn scores(&self, builder: &mut Builder, places: &str, object: &str) -> Result<String, String> {
        let range = [BOX, self.numbers()];
        let classes = match self.has_softmax {
            true => {
                let part = Self::part(builder, "class_part", places, range)?;
                builder.nodes.push("class", Op::Softmax, &[&part], [("axis", Attribute::Int(-1))])
            }
            false => self.logistic(builder, "class", places, range)?,
        };
        let scores = builder.nodes.push("scores", Op::Mul, &[&classes, object], []);
        let alpha = Attribute::Float(self.threshold);
        Ok(builder.nodes.push("kept", Op::ThresholdedRelu, &[&scores], [("alpha", alpha)]))
    }
}
