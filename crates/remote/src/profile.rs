//! Credentials and region of the files that Amazon's own tools keep: `~/.aws/credentials` and `~/.aws/config`.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use std::path::PathBuf;

/// Variables that name credentials: where one is set, the file is not read.
const GIVEN: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// A larger file is not one of these.
const LARGEST: u64 = 1 << 20;

/// The builder, with the credentials and the region of the profile that `AWS_PROFILE` names, or of the default one, unless
/// the environment gives them.
pub(super) fn with_profile(builder: AmazonS3Builder) -> AmazonS3Builder {
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
    let mut builder = builder;
    if builder.get_config_value(&AmazonS3ConfigKey::Region).is_none()
        && builder.get_config_value(&AmazonS3ConfigKey::DefaultRegion).is_none()
        && let Some(text) = read("AWS_CONFIG_FILE", "config")
    {
        let section = if profile == "default" { profile.clone() } else { format!("profile {profile}") };
        if let Some(region) = value(&text, &section, "region") {
            builder = builder.with_region(region);
        }
    }
    if GIVEN.iter().any(|name| std::env::var_os(name).is_some()) {
        return builder;
    }
    let Some(text) = read("AWS_SHARED_CREDENTIALS_FILE", "credentials") else { return builder };
    for (name, key) in [
        ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
        ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
        ("aws_session_token", AmazonS3ConfigKey::Token),
    ] {
        if let Some(value) = value(&text, &profile, name) {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

/// The file that the variable names, or the usual one.
fn read(variable: &str, name: &str) -> Option<String> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let path = given.or_else(|| Some(std::env::home_dir()?.join(".aws").join(name)))?;
    let meta = std::fs::metadata(&path).ok()?;
    if meta.is_file() && meta.len() <= LARGEST { std::fs::read_to_string(path).ok() } else { None }
}

/// The value of a key in a section.
fn value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let mut current = "";
    for line in text.lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => current = name.trim(),
            None if current == section => {
                let pair = line.split_once('=').map(|(found, value)| (found.trim(), value.trim()));
                if let Some((_, value)) = pair.filter(|(found, value)| *found == key && !value.is_empty()) {
                    return Some(value);
                }
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_up_in_its_section_alone() {
        let text = "[default]\naws_access_key_id = A\n[ other ]\n# a = b\naws_access_key_id=B\nempty =\n";
        assert_eq!(value(text, "default", "aws_access_key_id"), Some("A"));
        assert_eq!(value(text, "other", "aws_access_key_id"), Some("B"));
        assert_eq!(value(text, "other", "empty"), None);
        assert_eq!(value(text, "none", "aws_access_key_id"), None);
    }
}
