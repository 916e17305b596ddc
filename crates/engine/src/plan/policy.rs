//! Which losses a conversion may have.

use crate::settings;
use ckpt_api::{Error, Loss, LossKind, Result, Setting, Text, text};
use std::collections::BTreeSet;

/// Which losses the user accepts. By default those that do not change what the model computes.
///
/// ```
/// use ckpt::api::LossKind;
/// let policy = ckpt::Policy::new().allow(LossKind::WeightDropped).strict(true);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Policy {
    /// Accept every loss.
    pub allow_all: bool,
    /// Accept these although they change what the model computes.
    pub allow: BTreeSet<LossKind>,
    /// Stop at losses that change nothing in what the model computes, too.
    pub strict: bool,
}

impl Policy {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts this kind of loss. Default: none that changes what the model computes.
    #[must_use]
    pub fn allow(mut self, kind: LossKind) -> Self {
        self.allow.insert(kind);
        self
    }

    /// Whether every loss is accepted. Default: no.
    #[must_use]
    pub fn allow_all(mut self, allow_all: bool) -> Self {
        self.allow_all = allow_all;
        self
    }

    /// Whether losses that do not change what the model computes stop the conversion, too. Default: no.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Accepts the loss called `name`, or all of them for `all`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], listing the known kinds.
    pub fn accept(&mut self, name: &str) -> Result<()> {
        if name == "all" {
            self.allow_all = true;
            return Ok(());
        }
        let kind = LossKind::from_name(name).ok_or_else(|| {
            let known = LossKind::ALL.iter().map(|kind| kind.name()).chain(["all"]);
            Error::usage("unknown kind of loss")
                .field(Setting::ALLOW)
                .found(format!("'{name}'"))
                .help(ckpt_api::nearest(name, known))
        })?;
        self.allow.insert(kind);
        Ok(())
    }

    fn refuses(&self, kind: LossKind) -> bool {
        !self.allow_all && !self.allow.contains(&kind) && (self.strict || kind.changes_function())
    }

    /// Stops a conversion that would lose what the user did not accept.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Lossy`], naming the losses and how to accept them.
    pub fn judge(&self, losses: &[Loss]) -> Result<()> {
        const SHOWN: usize = 4;
        let refused: Vec<&Loss> = losses.iter().filter(|loss| self.refuses(loss.kind)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let shown = refused
            .iter()
            .map(|loss| format!("{} '{}' ({})", loss.kind.name(), loss.subject, loss.detail.as_str()));
        let kinds: BTreeSet<&str> = refused.iter().map(|loss| loss.kind.name()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(",");
        let message = match refused.iter().any(|loss| loss.kind.changes_function()) {
            true => "the conversion would change what the model computes".into(),
            false => text!["the target cannot hold everything, and ", settings::STRICT, " forbids losses"],
        };
        // What scales multiply can be stored as what it stands for.
        let has_scales = refused.iter().any(|loss| loss.kind == LossKind::ScaleDropped);
        let decode = match has_scales {
            true => text!["to store the numbers that scales make, use ", Setting::DTYPE.of("f32"), "; "],
            false => Text::default(),
        };
        Err(Error::lossy(message).found(ckpt_api::first_few(shown, SHOWN)).help(text![
            decode,
            "to accept this, use ",
            Setting::ALLOW.of(&kinds),
            "; to leave tensors out, use ",
            Setting::EXCLUDE
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_changes_the_function_stops_unless_it_is_allowed_by_name() {
        let losses = [Loss::new(LossKind::WeightDropped, "w", "no place")];
        let mut policy = Policy::default();
        let error = policy.judge(&losses).unwrap_err();
        assert!(error.to_string().contains("LossKind::WeightDropped"), "{error}");
        policy.accept("weight-dropped").unwrap();
        policy.judge(&losses).unwrap();
    }

    #[test]
    fn a_harmless_loss_stops_only_a_strict_conversion() {
        let losses = [Loss::new(LossKind::CounterDropped, "step", "no place")];
        let mut policy = Policy::default();
        policy.judge(&losses).unwrap();
        policy.strict = true;
        assert_eq!(policy.judge(&losses).unwrap_err().kind(), ckpt_api::Kind::Lossy);
        policy.accept("all").unwrap();
        policy.judge(&losses).unwrap();
    }

    #[test]
    fn an_unknown_loss_lists_the_known_ones() {
        let error = Policy::default().accept("weights-dropped").unwrap_err();
        assert!(error.to_string().contains("did you mean 'weight-dropped'"), "{error}");
    }
}
