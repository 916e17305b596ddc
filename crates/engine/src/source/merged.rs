//! A checkpoint whose tensors are made of those of several.

use super::Source;
use crate::execute::Files;
use ckpt_api::{Contents, Error, Input, Result, Ties};
use std::sync::Arc;

impl Source {
    /// The same checkpoint with tensors that are made of its own and of those of `others`.
    ///
    /// `change` gets its contents, whose files are now those of all, and for each of `others` the number that its first file has
    /// there: what [`ckpt_api::Contents::files`] of that checkpoint calls file `n` is `first + n`. The files beside the tensors, such as a
    /// configuration, are this checkpoint's.
    ///
    /// # Errors
    /// Those of `change`, and of [`Contents::check`].
    pub fn merged(
        &self,
        others: &[Source],
        change: impl FnOnce(&mut Contents, &[usize]) -> Result<()>,
    ) -> Result<Source> {
        if !self.input.others().is_empty() || others.iter().any(|other| !other.input.others().is_empty()) {
            return Err(Error::unsupported("a merged checkpoint is merged again")
                .help("write the first result to files, and merge these"));
        }
        Input::check_own_names(self.contents.files.iter().map(String::as_str))?;
        let mut contents = Contents::clone(&self.contents);
        let mut first_files = Vec::new();
        for (number, other) in others.iter().enumerate() {
            first_files.push(contents.files.len());
            let names = other.contents.files.iter();
            contents.files.extend(names.map(|name| Input::name_in_other(number, name)));
        }
        change(&mut contents, &first_files)?;
        contents.checkpoint.ties = Ties::of(&contents);
        contents.check(&self.options.limits)?;
        let input = self.input.joined(others.iter().map(|other| other.input.clone()).collect());
        let grouped =
            self.grouped.as_deref().map(|grouped| Arc::new(grouped.changed(&self.contents, &contents)));
        Ok(Source {
            files: Files::new(&input, &contents),
            input,
            contents: Arc::new(contents),
            grouped,
            index: Arc::default(),
            ..self.clone()
        })
    }
}
