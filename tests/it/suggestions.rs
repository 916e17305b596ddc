//! An unknown name of any kind gets the nearest known one as a suggestion.

use crate::common::workplace::{DIGITS, Workplace};

/// A checkpoint and a mapping.
fn workplace() -> Workplace {
    let place = Workplace::new();
    let tensor = |name: &str| (name.to_owned(), vec![1], vec![1.0]);
    place.checkpoint("model.safetensors", &[tensor("block/kernel"), tensor("block/bias")]);
    place.write("names.toml", "identity = true\n");
    place
}

/// Asserts that the command fails and suggests `meant`.
fn suggests(arguments: &[&str], meant: &str) {
    let error = workplace().refused(arguments);
    assert!(error.contains(&format!("did you mean '{meant}'?")), "{arguments:?}:\n{error}");
}

/// Asserts the same for a conversion with these options.
fn converting_suggests(more: &[&str], meant: &str) {
    suggests(&[&["convert", "model.safetensors", "o.npz"], more].concat(), meant);
}

#[test]
fn of_commands_the_nearest_is_suggested() {
    suggests(&["inspekt", "model.safetensors"], "inspect");
    suggests(&["map", "sugest", "a", "b"], "suggest");
}

#[test]
fn of_options_the_nearest_is_suggested() {
    converting_suggests(&["--no-synk"], "--no-sync");
}

#[test]
fn of_the_values_of_an_option_the_nearest_is_suggested() {
    converting_suggests(&["--format", "jsn"], "json");
    suggests(&["completions", "fsh"], "fish");
}

#[test]
fn of_formats_the_nearest_is_suggested() {
    converting_suggests(&["--from", "safetensor"], "safetensors");
    suggests(&["convert", "model.safetensors", "o", "--to", "safetensrs"], "safetensors");
    suggests(&["formats", "bulet"], "bullet");
}

#[test]
fn of_the_options_of_a_format_the_nearest_is_suggested() {
    suggests(&["plan", "model.safetensors", "o.safetensors", "--set", "shard_siz=1"], "shard_size");
    suggests(&["convert", "model.safetensors", "o.nn", "--set", "activation=relu"], "activations");
    suggests(&["inspect", DIGITS, "--set", "lenien=true"], "lenient");
}

#[test]
fn of_limits_the_nearest_is_suggested() {
    converting_suggests(&["--limit", "header_byte=1"], "header_bytes");
}

#[test]
fn of_losses_the_nearest_is_suggested() {
    converting_suggests(&["--allow", "weight-droped"], "weight-dropped");
}

#[test]
fn of_dtypes_the_nearest_is_suggested() {
    converting_suggests(&["--dtype", "bf61"], "bf16");
}

#[test]
fn of_devices_the_nearest_is_suggested() {
    suggests(&["run", "model.safetensors", "--device", "cpuu"], "cpu");
}

#[test]
fn of_files_the_nearest_is_suggested() {
    suggests(&["inspect", "modle.safetensors"], "model.safetensors");
    suggests(&["hash", "model"], "model.safetensors");
    suggests(&["diff", "model.safetensors", "model.safetensor"], "model.safetensors");
    converting_suggests(&["--map", "nams.toml"], "names.toml");
    converting_suggests(&["--arch", "name.toml"], "names.toml");
}

#[test]
fn of_tensors_the_nearest_is_suggested() {
    converting_suggests(&["--include", "block/kernl"], "block/kernel");
    converting_suggests(&["--exclude", "block/baias"], "block/bias");
    converting_suggests(&["--transform", "block/kernl: transpose"], "block/kernel");
}

#[test]
fn of_steps_the_nearest_is_suggested() {
    converting_suggests(&["--transform", "block/kernel: transpos"], "transpose");
}

#[test]
fn of_built_in_mappings_the_nearest_is_suggested() {
    converting_suggests(&["--map", "gpt2-tf-to-fh"], "gpt2-tf-to-hf");
    suggests(&["map", "show", "bert-tf-to-h"], "bert-tf-to-hf");
}
