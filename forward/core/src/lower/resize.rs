//! Lowers the resizing of images, axis by axis.

use super::attributes::lacks;
use super::local::Local;
use super::lowering::{Info, Load, Lowering, misfit};
use crate::kernel::Pairwise;
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Result};

/// The greatest length of an axis that is resized.
const MAX: usize = 1 << 20;

/// Lowers ONNX's `Resize`. Places and weights are computed in binary64.
pub(super) fn resize(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[
        "mode",
        "sizes",
        "scales",
        "coordinate_transformation_mode",
        "nearest_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "antialias",
        "keep_aspect_ratio_policy",
    ])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    for (name, only) in [("antialias", "0"), ("keep_aspect_ratio_policy", "stretch")] {
        let found = lowering.node.attributes.get(name);
        if let Some(found) = found.filter(|found| !matches!(found, Attribute::Int(0)))
            && *found != Attribute::Text(only.to_owned())
        {
            return Err(found.invalid(name, only));
        }
    }
    let mode = Mode::of(lowering)?;
    if !matches!(mode, Mode::Nearest(_)) {
        lowering.real(0)?;
    }
    let coordinates = Coordinates::of(lowering)?;
    let lengths = lengths(lowering, x)?;
    let mut value = lowering.local(0)?;
    for (axis, side) in lengths.iter().enumerate() {
        if side.len != x.shape[axis] || side.scale != 1.0 {
            value = resized(lowering, &value, axis, &taps(*side, coordinates, mode))?;
        }
    }
    lowering.finish(&value, value.shape())
}

/// The lengths of an axis.
#[derive(Clone, Copy)]
struct Side {
    /// Before.
    from: usize,
    /// After.
    len: usize,
    /// How many times as long it becomes.
    scale: f64,
}

/// Attribute `sizes`, or what `scales` makes of the lengths.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^48")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked before")]
fn lengths(lowering: &Lowering, x: &Info) -> Result<Vec<Side>> {
    let rank = x.shape.len();
    let side = |from: usize, len: usize, scale: f64| -> Result<Side> {
        if from == len && scale == 1.0 {
            return Ok(Side { from, len, scale });
        }
        if len == 0 || from == 0 || len > MAX {
            return Err(misfit(&x.shape, format!("lengths that are resized to 1 to {MAX}")));
        }
        Ok(Side { from, len, scale })
    };
    if let Some(sizes) = lowering.node.ints("sizes")? {
        let refuse = || Attribute::Ints(sizes.to_vec()).invalid("sizes", format!("{rank} lengths"));
        // An axis of size −1 keeps its length.
        let kept =
            |(len, from): (&i64, &usize)| if *len == -1 { Some(*from) } else { usize::try_from(*len).ok() };
        let lens: Option<Vec<usize>> = sizes.iter().zip(&x.shape).map(kept).collect();
        let lens = lens.filter(|_| sizes.len() == rank).ok_or_else(refuse)?;
        let scaled = |(from, len): (&usize, usize)| match *from == len {
            true => side(len, len, 1.0),
            false => side(*from, len, len as f64 / (*from).max(1) as f64),
        };
        return x.shape.iter().zip(lens).map(scaled).collect();
    }
    let scales = lowering.node.floats("scales")?.ok_or_else(|| lacks("sizes"))?;
    let is_scale = |scale: &f64| *scale > 0.0 && scale.is_finite();
    if scales.len() != rank || !scales.iter().all(is_scale) {
        let expected = format!("{rank} numbers above 0");
        return Err(Attribute::Floats(scales).invalid("scales", expected));
    }
    let scaled = |(from, scale): (&usize, &f64)| {
        let len = (*from as f64 * scale).floor().min((MAX + 1) as f64) as usize;
        side(*from, if *scale == 1.0 { *from } else { len }, *scale)
    };
    x.shape.iter().zip(&scales).map(scaled).collect()
}

/// How a place between elements is rounded to one.
#[derive(Clone, Copy)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

impl Rounding {
    fn round(self, place: f64) -> f64 {
        match self {
            Rounding::PreferFloor => (place - 0.5).ceil(),
            Rounding::PreferCeil => (place + 0.5).floor(),
            Rounding::Floor => place.floor(),
            Rounding::Ceil => place.ceil(),
        }
    }
}

/// How an element is computed from those near its place.
#[derive(Clone, Copy)]
enum Mode {
    Nearest(Rounding),
    Linear,
    Cubic { a: f64, exclude_outside: bool },
}

impl Mode {
    fn of(lowering: &Lowering) -> Result<Self> {
        let node = lowering.node;
        let refuse = |name: &str, found: &str, expected: &str| {
            Err(Attribute::Text(found.to_owned()).invalid(name, expected))
        };
        let rounding = match node.text("nearest_mode")?.unwrap_or("round_prefer_floor") {
            "round_prefer_floor" => Rounding::PreferFloor,
            "round_prefer_ceil" => Rounding::PreferCeil,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            other => {
                let expected = "round_prefer_floor, round_prefer_ceil, floor or ceil";
                return refuse("nearest_mode", other, expected);
            }
        };
        let exclude_outside = node.flag("exclude_outside")?;
        let a = node.float("cubic_coeff_a", -0.75)?;
        match node.text("mode")?.unwrap_or("nearest") {
            "nearest" => Ok(Mode::Nearest(rounding)),
            "linear" => Ok(Mode::Linear),
            "cubic" => Ok(Mode::Cubic { a, exclude_outside }),
            other => refuse("mode", other, "nearest, linear or cubic"),
        }
    }
}

/// Where an element of the result is among those of the value.
#[derive(Clone, Copy)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
}

impl Coordinates {
    fn of(lowering: &Lowering) -> Result<Self> {
        let name = "coordinate_transformation_mode";
        Ok(match lowering.node.text(name)?.unwrap_or("half_pixel") {
            "half_pixel" => Coordinates::HalfPixel,
            "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
            "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
            "align_corners" => Coordinates::AlignCorners,
            "asymmetric" => Coordinates::Asymmetric,
            "tf_half_pixel_for_nn" => Coordinates::TfHalfPixelForNn,
            other => {
                let expected = "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric \
                                or tf_half_pixel_for_nn";
                return Err(Attribute::Text(other.to_owned()).invalid(name, expected));
            }
        })
    }

    /// ONNX's formulas.
    #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^48")]
    fn place(self, i: usize, side: Side) -> f64 {
        let Side { from, len, scale } = side;
        let (i, from, whole) = (i as f64, from as f64, len as f64);
        let centered = (i + 0.5) / scale - 0.5;
        match self {
            Coordinates::HalfPixel => centered,
            Coordinates::HalfPixelSymmetric => from / 2.0 * (1.0 - whole / (scale * from)) + centered,
            Coordinates::PytorchHalfPixel => {
                if len > 1 {
                    centered
                } else {
                    0.0
                }
            }
            Coordinates::AlignCorners if len == 1 => 0.0,
            Coordinates::AlignCorners => i * (from - 1.0) / (whole - 1.0),
            Coordinates::Asymmetric => i / scale,
            Coordinates::TfHalfPixelForNn => (i + 0.5) / scale,
        }
    }
}

/// Elements of the value for each element of the result, and their weights; `None` for a single one that is copied.
struct Tap {
    indices: Vec<i32>,
    weights: Option<Vec<f64>>,
}

/// The elements that each element on an axis is computed from.
fn taps(side: Side, coordinates: Coordinates, mode: Mode) -> Vec<Tap> {
    let places: Vec<f64> = (0..side.len).map(|i| coordinates.place(i, side)).collect();
    let last = i64::try_from(side.from).unwrap_or(i64::MAX) - 1;
    let index = |place: f64, shift: i64| {
        #[expect(clippy::cast_possible_truncation, reason = "the place is within the axis, or near to it")]
        let place = (place.floor() as i64).saturating_add(shift).clamp(0, last);
        i32::try_from(place).unwrap_or(i32::MAX)
    };
    let all = |shift: i64| places.iter().map(|place| index(*place, shift)).collect::<Vec<_>>();
    match mode {
        Mode::Nearest(rounding) => {
            let indices = places.iter().map(|place| index(rounding.round(*place), 0)).collect();
            vec![Tap { indices, weights: None }]
        }
        Mode::Linear => {
            #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^48")]
            let last = last as f64;
            let clamped: Vec<f64> = places.iter().map(|place| place.clamp(0.0, last)).collect();
            let near = |shift: i64| clamped.iter().map(|place| index(*place, shift)).collect::<Vec<_>>();
            let share = clamped.iter().map(|place| place - place.floor());
            let (first, second) = share.map(|share| (1.0 - share, share)).unzip();
            vec![
                Tap { indices: near(0), weights: Some(first) },
                Tap { indices: near(1), weights: Some(second) },
            ]
        }
        Mode::Cubic { a, exclude_outside } => {
            let weights: Vec<[f64; 4]> =
                places.iter().map(|place| cubic(*place, a, exclude_outside.then_some(last))).collect();
            let of = |tap: usize| weights.iter().map(|weights| weights[tap]).collect();
            [-1, 0, 1, 2]
                .into_iter()
                .zip(0..4)
                .map(|(shift, tap)| Tap { indices: all(shift), weights: Some(of(tap)) })
                .collect()
        }
    }
}

/// The weights of the four elements around a place; those beyond the `last` one are 0 if it is given.
fn cubic(place: f64, a: f64, last: Option<i64>) -> [f64; 4] {
    let share = place - place.floor();
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    let mut weights = [far(share + 1.0), near(share), near(1.0 - share), far(2.0 - share)];
    if let Some(last) = last {
        #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^48")]
        let is_inside = |shift: f64| (0.0..=last as f64).contains(&(place.floor() + shift));
        for (weight, shift) in weights.iter_mut().zip([-1.0, 0.0, 1.0, 2.0]) {
            *weight = if is_inside(shift) { *weight } else { 0.0 };
        }
        let sum: f64 = weights.iter().sum();
        weights = weights.map(|weight| weight / sum);
    }
    weights
}

/// Computes each element on an axis as `Σ weight·element`, in the order of the taps.
fn resized(lowering: &mut Lowering, x: &Local, axis: usize, taps: &[Tap]) -> Result<Local> {
    let rank = x.shape().len();
    // The axis comes first, and goes back.
    let first: Vec<usize> = [axis].into_iter().chain((0..rank).filter(|other| *other != axis)).collect();
    let outer: usize = x.shape()[..axis].iter().product();
    let x = if outer == 1 { x.clone() } else { lowering.transposed(x, &first)? };
    let axis_now = if outer == 1 { axis } else { 0 };
    let mut sum: Option<Local> = None;
    for tap in taps {
        let indices =
            list(lowering, Load::Integers(tap.indices.clone()), tap.indices.len(), Numbers::Integer);
        let mut found = lowering.looked_up(&x, axis_now, &indices)?;
        if let Some(weights) = &tap.weights {
            let weights = list(lowering, Load::Reals(weights.clone()), weights.len(), Numbers::Real);
            let mut shape = vec![1; rank];
            shape[axis_now] = tap.indices.len();
            found = lowering.combine(Pairwise::Multiply, &found, &weights.reshaped(shape))?;
        }
        sum = Some(match sum {
            Some(sum) => lowering.combine(Pairwise::Add, &sum, &found)?,
            None => found,
        });
    }
    let sum = sum.ok_or_else(|| Error::corrupt("an axis is resized from nothing"))?;
    if outer == 1 {
        return Ok(sum);
    }
    let back: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
    lowering.transposed(&sum, &back)
}

fn list(lowering: &mut Lowering, load: Load, len: usize, numbers: Numbers) -> Local {
    Local { operand: lowering.load(load), info: Info { shape: vec![len], numbers } }
}
