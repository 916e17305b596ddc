//! Linear models and what is done to rows of numbers before them, `ai.onnx.ml`.

use super::super::values::{Attributes, Read};
use super::parts::Parts;
use crate::format::message::Node;
use ckpt_api::Op;

/// The classes of a model.
pub(super) struct Labels {
    /// Integers; `None` if they are texts.
    numbers: Option<Vec<i64>>,
    count: usize,
}

impl Labels {
    pub(super) fn of(node: &Node) -> Read<Self> {
        let numbers = ["classlabels_int64s", "classlabels_ints"].iter().find_map(|name| node.ints(name));
        let texts = ["classlabels_strings"].iter().find_map(|name| node.texts(name));
        match (numbers, texts) {
            (Some(numbers), _) if !numbers.is_empty() => {
                Ok(Labels { numbers: Some(numbers.to_vec()), count: numbers.len() })
            }
            (_, Some(texts)) if !texts.is_empty() => Ok(Labels { numbers: None, count: texts.len() }),
            _ => Err("has no classes".to_owned()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Parts<'_, '_> {
    /// `LinearRegressor`.
    pub(super) fn regress(&mut self) -> Read<()> {
        let count = self.node.int("targets").unwrap_or(1);
        let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or("has no targets")?;
        let value = self.products(count)?;
        let value = self.transformed(&value, count)?;
        self.finish(0, &value);
        Ok(())
    }

    /// `LinearClassifier`, with coefficients of each class.
    pub(super) fn classify(&mut self) -> Read<()> {
        let labels = Labels::of(self.node)?;
        let sums = self.products(labels.count())?;
        let scores = self.transformed(&sums, labels.count())?;
        self.label(&labels, &sums)?;
        self.finish(1, &scores);
        Ok(())
    }

    /// `Scaler`: numbers for each column, or one for all.
    pub(super) fn scale(&mut self) -> Read<()> {
        let mut value = self.rows()?;
        for (name, op) in [("offset", Op::Sub), ("scale", Op::Mul)] {
            if self.node.has(name) {
                let list = self.list(name)?;
                value = self.apply(op, &[&value, &list]);
            }
        }
        self.finish(0, &value);
        Ok(())
    }

    /// `Normalizer`: each row is divided by its size, unless that is 0.
    pub(super) fn normalize_rows(&mut self) -> Read<()> {
        let x = self.rows()?;
        let size = match self.node.text("norm").unwrap_or("MAX") {
            "L1" => self.reduce(Op::ReduceL1, &x, &[1], true),
            "L2" => self.reduce(Op::ReduceL2, &x, &[1], true),
            "MAX" => self.reduce(Op::ReduceMax, &x, &[1], true),
            other => return Err(format!("has a norm that is not supported, {}", other.escape_debug())),
        };
        let zero = self.number(0.0);
        let one = self.number(1.0);
        let is_zero = self.apply(Op::Equal, &[&size, &zero]);
        let size = self.choose(&is_zero, &one, &size);
        let value = self.div(&x, &size);
        self.finish(0, &value);
        Ok(())
    }

    /// `Binarizer`: whether a number exceeds a bound.
    pub(super) fn binarize(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let bound = self.number(self.node.float("threshold").unwrap_or(0.0).into());
        let exceeds = self.apply(Op::Greater, &[&x, &bound]);
        let value = self.cast(&exceeds, "float");
        self.finish(0, &value);
        Ok(())
    }

    /// `Imputer`: what is no number, or is a given one, gets another one.
    pub(super) fn impute(&mut self) -> Read<()> {
        let x = self.rows()?;
        let replaced = self.node.float("replaced_value_float").unwrap_or(0.0);
        let is_replaced = match replaced.is_nan() {
            true => self.apply(Op::IsNaN, &[&x]),
            false => {
                let replaced = self.number(replaced.into());
                self.apply(Op::Equal, &[&x, &replaced])
            }
        };
        let list = self.list("imputed_value_floats")?;
        let value = self.choose(&is_replaced, &list, &x);
        let shape = self.dims(&x)?;
        self.reader.set_shape(&value, Some(shape));
        self.finish(0, &value);
        Ok(())
    }

    /// `LabelEncoder`: numbers by others.
    pub(super) fn look_up(&mut self) -> Read<()> {
        let (x, node) = (self.input(0)?, self.node);
        let mut list = |ints: &str, floats: &str| match node.ints(ints) {
            Some(ints) => Ok((self.integers(ints.to_vec(), &[ints.len() as i64]), ints.len())),
            None => Ok((self.list(floats)?, node.floats(floats).map_or(0, <[f32]>::len))),
        };
        let looked_up: Read<_> = list("keys_int64s", "keys_floats");
        let given: Read<_> = list("values_int64s", "values_floats");
        let ((keys, count), (values, len)) = (looked_up?, given?);
        if count == 0 || count != len {
            return Err("has not one value for each key".to_owned());
        }
        let default = match node.has("values_int64s") {
            true => self.integer(node.int("default_int64").unwrap_or(-1)),
            false => self.number(node.float("default_float").unwrap_or(-0.0).into()),
        };
        let each = self.unsqueeze(&x, &[-1]);
        let is_key = self.apply(Op::Equal, &[&each, &keys]);
        let attributes = Attributes::new().int("axis", -1).int("keepdims", 0);
        let place = self.with(Op::ArgMax, &[&is_key], attributes);
        let found = self.gather(&values, &place, 0);
        let is_known = self.reduce(Op::ReduceMax, &is_key, &[-1], false);
        let value = self.choose(&is_known, &found, &default);
        self.finish(0, &value);
        Ok(())
    }

    /// `FeatureVectorizer`: columns of several values, one after the other.
    pub(super) fn join_features(&mut self) -> Read<()> {
        let mut all = Vec::new();
        for at in 0..self.node.inputs.len() {
            let value = self.input(at)?;
            if self.rank(&value)? != 2 {
                return Err("takes values that are no rows".to_owned());
            }
            all.push(self.cast(&value, "float"));
        }
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let value = self.concat(&names, 1);
        self.finish(0, &value);
        Ok(())
    }

    /// `ArrayFeatureExtractor`: columns by their places.
    pub(super) fn take_features(&mut self) -> Read<()> {
        let (x, places) = (self.input(0)?, self.input(1)?);
        let rank = self.rank(&x)?;
        let places = self.reshape(&places, &[-1]);
        let value = self.gather(&x, &places, rank as i64 - 1);
        self.finish(0, &value);
        Ok(())
    }

    /// `ZipMap`: the scores, which it gives the names of their classes.
    pub(super) fn pass_scores(&mut self) -> Read<()> {
        let scores = self.input(0)?;
        self.finish(0, &scores);
        Ok(())
    }

    /// The first input, as rows of 32-bit floats.
    pub(super) fn rows(&mut self) -> Read<String> {
        let x = self.input(0)?;
        if self.rank(&x)? != 2 {
            return Err("takes a value that is no rows".to_owned());
        }
        match self.dtype(0) {
            Some(dtype) if dtype.is_float() => Ok(x),
            _ => Ok(self.cast(&x, "float")),
        }
    }

    /// A list of floats among the attributes: a tensor of the checkpoint.
    pub(super) fn list(&mut self, name: &str) -> Read<String> {
        let numbers = self.node.floats(name).ok_or_else(|| format!("lacks its {name}"))?;
        let len = i64::try_from(numbers.len()).unwrap_or(i64::MAX);
        match self.node.list(name).and_then(|stored| self.reader.listed(stored)) {
            Some(id) => Ok(self.reader.stored_constant(self.node.layer(), id)),
            None => Ok(self.numbers(numbers.iter().map(|number| f64::from(*number)).collect(), &[len])),
        }
    }

    /// Products of rows with coefficients, `count` rows of them, and the intercepts.
    fn products(&mut self, count: usize) -> Read<String> {
        let x = self.rows()?;
        let coefficients = self.node.floats("coefficients").map_or(0, <[f32]>::len);
        if !coefficients.is_multiple_of(count) {
            return Err("has coefficients that are not the same number for each result".to_owned());
        }
        let coefficients = self.list("coefficients")?;
        let rows = self.reshape(&coefficients, &[i64::try_from(count).unwrap_or(i64::MAX), -1]);
        let turned = self.transpose(&rows, &[1, 0]);
        let mut value = self.apply(Op::MatMul, &[&x, &turned]);
        if self.node.has("intercepts") {
            let list = self.list("intercepts")?;
            value = self.add(&value, &list);
        }
        Ok(value)
    }

    /// Adds the base values, one for each result or one for all.
    pub(super) fn with_bases(&mut self, value: String) -> Read<String> {
        match self.node.floats("base_values") {
            Some([]) | None => Ok(value),
            Some(_) => {
                let bases = self.list("base_values")?;
                Ok(self.add(&value, &bases))
            }
        }
    }

    /// The function at the end of a model, of so many results.
    pub(super) fn transformed(&mut self, value: &str, count: usize) -> Read<String> {
        match self.node.text("post_transform").unwrap_or("NONE") {
            "NONE" => Ok(value.to_owned()),
            _ if count == 1 => {
                Err("ends in a function of one result, which onnxruntime leaves out".to_owned())
            }
            "SOFTMAX" => Ok(self.softmax(value, 1)),
            "LOGISTIC" => Ok(self.apply(Op::Sigmoid, &[value])),
            other => Err(format!("ends in a function that is not supported, {}", other.escape_debug())),
        }
    }

    /// The label of the class with the largest score.
    pub(super) fn label(&mut self, labels: &Labels, scores: &str) -> Read<()> {
        let attributes = Attributes::new().int("axis", 1).int("keepdims", 0);
        let best = self.with(Op::ArgMax, &[scores], attributes);
        self.label_at(labels, &best)
    }

    /// The label of the class at a place.
    pub(super) fn label_at(&mut self, labels: &Labels, place: &str) -> Read<()> {
        match &labels.numbers {
            None => self.makes_no(&[0]).map_err(|_| "has texts as labels, which are taken".to_owned()),
            Some(numbers) => {
                let all = self.integers(numbers.clone(), &[numbers.len() as i64]);
                let label = self.gather(&all, place, 0);
                self.finish(0, &label);
                Ok(())
            }
        }
    }
}
