//! Recognizing checkpoints by the heads of the built-in templates' files.

use super::{configuration, tensors};
use crate::{Signature, Template, builtin};
use ckpt_api::Tensor;
use ckpt_engine::source::Configuration;

/// The signature that the whole file of a built-in template has.
fn of_whole_file(name: &str) -> Signature {
    Template::parse(&builtin::file(name).unwrap()).unwrap().signature
}

/// Tensors with the names of every model of a template, with the given prefix.
fn named(signature: &Signature, prefix: &str) -> Vec<Tensor> {
    let names = signature.recognize.iter().map(|name| name.replace("{prefix}", prefix));
    names.map(|name| tensors(&[(&name, &[2, 2])]).remove(0)).collect()
}

fn recognized(tensors: &[Tensor], configuration: Option<&Configuration>) -> Option<String> {
    Signature::recognized(tensors, |_| configuration.cloned()).map(|found| found.name().to_owned())
}

/// What [`recognized`] is to find, by the whole files.
fn recognized_by_whole_files(tensors: &[Tensor], signatures: &[Signature]) -> Option<String> {
    let by_name = super::Tensors::new(tensors);
    let mut automatic = signatures.iter().filter(|signature| signature.automatic && !signature.by_model_type);
    automatic.find(|signature| signature.prefix(&by_name).is_ok()).map(|found| found.name().to_owned())
}

#[test]
fn the_head_of_a_built_in_template_states_its_whole_signature() {
    for name in builtin::names() {
        assert_eq!(Signature::builtin(name), Some(of_whole_file(name)));
        let head = builtin::head(name).unwrap();
        assert!(!head.has("parameters") && !head.has("nodes"), "{name}: the head is the whole file");
    }
}

#[test]
fn heads_recognize_what_whole_files_recognize() {
    let signatures: Vec<Signature> = builtin::names().map(of_whole_file).collect();
    let mut lists = vec![Vec::new(), tensors(&[("dense/kernel", &[2, 2])])];
    for signature in &signatures {
        for prefix in &signature.prefixes {
            let all = named(signature, prefix);
            lists.extend((0..all.len()).map(|left_out| {
                let kept = all.iter().enumerate().filter(|(index, _)| *index != left_out);
                kept.map(|(_, tensor)| tensor.clone()).collect()
            }));
            // Of two templates that both fit, the first counts.
            lists.extend(signatures.iter().map(|other| [named(other, ""), all.clone()].concat()));
            lists.push(all);
        }
    }
    assert!(lists.len() > 200);
    for list in &lists {
        let names: Vec<_> = list.iter().map(|tensor| &tensor.name).collect();
        assert_eq!(recognized(list, None), recognized_by_whole_files(list, &signatures), "{names:?}");
    }
}

#[test]
fn a_checkpoint_is_recognized_with_every_prefix_of_a_template() {
    for signature in Signature::automatic().filter(|signature| !signature.by_model_type) {
        for prefix in &signature.prefixes {
            assert_eq!(recognized(&named(&signature, prefix), None).as_deref(), Some(signature.name()));
        }
    }
}

#[test]
fn names_that_several_families_have_are_told_apart_by_the_type_of_model() {
    for (name, model_type) in [("gemma", "gemma2"), ("moe", "mixtral"), ("llama", "granite")] {
        let all = named(&of_whole_file(name), "model.");
        let config = configuration(&format!(r#"{{"model_type": "{model_type}"}}"#)).unwrap();
        assert_eq!(recognized(&all, config.as_ref()).as_deref(), Some(name));
        let untyped = configuration("{}").unwrap();
        assert!(recognized(&all, untyped.as_ref()).is_none_or(|found| found == "llama"), "{name}");
    }
}

#[test]
fn a_checkpoint_that_lacks_a_name_of_the_template_is_not_recognized() {
    let all = named(&of_whole_file("gpt2"), "");
    assert_eq!(recognized(&all[1..], None), None);
}

#[test]
fn a_template_that_must_be_asked_for_recognizes_nothing() {
    let mlp = of_whole_file("mlp");
    assert!(!mlp.automatic);
    assert_eq!(recognized(&named(&mlp, ""), None), None);
}

#[test]
fn a_configuration_of_another_type_of_model_is_not_recognized() {
    let all = named(&of_whole_file("gpt2"), "");
    for (model_type, name) in [("gpt2", Some("gpt2")), ("bert", None)] {
        let config = configuration(&format!(r#"{{"model_type": "{model_type}"}}"#)).unwrap();
        assert_eq!(recognized(&all, config.as_ref()).as_deref(), name);
    }
}

#[test]
fn a_checkpoint_of_more_tensors_than_models_have_is_not_looked_at() {
    let mut all = named(&of_whole_file("gpt2"), "");
    let more = (0..crate::signature::MAX_TENSORS).map(|number| format!("more.{number}"));
    all.extend(more.map(|name| tensors(&[(&name, &[])]).remove(0)));
    assert_eq!(recognized(&all, None), None);
}

#[test]
fn a_signature_leads_to_its_template() {
    for signature in Signature::automatic() {
        let template = signature.template().unwrap();
        assert_eq!(
            (template.name(), template.signature.mappings()),
            (signature.name(), signature.mappings())
        );
    }
}
