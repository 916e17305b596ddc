//! The result of comparing two arrays.

use serde::Serialize;

/// Whether a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// There was nothing to compare.
    NotCompared,
}

impl Verdict {
    /// Returns [`Verdict::Pass`] or [`Verdict::Fail`].
    pub fn of(passes: bool) -> Self {
        if passes { Verdict::Pass } else { Verdict::Fail }
    }

    /// Whether it is not [`Verdict::Fail`].
    pub fn passes(self) -> bool {
        self != Verdict::Fail
    }

    /// Returns the name in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotCompared => "not-compared",
        }
    }
}

/// Two arrays compared by a rule.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Shape of both arrays.
    pub shape: Vec<usize>,
    /// Measures of the error.
    pub metrics: Metrics,
    /// Distribution of the errors.
    pub histogram: Histogram,
    /// What the rule demands; all of it must hold.
    pub checks: Vec<Check>,
    /// Whether all checks hold.
    pub verdict: Verdict,
}

/// One demand of a rule: `found ≤ limit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// The quantity that is limited.
    pub name: String,
    /// Its value; `None` (null) for NaN and infinity, which never hold.
    pub found: Option<f64>,
    /// The largest value allowed.
    pub limit: f64,
}

impl Check {
    /// Creates a check that `found` is at most `limit`.
    pub fn new(name: &str, found: f64, limit: f64) -> Self {
        Check { name: name.to_owned(), found: found.is_finite().then_some(found), limit }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.found.is_some_and(|found| found <= self.limit)
    }
}

/// Measures of the error of an array, `e = found − reference`. Sums and maxima are over the elements that are finite on
/// both sides; the others count in [`Metrics::not_finite`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Number of elements.
    pub elements: u64,
    /// Elements with different bits; two NaN are equal.
    pub differing: u64,
    /// Elements that are NaN or infinite on one side, and not the same on the other.
    pub not_finite: u64,
    /// Largest `|e|`.
    pub max_absolute: f64,
    /// Largest `|e| / |reference|` where the reference is not 0.
    pub max_relative: f64,
    /// `√(Σe² / elements)`.
    pub rms: f64,
    /// `‖e‖₂ / ‖reference‖₂`; `None` if the reference is 0 and the array is not.
    pub relative_l2: Option<f64>,
    /// `max|e| / max|reference|`; `None` if the reference is 0 and the array is not.
    pub relative_max: Option<f64>,
    /// Cosine of the angle between the two; `None` if one of them is 0.
    pub cosine: Option<f64>,
    /// Largest distance in units in the last place of the narrower of both types; `None` for integers.
    pub max_ulp: Option<u64>,
    /// The element with the largest `|e|`, or else the first that is not finite on one side; `None` if all are
    /// equal.
    #[serde(rename = "where")]
    pub worst: Option<WorstElement>,
}

/// The element that differs most.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorstElement {
    /// Its index on each axis.
    pub index: Vec<u64>,
    /// The reference's value, as text because it may be NaN.
    pub reference: String,
    /// The value found, as text.
    pub found: String,
}

/// Distribution of errors over magnitudes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Histogram {
    /// Elements without an error.
    pub exact: u64,
    /// Elements with `10^exponent ≤ |e| < 10^(exponent + 1)`, ascending, empty decades left out.
    pub decades: Vec<Decade>,
    /// As [`Metrics::not_finite`].
    pub not_finite: u64,
}

/// Errors of one order of magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Decade {
    /// The power of ten.
    pub exponent: i32,
    /// Number of elements.
    pub count: u64,
}

/// How often the largest element of a row stands at the same index in both arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Argmax {
    /// Number of rows.
    pub rows: usize,
    /// Rows whose largest element stands at the same index.
    pub agreeing: usize,
    /// Rows whose margin, the lead of the reference's largest element over the next, exceeds the errors allowed for
    /// both.
    pub decided: usize,
    /// The decided rows that agree; all must.
    pub decided_agreeing: usize,
}
