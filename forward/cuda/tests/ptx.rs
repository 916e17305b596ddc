//! The embedded PTX: what it may not contain, and what it must.

use ckpt_cuda::{Launch, Operand, ptx};
use ckpt_forward::conformance::cases;
use ckpt_forward::{Arithmetic, Element};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static PTX: LazyLock<String> = LazyLock::new(|| ptx().unwrap());

/// The first word of every line: an instruction with its modifiers, a directive, or a label.
fn instructions() -> impl Iterator<Item = &'static str> {
    PTX.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().map(|word| if word.starts_with('@') { words.next().unwrap_or("") } else { word })
    })
}

#[test]
fn nothing_is_fused_flushed_or_approximated() {
    let mut floating = 0;
    for instruction in instructions() {
        let modifiers: Vec<&str> = instruction.trim_end_matches(';').split('.').collect();
        for forbidden in ["fma", "mad", "approx", "ftz", "sat", "full"] {
            let is_integer = modifiers.iter().any(|part| part.starts_with('s') || part.starts_with('u'));
            assert!(!modifiers.contains(&forbidden) || is_integer, "{instruction}");
        }
        let is_floating = ["f32", "f64"].contains(modifiers.last().unwrap());
        if is_floating && ["add", "sub", "mul", "div", "sqrt", "rcp"].contains(&modifiers[0]) {
            assert_eq!(modifiers[1], "rn", "only with a stated rounding is nothing fused: {instruction}");
            floating += 1;
        }
    }
    assert!(floating > 500, "{floating}");
}

#[test]
fn floating_point_instructions_are_those_whose_results_are_exact_or_rounded_once() {
    let known =
        ["add", "sub", "mul", "div", "sqrt", "rcp", "neg", "abs", "cvt", "mov", "selp", "setp", "ld", "st"];
    for instruction in instructions().filter(|word| !word.starts_with('.')) {
        let modifiers: Vec<&str> = instruction.trim_end_matches(';').split('.').collect();
        if modifiers.iter().any(|part| ["f16", "f32", "f64"].contains(part)) {
            assert!(known.contains(&modifiers[0]), "{instruction}");
        }
    }
}

#[test]
fn nothing_is_shared_between_threads() {
    for instruction in instructions() {
        for forbidden in ["atom", "red", "bar", "shared", "shfl"] {
            assert!(instruction.split('.').all(|part| part != forbidden), "{instruction}");
        }
    }
}

#[test]
fn every_launch_names_an_entry_and_every_entry_is_launched() {
    let entries: BTreeSet<&str> = PTX
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".visible .entry "))
        .map(|name| name.trim_end_matches('('))
        .collect();
    let mut launched = BTreeSet::new();
    for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::F32InF64] {
        for case in cases(3, 100) {
            for is_integer in [false, true] {
                let held = |element, len| match element {
                    Element::I32 => Operand { element, len },
                    _ if is_integer => Operand { element: Element::I32, len },
                    _ => Operand { element: arithmetic.element(), len },
                };
                let operands: Vec<_> =
                    case.operands.iter().map(|array| held(array.element(), array.len())).collect();
                if let Ok(launch) =
                    Launch::new(arithmetic, &case.kernel, &operands, held(case.output.0, case.output.1))
                {
                    launched.insert(launch.entry);
                }
            }
        }
    }
    let launched: BTreeSet<&str> = launched.iter().map(String::as_str).collect();
    assert_eq!(entries.symmetric_difference(&launched).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert_eq!(entries.len(), 50);
}
