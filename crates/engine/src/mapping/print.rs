//! Writes a mapping as a TOML file.

use super::definition::{Frameworks, Mapping, Need, Parameter};
use super::relation::{Relation, Stack};
use super::rule::{Rule, Separators};
use crate::pattern::{Pattern, SEPARATOR};
use crate::recipe::{AxisStep, Dequantize, Division, Parts};
use crate::words::is_control;
use ckpt_api::DType;

impl Mapping {
    /// Writes the mapping as a file that [`Mapping::from_toml`] reads as the same mapping. Leaves out keys that have
    /// their default values.
    pub fn to_toml(&self) -> String {
        print(self)
    }
}

fn print(mapping: &Mapping) -> String {
    let mut text = String::new();
    if let Some(title) = &mapping.title {
        text += &format!("title = {}\n", string(title));
    }
    let Frameworks { source, target } = &mapping.frameworks;
    for (key, framework) in [("source_framework", source), ("target_framework", target)] {
        if let Some(framework) = framework {
            text += &format!("{key} = {}\n", string(framework));
        }
    }
    let Separators { source, target } = mapping.separators;
    if source != SEPARATOR {
        text += &format!("separator = {}\n", string(&source.to_string()));
    }
    if target != source {
        text += &format!("target_separator = {}\n", string(&target.to_string()));
    }
    for (key, set) in [("identity", mapping.identity), ("ordered", mapping.ordered)] {
        if set {
            text += &format!("{key} = true\n");
        }
    }
    if !mapping.ignore.is_empty() {
        text +=
            &format!("ignore = {}\n", list(mapping.ignore.iter().map(|ignore| ignore.pattern.as_source())));
    }
    if !mapping.ignore_roles.is_empty() {
        let roles = mapping.ignore_roles.iter().map(|role| role.name().to_owned());
        text += &format!("ignore_roles = {}\n", list(roles));
    }
    if !mapping.roles.is_empty() {
        text += "\n[roles]\n";
    }
    for (role, steps) in &mapping.roles {
        text += &format!("{} = {}\n", string(role), list(steps.iter().map(ToString::to_string)));
    }
    for (name, parameter) in &mapping.parameters {
        text += &parameter_text(name, parameter);
    }
    for need in &mapping.needs {
        text += &need_text(need);
    }
    if !mapping.lookup.is_empty() {
        text += "\n[lookup]\n";
    }
    for (source, entry) in &mapping.lookup {
        text += &format!("{} = {}\n", string(source), string(&entry.target));
    }
    for rule in &mapping.rules {
        text += &rule_text(rule);
    }
    text.trim_start_matches('\n').to_owned()
}

fn parameter_text(name: &str, parameter: &Parameter) -> String {
    let Parameter { description, config, metadata, default } = parameter;
    let mut text = format!("\n[parameters.{}]\n", string(name));
    if let Some(description) = description {
        text += &format!("description = {}\n", string(description));
    }
    for (key, keys) in [("config", config), ("metadata", metadata)] {
        if !keys.is_empty() {
            text += &format!("{key} = {}\n", list(keys.iter().cloned()));
        }
    }
    if let Some(default) = default {
        text += &format!("default = {}\n", string(default));
    }
    text
}

fn need_text(need: &Need) -> String {
    let Need { tensor, config, values, reason, stated: _ } = need;
    let mut text = format!("\n[[needs]]\ntensor = {}\n", string(tensor));
    for (key, texts) in [("config", config), ("values", values)] {
        text += &format!("{key} = {}\n", list(texts.iter().cloned()));
    }
    text + &format!("reason = {}\n", string(reason))
}

fn rule_text(rule: &Rule) -> String {
    let from: Vec<String> = rule.from.iter().map(Pattern::as_source).collect();
    let to: Vec<String> = rule.to.iter().map(Pattern::as_target).collect();
    let mut text = format!("\n[[rule]]\nfrom = {}\nto = {}\n", names(&from), names(&to));
    match &rule.relation {
        Relation::One => {}
        Relation::Tie => text += "tie = true\n",
        Relation::Dequantize(how) => text += &dequantize_text(how),
        Relation::Terms | Relation::Sum => text += "sum = true\n",
        // Only mappings that are made for one checkpoint have these: no file can state them.
        Relation::Assemble(_) | Relation::Disassemble(_) => text += "# assembled of several\n",
        Relation::Split { axis, sizes } | Relation::Merge { axis, sizes } => {
            let key = if matches!(rule.relation, Relation::Split { .. }) { "split" } else { "merge" };
            text += &parts_text(key, *axis, sizes_text(rule, sizes.as_deref()));
        }
        Relation::Stack(stack) => text += &stack_text(["stack", "merge"], stack, rule),
        Relation::Unstack(stack) => text += &stack_text(["unstack", "split"], stack, rule),
    }
    match &rule.role {
        Some(role) => text += &format!("role = {}\n", string(role)),
        None if rule.steps.is_empty() => {}
        None => text += &format!("steps = {}\n", list(rule.steps.iter().map(ToString::to_string))),
    }
    text += &division_text(&rule.division);
    if !rule.invertible {
        text += "inverse = false\n";
    }
    text
}

fn division_text(division: &Division) -> String {
    let steps = |steps: &[AxisStep]| list(steps.iter().map(ToString::to_string));
    let mut text = String::new();
    if division.is_interleaved {
        text += "interleaved = true\n";
    }
    if !division.whole.is_empty() {
        text += &format!("whole = {}\n", steps(&division.whole));
    }
    if !division.each.is_empty() {
        let each: Vec<String> = division.each.iter().map(|own| steps(own)).collect();
        text += &format!("part_steps = [{}]\n", each.join(", "));
    }
    text
}

fn parts_text(key: &str, axis: usize, sizes: String) -> String {
    format!("{key} = {axis}\n{sizes}")
}

/// The sizes of a rule; those of its relation are known.
fn sizes_text(rule: &Rule, known: Option<&[u64]>) -> String {
    match known {
        _ if !rule.sizes.is_empty() => {
            format!("sizes = {}\n", list(rule.sizes.iter().map(ToString::to_string)))
        }
        Some(sizes) => format!("sizes = {sizes:?}\n"),
        None => String::new(),
    }
}

fn dequantize_text(how: &Dequantize) -> String {
    let block = how.block.as_ref().map(|block| format!("block = {block:?}\n")).unwrap_or_default();
    let dtype = match how.dtype {
        DType::F32 => String::new(),
        dtype => format!("dtype = {}\n", string(dtype.name())),
    };
    let split = how.split.map(|axis| format!("split = {axis}\n")).unwrap_or_default();
    format!("dequantize = {}\n{block}{dtype}{split}", string(how.format.name()))
}

fn stack_text([key, parts_key]: [&str; 2], stack: &Stack, rule: &Rule) -> String {
    let mut text = format!("{key} = {}\n", string(&stack.index));
    if stack.axis > 0 {
        text += &format!("stack_axis = {}\n", stack.axis);
    }
    if let Some(counter) = &rule.counted_by {
        text += &format!("stack_count = {}\n", string(&counter.as_target()));
    }
    if let Some(Parts { axis, sizes, .. }) = &stack.parts {
        text += &parts_text(parts_key, *axis, sizes_text(rule, sizes.as_deref()));
    }
    text
}

fn names(texts: &[String]) -> String {
    match texts {
        [one] => string(one),
        several => list(several.iter().cloned()),
    }
}

fn list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.map(|text| string(&text)).collect::<Vec<_>>().join(", "))
}

/// Writes a TOML basic string. Escapes invisible characters, too: a terminal shows the string as it is, and what is
/// copied from there is still the same string.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_control(c) => quoted += &escape(c),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(c: char) -> String {
    match u32::from(c) {
        code @ ..=0xffff => format!("\\u{code:04X}"),
        code => format!("\\U{code:08X}"),
    }
}
