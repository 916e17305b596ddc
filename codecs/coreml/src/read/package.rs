//! Finds the model of a package, and the files with its weights.

use crate::format::{DATA, ITEMS, MANIFEST, MODEL_PATH, ROOT};
use ckpt_api::{Error, File, Input, Limit, Limits, Result};
use serde_json::Value;

/// Where the model's file is, as a name relative to the input's directory: the input itself, or an item of the package.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a package without a manifest, or with one that does not name the model.
pub(super) fn model_file(input: &Input, limits: &Limits) -> Result<String> {
    let is_manifest = input.is_file() && input.entry() == MANIFEST;
    if input.is_file() && !is_manifest {
        return Ok(input.entry().to_owned());
    }
    if !input.has_file(MANIFEST) {
        return Err(Error::corrupt("the package has no manifest")
            .file(input.display(""))
            .field(MANIFEST)
            .found("no such file")
            .expected("a file that names the package's items")
            .help("copy the whole folder of the package"));
    }
    let manifest = input.file(MANIFEST)?;
    root(input, &manifest, limits).map_err(|error| error.file(manifest.name()))
}

fn root(input: &Input, manifest: &File, limits: &Limits) -> Result<String> {
    limits.check(Limit::HeaderBytes, manifest.len())?;
    let bytes = manifest.bytes(0, manifest.len())?;
    let values = bytes.iter().filter(|byte| matches!(byte, b',' | b'{' | b'[' | b':')).count();
    limits.check(Limit::TextTokens, values as u64)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
        Error::corrupt("the manifest is not valid JSON")
            .field(MANIFEST)
            .found(error.to_string())
            .expected("an object with the package's items")
            .help("the file is cut short or was changed: copy it again")
    })?;
    let identifier = value.get(ROOT).and_then(Value::as_str).ok_or_else(|| {
        let found = value.get(ROOT).map_or("nothing".to_owned(), Value::to_string);
        Error::corrupt("the manifest does not say which item is the model")
            .field(ROOT)
            .found(found)
            .expected("the identifier of an item")
    })?;
    let item = value.get(ITEMS).and_then(|items| items.get(identifier));
    let path = item.and_then(|item| item.get("path")).and_then(Value::as_str).ok_or_else(|| {
        Error::corrupt("the manifest's model is none of its items")
            .field(ROOT)
            .found(format!("'{}'", identifier.escape_debug()))
            .expected(format!("the identifier of one of {ITEMS} that has a path"))
    })?;
    let name = format!("{DATA}/{}", checked(path, "path")?);
    if !input.has_file(&name) {
        return Err(Error::corrupt("the package lacks its model")
            .field("path")
            .found(format!("no file '{}'", name.escape_debug()))
            .expected("the file that the manifest names")
            .help("copy the whole folder of the package"));
    }
    Ok(name)
}

/// The files of a package's items: an item is a file, or a folder with files.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for too many.
pub(super) fn items(input: &Input, limits: &Limits) -> Result<Vec<String>> {
    let manifest = input.file(MANIFEST)?;
    limits.check(Limit::HeaderBytes, manifest.len())?;
    let value: Value = serde_json::from_slice(&manifest.bytes(0, manifest.len())?).unwrap_or_default();
    let items = value.get(ITEMS).and_then(Value::as_object).into_iter().flatten();
    let mut names = Vec::new();
    for path in items.filter_map(|(_, item)| item.get("path")?.as_str()) {
        let name = format!("{DATA}/{}", checked(path, "path")?);
        match input.has_file(&name) {
            true => names.push(name),
            // A package without weights may name their folder.
            false => match input.list(&name) {
                Err(error) if error.is_missing() => {}
                listed => names.extend(listed?.into_iter().map(|own| format!("{name}/{own}"))),
            },
        }
        limits.check(Limit::Files, names.len() as u64)?;
    }
    Ok(names)
}

/// The name of a blob file that a program names, relative to the input's directory.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a name that is not below the model's folder.
pub(super) fn blob_file(model: &str, name: &str) -> Result<String> {
    let own = name.strip_prefix(MODEL_PATH).ok_or_else(|| {
        Error::corrupt("a blob file is not named relative to the model")
            .field("fileName")
            .found(format!("'{}'", name.escape_debug()))
            .expected(format!("a name that begins with '{MODEL_PATH}'"))
    })?;
    let own = checked(own, "fileName")?;
    Ok(match model.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{own}"),
        None => own.to_owned(),
    })
}

/// A path that stays in its folder.
fn checked<'p>(path: &'p str, field: &'static str) -> Result<&'p str> {
    let is_inside =
        !path.contains(['\0', '\\', ':']) && !path.split('/').any(|part| matches!(part, "" | "." | ".."));
    match is_inside {
        true => Ok(path),
        false => Err(Error::corrupt("a path leads outside of the package, or names no file")
            .field(field)
            .found(format!("'{}'", path.escape_debug()))
            .expected("a relative path without empty parts, '.' and '..'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_files_are_below_the_folder_of_the_model() {
        let model = "Data/com.apple.CoreML/model.mlmodel";
        let named = blob_file(model, "@model_path/weights/weight.bin").unwrap();
        assert_eq!(named, "Data/com.apple.CoreML/weights/weight.bin");
        assert_eq!(blob_file("m.mlmodel", "@model_path/w.bin").unwrap(), "w.bin");
        for name in
            ["weights/weight.bin", "@model_path/../w", "@model_path//etc/passwd", "@model_path/a\\b", ""]
        {
            let error = blob_file(model, name).unwrap_err();
            assert!(error.context().found.is_some(), "{name}");
        }
    }
}
