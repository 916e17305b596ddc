//! What a person sees: errors as blocks, colors where they are wanted, what was perhaps meant, and nothing that a file
//! could steer a terminal with.

use crate::common::workplace::{DIGITS, Workplace};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A safetensors file of tensors of one number.
fn safetensors(place: &Workplace, name: &str, tensors: &[&str]) {
    let tensors: Vec<_> = tensors.iter().map(|name| ((*name).to_owned(), vec![1], vec![1.0])).collect();
    place.checkpoint(name, &tensors);
}

#[test]
fn an_error_is_a_block_that_says_what_where_why_and_what_to_do() {
    let place = Workplace::new();
    let mut bytes = b"CNN2".to_vec();
    bytes.extend([9, 0, 0, 0]);
    bytes.extend([0; 24]);
    place.write("m.cnn2", &bytes);
    let told = place.refused(&["inspect", "m.cnn2", "--from", "cnn2"]);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[0].ends_with(']'), "{told}");
    assert_eq!(lines[1], "  file      m.cnn2");
    assert_eq!(lines[2], "  offset    4");
    assert_eq!(
        lines[3].trim_start(),
        "00000000  43 4e 4e 32 09 00 00 00 00 00 00 00 00 00 00 00  |CNN2............|"
    );
    assert_eq!(lines[4].find("^^"), lines[3].find("09"));
    assert!(lines[5..].iter().any(|line| line.starts_with("  found     9")), "{told}");
}

#[test]
fn a_receipt_or_a_plan_in_place_of_a_checkpoint_leads_to_its_command() {
    let place = Workplace::new();
    place.says(&["convert", DIGITS, "m.safetensors", "--receipt", "r.json"]);
    place.says(&["plan", DIGITS, "o.safetensors", "-o", "plan.json"]);
    place.says(&["plan", DIGITS, "o.safetensors", "-o", "plan.ckpt"]);
    place.says(&["run-plan", "plan.json", "--receipts", "items"]);
    let item = fs::read_dir(place.path("items")).unwrap().next().unwrap().unwrap();
    let item = item.path().to_str().unwrap().to_owned();
    let plan = ["it is the plan of a conversion", "`ckpt run-plan`"];
    for (name, words) in [
        ("r.json", ["it is the receipt of a conversion", "`ckpt verify --receipt`"]),
        ("plan.json", plan),
        ("plan.ckpt", plan),
        (&item, ["it is the receipt of an item of a plan", "`ckpt commit`"]),
    ] {
        place.refuses(&["inspect", name], 1, &words);
        place.refuses(&["convert", name, "other.npz"], 1, &words);
    }
    place.write("other.json", "{\"version\": 1, \"layers\": []}                                      ");
    assert!(!place.refused(&["inspect", "other.json"]).contains("of a conversion"));
}

#[test]
fn inspect_notes_which_tensors_lack_their_bytes() {
    let place = Workplace::new();
    // Without strings, whose lengths are among the data: no byte of a tensor is read to list them.
    place.says(&["convert", DIGITS, "m.npz", "--exclude", "_CHECKPOINTABLE*"]);
    place.says(&["convert", "m.npz", "m", "--to", "tf2", "--set", "shards=3"]);
    let data = |number: usize| format!("m.data-0000{number}-of-00003");
    let note = || {
        let said = place.says(&["inspect", "m.index"]);
        assert!(said.contains("\n15 tensors, "), "{said}");
        let note = said.lines().find(|line| line.starts_with("note: the values of"))?;
        let notes = &place.json(&["inspect", "m.index"])["notes"];
        assert!(notes.as_array().unwrap().iter().any(|own| note.ends_with(own.as_str().unwrap())), "{notes}");
        Some(note.to_owned())
    };
    assert_eq!(note(), None);
    let first = fs::read(place.path(&data(0))).unwrap();
    place.write(&data(0), &first[..first.len() - 1]);
    let (found, needed) = (first.len() - 1, first.len());
    let cut = format!("'{}' is cut short, {found} of at least {needed} bytes; copy it again", data(0));
    assert_eq!(note(), Some(format!("note: the values of 1 of 15 tensors are missing: {cut}")));
    place.refuses(&["inspect", "m.index", "--stats"], 5, &["cut short"]);
    fs::remove_file(place.path(&data(1))).unwrap();
    let more = note().unwrap();
    assert!(more.ends_with(&format!("{cut}; 1 more file is cut short or cannot be opened, too")), "{more}");
    place.write(&data(0), &first);
    let missing = format!("'{}' cannot be opened; put it beside the other files", data(1));
    assert!(note().unwrap().ends_with(&missing));
}

#[test]
fn a_wrong_command_line_is_told_like_any_other_error() {
    let place = Workplace::new();
    let told = place.refused(&["convert", "a", "b", "--frce"]);
    assert!(told.starts_with("error: unknown option [usage]\n  found     '--frce'\n"), "{told}");
    let json = place.refused(&["convert", "a", "b", "--frce", "--format", "json"]);
    let error: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(error["error"]["found"], "'--frce'");
}

#[test]
fn colors_are_for_terminals_and_for_those_who_ask() {
    let place = Workplace::new();
    let colored = |variables: &[(&str, &str)]| {
        let mut command = place.command(&["inspect", "missing"]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("error:") && told.contains("missing"), "{told}");
        told.contains('\x1b')
    };
    assert!(!colored(&[]), "what is read by a program has none");
    for asked in [&[("CLICOLOR_FORCE", "1")][..], &[("FORCE_COLOR", "1")]] {
        assert!(colored(asked), "{asked:?}");
        assert!(!colored(&[asked, &[("NO_COLOR", "1")]].concat()), "NO_COLOR decides");
    }
    assert!(!colored(&[("FORCE_COLOR", "0")]));
    let json = place.command(&["inspect", "missing", "--format", "json"]).env("CLICOLOR_FORCE", "1").output();
    serde_json::from_slice::<serde_json::Value>(&json.unwrap().stderr).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colors_unless_it_has_none_or_they_are_unwanted() {
    let place = Workplace::new();
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        let line = format!("{} inspect missing", env!("CARGO_BIN_EXE_ckpt"));
        command.current_dir(place.directory()).args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
        // Logs of continuous integration show colors, so there they are wanted whatever the terminal.
        for decides in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "CI"] {
            command.env_remove(decides);
        }
        command.envs(variables.iter().copied()).output().ok()
    };
    let Some(plain) = on_terminal(&[]) else {
        eprintln!("skipped: there is no 'script' here");
        return;
    };
    let colored = |output: &Output| String::from_utf8_lossy(&output.stdout).contains("\x1b[1m\x1b[31merror:");
    assert!(colored(&plain), "{}", String::from_utf8_lossy(&plain.stdout));
    for unwanted in [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")] {
        let output = on_terminal(&[unwanted]).unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("error: cannot open"), "{unwanted:?}");
        assert!(!colored(&output), "{unwanted:?}");
    }
}

/// Sets the terminal's title, clears the screen, and begins a line of its own, reordered.
const STEERS: &str = "w\x1b]0;owned\x07\u{9b}2J\r\nINJECTED\u{202e}\u{200b}\u{7f}";

#[test]
fn nothing_that_a_file_says_steers_the_terminal() {
    let place = Workplace::new();
    safetensors(&place, "m.safetensors", &[STEERS, "b"]);
    safetensors(&place, "n.safetensors", &["a", "b"]);
    safetensors(&place, &format!("x{}.safetensors", STEERS.replace('/', "")), &["a"]);
    let quoted = serde_json::to_string(STEERS).unwrap();
    place.write(
        "map.toml",
        format!("identity = true\n[lookup]\n{quoted} = {quoted}\n\"\\u001bgone\" = \"x\"\n"),
    );
    place.write("identity.toml", "identity = true\n");
    place.write("bad.toml", format!("{quoted} = 1\n"));
    place.write("bad.json", format!("{{ \"layers\": [ {{ \"type\": {quoted} }} ] }}"));
    let layers = format!("{{ \"layers\": [ {{ \"type\": \"dense\", \"weight\": {quoted} }} ] }}");
    place.write("arch.json", layers);
    place.write("damaged.safetensors", {
        let mut bytes = fs::read(place.path("m.safetensors")).unwrap();
        bytes.pop();
        bytes
    });
    let odd = format!("x{STEERS}.safetensors");
    let hostile = format!("--set={STEERS}=1");
    let commands: &[&[&str]] = &[
        &["inspect", "m.safetensors"],
        &["inspect", "m.safetensors", "--stats"],
        &["inspect", "m.safetensors", "--graph"],
        &["inspect", "m.safetensors", "--html", "page.html"],
        &["inspect", "damaged.safetensors"],
        &["inspect", "m.safetensors", "--arch", "bad.json"],
        &["inspect", "m.safetensors", "--arch", "arch.json"],
        &["inspect", &odd],
        &["inspect", STEERS],
        &["inspect", &format!("{odd}x")],
        &["inspect", "m.safetensors", &hostile],
        &["inspect", "m.safetensors", "--from", STEERS],
        &[STEERS],
        &["inspect", &format!("--{STEERS}")],
        &["diff", "m.safetensors", "n.safetensors"],
        &["hash", "m.safetensors", "--tensors"],
        &["hash", &odd],
        &["plan", "m.safetensors", "o.npz"],
        &["convert", "m.safetensors", "o.nn"],
        &["convert", "m.safetensors", "o.safetensors", "--dtype", "f16", "--no-sync"],
        &["convert", "m.safetensors", "o2.safetensors", "--map", "map.toml", "--no-sync"],
        &["convert", "m.safetensors", "o3.safetensors", "--map", "bad.toml"],
        &["convert", "m.safetensors", "o4.safetensors", "--include", STEERS, "--verify", "--no-sync"],
        &["convert", "m.safetensors", "o5.safetensors", "--include", "q"],
        &["convert", "m.safetensors", "o6.safetensors", "--transform", "**: transpose"],
        &["convert", "m.safetensors", "o7.npz", "--no-sync"],
        &["verify", "m.safetensors", "n.safetensors"],
        &["verify", "m.safetensors", "m.safetensors"],
        &["run", "m.safetensors"],
        &["run", "m.safetensors", "--arch", "arch.json"],
        &["map", "check", "identity.toml", "m.safetensors"],
        &["map", "check", "map.toml", "m.safetensors"],
        &["map", "explain", "map.toml", STEERS, "\x1bgone"],
        &["map", "invert", "map.toml"],
        &["map", "suggest", "m.safetensors", "n.safetensors"],
    ];
    let mut failed = 0;
    for command in commands {
        for json in [false, true] {
            let more: &[&str] = if json { &["--format", "json"] } else { &[] };
            let output = place.ckpt(&[more, command].concat());
            failed += usize::from(!output.status.success());
            for stream in [output.stdout, output.stderr] {
                let told = String::from_utf8(stream).unwrap();
                let steers = |c: char| c != '\n' && c.is_control() || "\u{202e}\u{200b}".contains(c);
                assert!(!told.contains(steers), "{command:?}: {told:?}");
                assert!(!told.lines().any(|line| line.trim_start().starts_with("INJECTED")), "{told}");
            }
        }
    }
    assert!((20..60).contains(&failed), "some succeed and some fail: {failed}");
}

#[test]
fn a_page_of_a_checkpoint_is_written_to_a_file_that_must_not_exist() {
    let place = Workplace::new();
    let written = place.ckpt(&["inspect", DIGITS, "--html", "page.html"]);
    assert!(written.status.success());
    assert!(written.stdout.starts_with(b"wrote page.html: "), "the page takes the place of tables");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("digits/hidden/kernel") && page.contains("<svg") && page.ends_with("</html>\n"));
    assert!(place.refused(&["inspect", DIGITS, "--html", "page.html"]).contains("page.html"));
    assert_eq!(fs::read_to_string(place.path("page.html")).unwrap(), page);
}

#[test]
fn the_manual_and_the_completions_are_of_both_programs() {
    let place = Workplace::new();
    assert!(place.ckpt(&["man", "--output", "man1"]).status.success());
    for (page, says) in
        [("ckpt", "ckpt\\-inspect"), ("ckpt-inspect", "\\-\\-html"), ("convert", "\\-\\-receipt")]
    {
        let text = fs::read_to_string(place.path("man1").join(format!("{page}.1"))).unwrap();
        assert!(text.contains(says), "{page}: {text}");
    }
    let shown = place.ckpt(&["man"]).stdout;
    assert_eq!(shown, fs::read(place.path("man1/ckpt.1")).unwrap());
    let script = place.ckpt(&["completions", "bash", "--program", "convert"]).stdout;
    let script = String::from_utf8(script).unwrap();
    assert!(
        script.contains("_convert()") && script.contains("--receipt") && script.contains("--format"),
        "{script}"
    );
    assert!(Path::new(DIGITS).is_dir());
}

#[cfg(target_os = "linux")]
#[test]
fn work_of_a_few_milliseconds_shows_no_progress_bar() {
    let place = Workplace::new();
    safetensors(&place, "m.safetensors", &["a", "b", "c"]);
    let line = format!("stty rows 24 cols 80; {} hash m.safetensors", env!("CARGO_BIN_EXE_ckpt"));
    let mut command = Command::new("script");
    command.current_dir(place.directory()).args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
    let mut on_terminal = || {
        let output = command.stdin(std::process::Stdio::null()).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap())
    };
    if on_terminal().is_none() {
        return eprintln!("skipped: there is no 'script' here");
    }
    // On a machine that does much else, a few milliseconds can become many.
    let texts: Vec<String> = (0..8).filter_map(|_| on_terminal()).collect();
    assert!(texts.iter().all(|text| text.contains("m.safetensors")), "{texts:?}");
    assert!(texts.iter().any(|text| !text.contains("ETA") && !text.contains('\x1b')), "{texts:?}");
}
