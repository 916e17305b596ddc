//! Lengths of axes and other integers that are known before the model runs, perhaps but for a free axis.

/// An integer: known, or that of a free axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Known(i64),
    /// A multiple of the length of a free axis, plus a number.
    Free {
        axis: usize,
        times: i64,
        plus: i64,
    },
    Unknown,
}

/// The shape of values that are broadcast to each other.
pub(super) fn broadcast(shapes: &[Vec<Length>]) -> Vec<Length> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = vec![Length::Known(1); rank];
    for shape in shapes {
        for (own, other) in all.iter_mut().skip(rank - shape.len()).zip(shape) {
            *own = match (*own, *other) {
                (Length::Known(1), other) => other,
                (own, Length::Known(1)) => own,
                (own, other) if own == other => own,
                (Length::Known(len), _) | (_, Length::Known(len)) => Length::Known(len),
                _ => Length::Unknown,
            };
        }
    }
    all
}

impl Length {
    /// The length of a free axis.
    pub(super) fn free(axis: usize) -> Self {
        Length::Free { axis, times: 1, plus: 0 }
    }

    pub(super) fn known(self) -> Option<i64> {
        match self {
            Length::Known(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn add(self, other: Self) -> Self {
        match (self, other) {
            (Length::Known(a), Length::Known(b)) => a.checked_add(b).map_or(Length::Unknown, Length::Known),
            (Length::Free { axis, times, plus }, Length::Known(b))
            | (Length::Known(b), Length::Free { axis, times, plus }) => {
                plus.checked_add(b).map_or(Length::Unknown, |plus| Length::Free { axis, times, plus })
            }
            (
                Length::Free { axis, times, plus },
                Length::Free { axis: other, times: more, plus: further },
            ) if axis == other => match (times.checked_add(more), plus.checked_add(further)) {
                (Some(0), Some(plus)) => Length::Known(plus),
                (Some(times), Some(plus)) => Length::Free { axis, times, plus },
                _ => Length::Unknown,
            },
            _ => Length::Unknown,
        }
    }

    pub(super) fn negated(self) -> Self {
        self.times(-1)
    }

    pub(super) fn times(self, factor: i64) -> Self {
        match self {
            Length::Known(a) => a.checked_mul(factor).map_or(Length::Unknown, Length::Known),
            Length::Free { axis, times, plus } => match (times.checked_mul(factor), plus.checked_mul(factor))
            {
                (Some(0), Some(plus)) => Length::Known(plus),
                (Some(times), Some(plus)) => Length::Free { axis, times, plus },
                _ => Length::Unknown,
            },
            Length::Unknown => Length::Unknown,
        }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        match (self, other) {
            (a, Length::Known(b)) | (Length::Known(b), a) => a.times(b),
            _ => Length::Unknown,
        }
    }

    /// The quotient, rounded towards zero, where it is known for every length.
    pub(super) fn divide(self, other: Self) -> Self {
        match (self, other) {
            (Length::Known(a), Length::Known(b)) => a.checked_div(b).map_or(Length::Unknown, Length::Known),
            (Length::Free { axis, times, plus }, Length::Known(b))
                if times.checked_rem(b) == Some(0) && plus.checked_rem(b) == Some(0) =>
            {
                Length::Free { axis, times: times / b, plus: plus / b }
            }
            (a, b) if a == b && a != Length::Unknown => Length::Known(1),
            _ => Length::Unknown,
        }
    }
}
