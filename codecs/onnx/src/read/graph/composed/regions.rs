//! Regions of images.

use super::super::values::Read;
use super::parts::{Parts, product};
use ckpt_api::Op;

impl Parts<'_, '_> {
    /// Regions of images at a fixed size: images, corners, and the image of each region.
    pub(super) fn align_regions(&mut self) -> Read<()> {
        let (x, regions, which) = (self.input(0)?, self.input(1)?, self.input(2)?);
        let [_, channels, rows, columns] = self.lens(&x)?[..] else {
            return Err("takes no images".to_owned());
        };
        let count = self.len(&regions, 0)?;
        let int = |name: &str, default: i64| self.node.int(name).unwrap_or(default);
        let (height, width) = (int("output_height", 1), int("output_width", 1));
        let samples = int("sampling_ratio", 0);
        if samples <= 0 {
            return Err("takes as many samples of a region as its size asks for".to_owned());
        }
        product(&[height, width, samples, samples])?;
        if height < 1 || width < 1 {
            return Err("makes regions without places".to_owned());
        }
        let default = if self.reader.opset < 16 { "output_half_pixel" } else { "half_pixel" };
        let is_half = self.node.text("coordinate_transformation_mode").unwrap_or(default) == "half_pixel";
        let scale = self.number(self.node.float("spatial_scale").unwrap_or(1.0).into());
        let offset = self.number(if is_half { 0.5 } else { 0.0 });
        let scaled = self.mul(&regions, &scale);
        let corners = self.sub(&scaled, &offset);
        let mut axes = Vec::with_capacity(2);
        for (first, last, bins, side) in [(1, 3, height, rows), (0, 2, width, columns)] {
            let (from, to) =
                (self.slice(&corners, 1, first, first + 1), self.slice(&corners, 1, last, last + 1));
            let mut span = self.sub(&to, &from);
            if !is_half {
                let one = self.number(1.0);
                span = self.apply(Op::Max, &[&span, &one]);
            }
            let total = product(&[bins, samples])?;
            let steps = (0..total).map(|step| (step as f64 + 0.5) / total as f64).collect();
            let steps = self.numbers(steps, &[1, total]);
            let inner = self.mul(&span, &steps);
            let place = self.add(&from, &inner);
            axes.push(self.corner_weights(&place, side));
        }
        let flat = self.reshape(&x, &[0, channels, -1]);
        let flat = self.transpose(&flat, &[0, 2, 1]);
        let flat = self.reshape(&flat, &[-1, channels]);
        let places = product(&[rows, columns])?;
        let (image, all) = (self.integer(places), self.reshape(&which, &[count, 1, 1]));
        let first = self.mul(&all, &image);
        let is_max = self.node.text("mode") == Some("max");
        let mut value: Option<String> = None;
        for (y, y_weight) in &axes[0] {
            for (x, x_weight) in &axes[1] {
                let row = self.integer(columns);
                let row = self.mul(y, &row);
                let (row, x) = (self.unsqueeze(&row, &[2]), self.unsqueeze(x, &[1]));
                let place = self.add(&row, &x);
                let place = self.add(&place, &first);
                let found = self.gather(&flat, &place, 0);
                let (by_row, by_column) =
                    (self.unsqueeze(y_weight, &[2, 3]), self.unsqueeze(x_weight, &[1, 3]));
                let weight = self.mul(&by_row, &by_column);
                let own = self.mul(&found, &weight);
                value = Some(match value {
                    None => own,
                    Some(before) if is_max => self.apply(Op::Max, &[&before, &own]),
                    Some(before) => self.add(&before, &own),
                });
            }
        }
        let value = value.ok_or("takes no samples")?;
        let grouped = self.reshape(&value, &[count, height, samples, width, samples, channels]);
        let reduction = if is_max { Op::ReduceMax } else { Op::ReduceMean };
        let pooled = self.reduce(reduction, &grouped, &[2, 4], false);
        let value = self.transpose(&pooled, &[0, 3, 1, 2]);
        self.finish(0, &value);
        Ok(())
    }

    /// The elements below and above places of an axis, and their weights; 0 outside the image.
    fn corner_weights(&mut self, place: &str, side: i64) -> [(String, String); 2] {
        let (least, most) = (self.number(-1.0), self.number(side as f64));
        let is_above = self.apply(Op::LessOrEqual, &[&least, place]);
        let is_below = self.apply(Op::LessOrEqual, &[place, &most]);
        let is_inside = self.apply(Op::And, &[&is_above, &is_below]);
        let is_inside = self.cast(&is_inside, "float");
        let bounded = self.clip(place, 0.0, (side - 1) as f64);
        let below = self.apply(Op::Floor, &[&bounded]);
        let (one, part) = (self.number(1.0), self.sub(&bounded, &below));
        let rest = self.sub(&one, &part);
        let above = self.add(&below, &one);
        let above = self.clip(&above, 0.0, (side - 1) as f64);
        [(below, rest), (above, part)].map(|(element, weight)| {
            let weight = self.mul(&weight, &is_inside);
            (self.cast(&element, "int"), weight)
        })
    }
}
