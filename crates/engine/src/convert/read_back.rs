//! Reading an output back: before it gets its names, or right after where its store cannot show it before.

use super::reread::Reread;
use super::{Commit, Execution, Phase, Planned, Summary, Verification, computed, examine, record};
use crate::execute::{ItemResult, verified_by_checksums};
use crate::store::Stage;
use ckpt_api::{Error, Kind, ReadAt, ReadStore, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What reading back found.
struct Found {
    verification: Option<Verification>,
    /// The text of the receipt, if one was asked for.
    receipt: Option<String>,
}

/// What is known of an output before it is read back.
pub(super) struct Written<'a> {
    pub(super) receipts: &'a [ItemResult],
    /// Bytes that share blocks with the source.
    pub(super) cloned: u64,
}

impl Planned {
    /// Looks at what is complete but for its names, as far as that was asked for, and adds the receipt.
    pub(super) fn read_back_staged(
        &self,
        stage: &mut dyn Stage,
        written: &Written<'_>,
        options: &Commit,
        execution: &Execution,
    ) -> Result<Option<Verification>> {
        if !options.reads_back() || !stage.is_readable() {
            return Ok(None);
        }
        execution.phases.begin(Phase::ReadBack);
        let verified = match options.verify {
            true => verified_by_checksums(&self.run(stage, execution, &|_| ()), written.receipts)?,
            false => Vec::new(),
        };
        let known = (&verified[..], written.cloned);
        let Found { verification, receipt } = self.read_back(&stage.written(), known, options, execution)?;
        if let (Some(path), Some(text)) = (&options.receipt, receipt) {
            let file = stage.attach(&path.to_string_lossy())?;
            stage.file(file)?.write_at(0, text.as_bytes())?;
        }
        Ok(verification)
    }

    /// Looks at what has its names, as far as that was asked for, and writes the receipt.
    pub(super) fn read_back_committed(
        &self,
        summary: Summary,
        options: &Commit,
        execution: &Execution,
    ) -> Result<Summary> {
        if !options.reads_back() {
            return Ok(summary);
        }
        execution.phases.begin(Phase::ReadBack);
        let has_names = |error| has_names(error, execution.canceled.load(Ordering::Relaxed));
        let found = self.committed().and_then(|files| self.read_back(&files, (&[], 0), options, execution));
        let Found { verification, receipt } = found.map_err(has_names)?;
        let verification = verification.map(|found| Verification { after_commit: true, ..found });
        let mut summary = Summary { verification, ..summary };
        if let (Some(path), Some(text)) = (&options.receipt, receipt) {
            let place = self.registry.addresses().destination(path).map_err(has_names)?;
            place.write(text.as_bytes(), self.plan.target.overwrite).map_err(has_names)?;
            summary.receipt = Some(place.store.display(place.name()).into());
        }
        Ok(summary)
    }

    /// The files of the output, under the names that they have.
    fn committed(&self) -> Result<Arc<dyn ReadStore>> {
        let store = &self.output.store;
        let names: Vec<String> = self.plan.files().iter().map(|file| file.name.clone()).collect();
        store.forget();
        store.will_open(&names);
        let opened = names.into_iter().map(|name| store.open(&name).map(|file| (name, file)));
        Ok(Arc::new(opened.collect::<Result<BTreeMap<String, Arc<dyn ReadAt>>>>()?))
    }

    /// `verified`: for each tensor, whether it is known to be the source's.
    fn read_back(
        &self,
        files: &Arc<dyn ReadStore>,
        (verified, cloned): (&[bool], u64),
        options: &Commit,
        execution: &Execution,
    ) -> Result<Found> {
        let reread = Reread::open(self, files, options)?;
        let examined = examine::examine(self, &reread, verified, options, &execution.canceled)?;
        let computed = match options.verify {
            true => {
                execution.phases.begin(Phase::Compute);
                Some(computed::compute(self, &reread.parts, options)?)
            }
            false => None,
        };
        let verification = computed.map(|computed| Verification::new(self, &examined, computed));
        let receipt = match options.receipt {
            Some(_) => Some(record::text(self, files, &reread, &examined, verification.as_ref(), cloned)?),
            None => None,
        };
        Ok(Found { verification, receipt })
    }
}

impl Commit {
    fn reads_back(&self) -> bool {
        self.verify || self.receipt.is_some()
    }
}

/// The error, which says that the output has its names all the same.
fn has_names(error: Error, is_canceled: bool) -> Error {
    const NAMED: &str = "the store cannot be read before the commit, so the output has its name already";
    // What other errors say of what was kept or made is not so here.
    let help = |help: Option<String>| match (error.kind(), help) {
        (Kind::Mismatch | Kind::Defect, _) => format!("{NAMED}: do not use it; remove it, and convert again"),
        (_, Some(help)) if !is_canceled => format!("{help}; {NAMED}"),
        _ => NAMED.to_owned(),
    };
    let (with, without) = (help(error.context().help.map(str::to_owned)), help(None));
    error.with_help(|_| with).help(without)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_an_output_that_has_its_name_says_so_and_not_that_nothing_was_kept() {
        let differs =
            has_names(Error::mismatch("it differs").help("nothing was kept; look at the disk"), false);
        let help = differs.context().help.unwrap();
        assert!(
            help.contains("has its name already: do not use it") && !help.contains("nothing was kept"),
            "{help}"
        );
        let help = |error: Error| has_names(error, false).context().help.unwrap().to_owned();
        assert!(
            help(Error::usage("the receipt exists").help("choose another"))
                .starts_with("choose another; the store")
        );
        assert!(help(Error::usage("no help")).ends_with("has its name already"));
        let interrupted = has_names(crate::execute::interrupted(), true);
        assert!(interrupted.context().help.unwrap().starts_with("the store cannot"), "{interrupted}");
    }
}
