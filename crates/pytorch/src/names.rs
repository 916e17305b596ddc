//! Names in Python that are made of names in a checkpoint, which may hold anything.

use std::collections::HashSet;

/// Words that name no attribute: Python's own, and attributes that every `nn.Module` or `nn.Sequential` has.
const TAKEN: &[&str] = &[
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "match",
    "case",
    "type",
    "print",
    "self",
    "super",
    "len",
    "torch",
    "nn",
    "F",
    "T_destination",
    "add_module",
    "append",
    "apply",
    "bfloat16",
    "buffers",
    "call_super_init",
    "children",
    "compile",
    "cpu",
    "cuda",
    "double",
    "dump_patches",
    "eval",
    "extend",
    "extra_repr",
    "float",
    "forward",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "half",
    "insert",
    "ipu",
    "load_state_dict",
    "modules",
    "mtia",
    "named_buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "parameters",
    "pop",
    "register_backward_hook",
    "register_buffer",
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_module",
    "register_parameter",
    "register_state_dict_post_hook",
    "register_state_dict_pre_hook",
    "requires_grad_",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "state_dict",
    "to",
    "to_empty",
    "train",
    "training",
    "xpu",
    "zero_grad",
    "pad_same",
    "lengths",
];

/// Characters of a name that are kept: longer ones are cut.
const LONGEST: usize = 80;

/// Gives names to modules or variables, each once.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// Returns a name like `wanted` that is an identifier, and that nothing else has.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        let plain = identifier(wanted);
        let mut name = plain.clone();
        let mut number = 1u64;
        while self.taken.contains(&name) {
            number += 1;
            name = format!("{plain}_{number}");
        }
        self.taken.insert(name.clone());
        name
    }

    /// Makes a name free again.
    pub(super) fn free(&mut self, name: &str) {
        self.taken.remove(name);
    }

    /// Returns whether nothing has this name.
    pub(super) fn is_free(&self, name: &str) -> bool {
        !self.taken.contains(name)
    }

    /// Takes a name that is an identifier already.
    pub(super) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }
}

/// Whether an attribute of a module has this name already, or Python gives it a meaning.
pub(super) fn is_taken(name: &str) -> bool {
    TAKEN.contains(&name)
}

/// Returns an identifier of ASCII letters, digits and underscores that is like a name.
pub(super) fn identifier(name: &str) -> String {
    let letters = name.chars().take(LONGEST).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let letters: String = letters.collect();
    // Names that begin with two underscores are changed within a class; `_` alone is for what is not used.
    let trimmed = letters.trim_matches('_');
    let plain = if trimmed.is_empty() { "layer" } else { trimmed };
    let is_digit = plain.starts_with(|c: char| c.is_ascii_digit());
    match TAKEN.contains(&plain) {
        _ if is_digit => format!("layer_{plain}"),
        true => format!("{plain}_"),
        false => plain.to_owned(),
    }
}

/// Returns the name of a class: `MyModel` of `my_model`.
pub(super) fn class(name: &str) -> String {
    let words = identifier(name);
    let words = words.split('_').filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    let name: String = words.map(capital).collect();
    match name.as_str() {
        "" | "Layer" => "Model".to_owned(),
        // What Keras calls a model without a name of its own.
        own if own.starts_with("Sequential") || own.starts_with("Functional") => "Model".to_owned(),
        "F" | "None" | "True" | "False" => name + "Model",
        _ => name,
    }
}

/// Returns a name as a string of Python: printable ASCII, all else escaped.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a number as Python has it, with as few digits as state the same 32-bit float.
pub(super) fn number(value: f64) -> String {
    if value.is_nan() {
        return "float(\"nan\")".to_owned();
    }
    if value.is_infinite() {
        return format!("float(\"{}inf\")", if value < 0.0 { "-" } else { "" });
    }
    let single = value as f32;
    match f64::from(single) == value {
        true => format!("{single:?}"),
        false => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_anything_become_identifiers() {
        let hostile = "x = 1\nimport os; os.system('true')  # \u{202e}";
        for name in ["conv2d_1", "a/b.c", "1", "", "__x__", "class", "forward", hostile, &"n".repeat(4000)] {
            let made = identifier(name);
            assert!(made.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{made}");
            assert!(!made.is_empty() && !made.starts_with(|c: char| c.is_ascii_digit()), "{made}");
            assert!(
                !TAKEN.contains(&made.as_str()) && !made.starts_with("__") && made.len() <= 100,
                "{made}"
            );
        }
        assert_eq!(identifier("conv2d_1"), "conv2d_1");
        assert_eq!(class("my_model"), "MyModel");
    }

    #[test]
    fn each_name_is_given_once() {
        let mut names = Names::default();
        assert_eq!(
            [names.unique("a.b"), names.unique("a/b"), names.unique("a_b")],
            ["a_b", "a_b_2", "a_b_3"]
        );
    }

    #[test]
    fn strings_are_escaped_and_numbers_are_short() {
        assert_eq!(string("a\"\\\n\u{1f600}é"), "\"a\\\"\\\\\\u000a\\U0001f600\\u00e9\"");
        assert_eq!(number(f64::from(1e-3f32)), "0.001");
        assert_eq!(number(0.99), "0.99");
        assert_eq!(number(f64::NEG_INFINITY), "float(\"-inf\")");
        assert_eq!(number(1e-7), "1e-7");
    }
}
