//! What the steps of a folder hold, for people.

use crate::format::join;
use ckpt_api::{Input, count};

/// Steps that are listed with what they hold: the newest ones.
const MOST_STEPS: usize = 12;

/// Files of a step that are looked at.
const MOST_FILES: u64 = 1000;

/// Folders of a step that are looked at.
const MOST_FOLDERS: usize = 100;

/// Says which steps there are, each with its items and their bytes: those of a folder on this machine, for a store far away
/// would be asked for every file.
pub(super) fn listed(input: &Input, steps: &[(u64, String)]) -> Option<String> {
    input.directory()?;
    let newest = steps.iter().rev().take(MOST_STEPS);
    let shown: Vec<String> = newest.map(|(step, folder)| described(input, *step, folder)).collect();
    let more = match steps.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} before"),
    };
    Some(format!("the steps, with their items and sizes: {}{more}", shown.join("; ")))
}

fn described(input: &Input, step: u64, folder: &str) -> String {
    let items = input.store().directories(folder, MOST_FILES).unwrap_or_default();
    let shown: Vec<String> = items
        .iter()
        .take(MOST_STEPS)
        .map(|item| format!("{} {}", item.escape_debug(), size(input, &join(folder, item))))
        .collect();
    match shown.is_empty() {
        // The step is its only item.
        true => format!("{step} ({})", size(input, folder)),
        false => format!("{step} ({})", shown.join(", ")),
    }
}

/// The bytes of all files below a folder. Nothing is opened through the input, which would take it for a part of what is read.
fn size(input: &Input, folder: &str) -> String {
    let store = input.store();
    let (mut files, mut bytes, mut open) = (0u64, 0u64, vec![folder.to_owned()]);
    let mut folders = 0;
    while let Some(folder) = open.pop() {
        folders += 1;
        let names = store.list(&folder, MOST_FILES).unwrap_or_default();
        for name in names {
            files += 1;
            if files > MOST_FILES {
                return format!("more than {}", count(MOST_FILES, "file"));
            }
            let file = store.open(&join(&folder, &name)).ok();
            let len = file.and_then(|file| file.size().ok()).unwrap_or(0);
            bytes = bytes.saturating_add(len);
        }
        let below = store.directories(&folder, MOST_FILES).unwrap_or_default();
        open.extend(below.iter().map(|name| join(&folder, name)));
        if folders + open.len() > MOST_FOLDERS {
            return format!("more than {}", count(MOST_FOLDERS as u64, "folder"));
        }
    }
    rounded(bytes)
}

/// Bytes in units of 1024, with three digits.
fn rounded(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut unit = None;
    let mut scale = 1u64;
    for name in UNITS {
        if bytes / scale >= 1024 {
            scale = scale.saturating_mul(1024);
            unit = Some(name);
        }
    }
    let Some(unit) = unit else { return format!("{bytes} B") };
    let scale = u128::from(scale);
    let hundredths = (u128::from(bytes) * 100 + scale / 2) / scale;
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match whole {
        0..10 => format!("{whole}.{part:02} {unit}"),
        10..100 => format!("{whole}.{} {unit}", part / 10),
        _ => format!("{whole} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn sizes_have_three_digits() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (10_240, "10.0 KiB"), (3 << 20, "3.00 MiB")];
        assert_eq!(cases.map(|(bytes, _)| rounded(bytes)), cases.map(|(_, text)| text.to_owned()));
    }

    #[test]
    fn steps_are_listed_with_their_items_and_sizes() {
        let root = tempfile::tempdir().unwrap();
        for (name, bytes) in [("9/default/_METADATA", 10), ("9/default/d/x", 2000), ("10/_METADATA", 7)] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        let input = Input::open(root.path()).unwrap();
        let steps = [(9, "9".to_owned()), (10, "10".to_owned())];
        let text = listed(&input, &steps).unwrap();
        assert_eq!(text, "the steps, with their items and sizes: 10 (7 B); 9 (default 1.96 KiB)");
        let many: Vec<(u64, String)> = (0..20).map(|step| (step, step.to_string())).collect();
        assert!(listed(&input, &many).unwrap().ends_with("; and 8 before"));
        assert!(listed(&Input::memory("", [].into()), &steps).is_none());
    }
}
