//! Detection layers: `[yolo]` and `[region]`.

use super::{Image, Section};
use ckpt_api::{Error, Limit, Limits, Result};

/// Numbers of a box before those of its classes: center, size, and whether it is an object.
pub(crate) const BOX: u64 = 5;

/// What a detection layer makes of the map before it.
pub(crate) struct Detection {
    /// Width and height of the boxes that are expected: in pixels of the input for `[yolo]`, in cells for `[region]`.
    pub(crate) anchors: Vec<[f64; 2]>,
    pub(crate) classes: u64,
    /// Width and height that the anchors are measured in.
    pub(crate) unit: [u64; 2],
    /// Products of object and class up to this are 0.
    pub(crate) threshold: f64,
    /// How far centers reach beyond their cells.
    pub(crate) reach: f64,
    /// Classes exclude each other.
    pub(crate) has_softmax: bool,
    /// The numbers of the map are used without logistic function and exponentials.
    pub(crate) has_new_coordinates: bool,
    pub(crate) is_yolo: bool,
    /// Why no graph makes boxes of the map, if it is so.
    pub(crate) obstacle: Option<&'static str>,
}

impl Detection {
    pub(crate) fn yolo(
        section: &Section<'_>,
        input: Image,
        net: &Section<'_>,
        limits: &Limits,
    ) -> Result<Detection> {
        let count = section.positive("num", 1)?;
        let all = anchors(section)?;
        let mask = match section.ints("mask")? {
            Some(mask) => mask,
            None => {
                limits.check(Limit::GraphNodes, count).map_err(|error| section.located(error, "num"))?;
                (0..i64::try_from(count).unwrap_or(0)).collect()
            }
        };
        let used = mask.iter().map(|number| {
            let number = usize::try_from(*number).ok().filter(|number| (*number as u64) < count);
            number.map(|number| all.get(number).copied().unwrap_or(NO_ANCHOR))
        });
        let anchors: Option<Vec<[f64; 2]>> = used.collect();
        let anchors = anchors.filter(|anchors| !anchors.is_empty());
        let anchors = anchors.ok_or_else(|| section.wrong("mask", format!("0 to {}", count - 1)))?;
        let detection = Detection {
            classes: section.count("classes", 20)?,
            unit: [net.count("width", 0)?, net.count("height", 0)?],
            threshold: section.float("thresh", 0.2)?,
            reach: section.float("scale_x_y", 1.0)?,
            has_softmax: false,
            has_new_coordinates: section.flag("new_coords")?,
            is_yolo: true,
            anchors,
            obstacle: None,
        };
        detection.fitting(section, input)
    }

    pub(crate) fn region(section: &Section<'_>, input: Image, limits: &Limits) -> Result<Detection> {
        let count = section.positive("num", 1)?;
        let all = anchors(section)?;
        let length = input.channels.min(count);
        limits.check(Limit::GraphNodes, length).map_err(|error| section.located(error, "num"))?;
        let anchors = (0..length).zip(all.into_iter().chain(std::iter::repeat(NO_ANCHOR)));
        let obstacle = match section.text("tree") {
            Some(_) => Some("it has a tree of classes"),
            None if section.flag("background")? => Some("it has a background"),
            None => None,
        };
        if section.int("coords", 4)? != 4 {
            return Err(section.wrong("coords", "4"));
        }
        let detection = Detection {
            classes: section.count("classes", 20)?,
            unit: [input.width, input.height],
            threshold: section.float("thresh", 0.001)?,
            reach: 1.0,
            has_softmax: section.flag("softmax")?,
            has_new_coordinates: false,
            is_yolo: false,
            anchors: anchors.map(|(_, anchor)| anchor).collect(),
            obstacle,
        };
        detection.fitting(section, input)
    }

    /// Numbers of a box with its classes.
    pub(crate) fn numbers(&self) -> u64 {
        self.classes.saturating_add(BOX)
    }

    /// Fails if the map has other channels than the boxes need, as Darknet does.
    fn fitting(self, section: &Section<'_>, input: Image) -> Result<Detection> {
        let (boxes, numbers) = (self.anchors.len() as u64, self.numbers());
        if boxes.checked_mul(numbers) == Some(input.channels) {
            return Ok(self);
        }
        let error = Error::corrupt("a detection layer does not fit the layer before it");
        Err(section
            .located(error, "classes")
            .found(format!("{} channels", input.channels))
            .expected(format!("{boxes} boxes · {numbers} numbers")))
    }
}

/// What Darknet takes for an anchor that the `.cfg` does not state.
const NO_ANCHOR: [f64; 2] = [0.5, 0.5];

fn anchors(section: &Section<'_>) -> Result<Vec<[f64; 2]>> {
    let numbers = section.floats("anchors")?.unwrap_or_default();
    let pair = |pair: &[f64]| match *pair {
        [width, height] => [width, height],
        [width] => [width, 0.5],
        _ => NO_ANCHOR,
    };
    Ok(numbers.chunks(2).map(pair).collect())
}
