//! The code of a TorchScript archive, as far as it states what its classes have.

use ckpt_api::{File, Limit, Limits, Result};
use ckpt_containers::pickle::{Tree, Value};
use ckpt_containers::zip::{Entry, Member};
use std::collections::{HashMap, HashSet};

/// The parameters and buffers of the classes of a TorchScript archive: what is neither of them is an attribute.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// By the class's module and name.
    fields: HashMap<(String, String), HashSet<String>>,
}

impl Classes {
    /// The names of a class's parameters and buffers; `None` if the code does not state them, as that of old versions.
    pub(crate) fn fields(&self, (module, name): (&str, &str)) -> Option<&HashSet<String>> {
        self.fields.get(&(module.to_owned(), name.to_owned()))
    }

    /// Reads the code of the modules whose classes the pickle names. `find` returns the member of a name.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for code that is too long, and what keeps a member from being read.
    pub(crate) fn read<'a>(
        tree: &Tree,
        file: &File,
        find: impl Fn(&str) -> Option<(&'a Entry, &'a Member)>,
        limits: &Limits,
    ) -> Result<Self> {
        let mut classes = Classes::default();
        let modules: HashSet<&str> = tree
            .ids()
            .filter_map(|id| match tree.value(id) {
                Value::Global(module, _) if module.starts_with("__torch__") => Some(module),
                _ => None,
            })
            .collect();
        let mut read = 0u64;
        for module in modules {
            let Some((entry, member)) = find(&format!("code/{}.py", module.replace('.', "/"))) else {
                continue;
            };
            read = read.saturating_add(member.len);
            limits.check(Limit::TextBytes, read).map_err(|error| error.field(&entry.name))?;
            if entry.crc != 0 {
                member.check_crc(file, entry.crc).map_err(|error| error.field(&entry.name))?;
            }
            let (source, start) = member.open(file)?;
            let code = source.bytes(start, member.len)?;
            classes.add(module, &String::from_utf8_lossy(&code));
        }
        Ok(classes)
    }

    /// Adds the classes that a module defines:
    ///
    /// ```text
    /// class Linear(Module):
    ///   __parameters__ = ["weight", "bias", ]
    ///   __buffers__ = []
    /// ```
    fn add(&mut self, module: &str, code: &str) {
        let mut lines = code.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(class) = line.strip_prefix("class ") else { continue };
            let (name, bases) = class.split_once(['(', ':']).unwrap_or((class, ""));
            let is_module = bases.starts_with("Module)");
            let mut list = |key: &str| {
                let list = lines.peek()?.trim_start().strip_prefix(key)?.trim_start().strip_prefix("= [")?;
                let names: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
                lines.next();
                Some(names)
            };
            let stated = list("__parameters__").zip(list("__buffers__"));
            let fields = match (stated, is_module) {
                (Some((parameters, buffers)), _) => parameters.into_iter().chain(buffers).collect(),
                (None, false) => HashSet::new(),
                // Before buffers were stated.
                (None, true) => continue,
            };
            self.fields.insert((module.to_owned(), name.to_owned()), fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_buffers_are_what_the_code_states() {
        let mut classes = Classes::default();
        let code = "class A(Module):\n  __parameters__ = [\"w\", \"b\", ]\n  __buffers__ = [\"mean\", ]\n  x : Tensor\n\
                    class Old(Module):\n  __parameters__ = [\"w\", ]\n  w : Tensor\n\
                    class Plain:\n  t : Tensor\n";
        classes.add("__torch__", code);
        let fields = |name| {
            classes.fields(("__torch__", name)).map(|fields| {
                let mut fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                fields.sort_unstable();
                fields
            })
        };
        assert_eq!(fields("A"), Some(vec!["b", "mean", "w"]));
        assert_eq!(fields("Old"), None);
        assert_eq!(fields("Plain"), Some(vec![]));
    }
}
