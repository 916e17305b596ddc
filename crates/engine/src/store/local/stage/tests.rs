//! Whatever interrupts: the names have the old files or the new ones, and nothing else is left.

use super::*;
use crate::store::local::disk::Os;
use crate::store::local::names::aside;
use crate::store::local::stamp::Stamp;
use ckpt_api::Kind;
use std::cell::Cell;
use tempfile::TempDir;

const FILES: [&str; 3] = ["o.0", "o.1", "o.index"];

fn os() -> Arc<dyn Disk> {
    Arc::new(Os)
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn with_old() -> Self {
        let place = Place::new();
        FILES.iter().for_each(|name| fs::write(place.path(name), "old").unwrap());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn create(&self, names: &[&str], overwrite: bool, resume: bool) -> Result<Output> {
        self.stage(names, overwrite, if resume { StageMode::Resume } else { StageMode::Fresh })
    }

    /// [`FILES`], with an attachment.
    fn attaching(&self, attachment: Option<&Path>, overwrite: bool, mode: StageMode) -> Result<Output> {
        self.request(&FILES, attachment.map(|path| path.to_str().unwrap()), overwrite, mode)
    }

    fn stage(&self, names: &[&str], overwrite: bool, mode: StageMode) -> Result<Output> {
        self.request(names, None, overwrite, mode)
    }

    fn request(
        &self,
        names: &[&str],
        attachment: Option<&str>,
        overwrite: bool,
        mode: StageMode,
    ) -> Result<Output> {
        let file = |name: &&str| OutputFile::new(*name, 3);
        let files: Vec<OutputFile> = names.iter().map(file).collect();
        let (disk, directory) = (os(), self.0.path());
        let request = StageRequest {
            overwrite,
            key: Some([7; 32]),
            mode,
            accept_complete: true,
            attachment,
            ..StageRequest::new("o", &files)
        };
        let allowed = || {
            let targets = targets(directory, &files)?;
            targets
                .iter()
                .try_for_each(|path| refuse_existing(Named::Output, path, overwrite, &Sources::default()))
        };
        match mode {
            StageMode::Shared => Output::join(&disk, directory, &request, &allowed),
            _ => Output::create(&disk, directory, &request, &allowed),
        }
    }

    /// An output whose files hold `new`.
    fn written(&self, names: &[&str], overwrite: bool) -> Output {
        let output = self.create(names, overwrite, false).unwrap();
        (0..names.len()).for_each(|id| output.file(FileId(id)).unwrap().write_at(0, b"new").unwrap());
        output
    }

    /// Everything below, with its text.
    fn found(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<(String, String)> = entries
            .map(|entry| {
                let text = fs::read(entry.path()).unwrap_or_default();
                (entry.file_name().into_string().unwrap(), String::from_utf8_lossy(&text).into_owned())
            })
            .collect();
        found.sort();
        found
    }

    fn holds(&self, text: &str) -> bool {
        self.found() == FILES.map(|name| (name.to_owned(), text.to_owned()))
    }
}

/// A process that is killed after `steps` of those that [`Output::commit`] takes.
fn killed_while_naming(place: &Place, overwrite: bool, steps: usize) -> usize {
    let output = place.written(&FILES, overwrite);
    let stamps: Vec<Stamp> =
        output.files.iter().map(|pending| Stamp::of(&pending.temporary).unwrap()).collect();
    output.journal.name(&stamps, false).unwrap();
    let files: Vec<(PathBuf, PathBuf)> =
        output.files.iter().map(|p| (p.temporary.to_path_buf(), p.target.clone())).collect();
    killed(output);
    let taken = Cell::new(0);
    let step = |act: &dyn Fn()| {
        if taken.get() < steps {
            act();
            taken.set(taken.get() + 1);
        }
    };
    let olds = || files.iter().rev().filter(|_| overwrite);
    olds().for_each(|(temporary, target)| step(&|| fs::rename(target, aside(temporary)).unwrap()));
    files.iter().for_each(|(temporary, target)| step(&|| fs::rename(temporary, target).unwrap()));
    olds().for_each(|(temporary, _)| step(&|| fs::remove_file(aside(temporary)).unwrap()));
    taken.get()
}

impl Output {
    fn commit_as(self, sync: bool) -> Result<Committed> {
        Box::new(self).commit(sync)
    }
}

/// Leaves what a process leaves that is killed.
fn killed(mut output: Output) {
    output.stays = true;
    output.files.iter_mut().for_each(|pending| pending.is_attached = false);
}

/// Does what is left to be done where all bytes are there.
fn finish(output: Output) {
    if output.earlier() != Earlier::Complete {
        output.commit_as(false).unwrap();
    }
}

#[test]
fn killed_while_files_get_names_the_next_process_finds_all_old_or_makes_all_new() {
    for steps in 0..=9 {
        let place = Place::with_old();
        assert_eq!(killed_while_naming(&place, true, steps), steps);
        let texts = FILES.map(|name| fs::read_to_string(place.path(name)).ok());
        // Whoever follows the last file finds others of its time.
        assert!(texts[2].is_none() || texts.iter().all(|text| *text == texts[2]), "{steps}: {texts:?}");
        drop(place.create(&FILES, true, false).unwrap());
        assert!(place.holds(if steps < 6 { "old" } else { "new" }), "{steps}: {:?}", place.found());

        let place = Place::with_old();
        killed_while_naming(&place, true, steps);
        let output = place.create(&FILES, true, true).unwrap();
        assert_eq!(output.earlier(), if steps < 6 { Earlier::Kept } else { Earlier::Complete });
        assert_eq!(output.bytes().unwrap(), 9, "{steps}");
        finish(output);
        assert!(place.holds("new"), "{steps}: {:?}", place.found());

        let place = Place::with_old();
        killed_while_naming(&place, true, steps);
        drop(place.create(&FILES, true, true).unwrap());
        assert!(place.holds(if steps < 6 { "old" } else { "new" }), "{steps}: {:?}", place.found());
    }
}

#[test]
fn killed_while_new_files_get_names_the_next_process_needs_no_force() {
    for steps in 0..=3 {
        let place = Place::new();
        assert_eq!(killed_while_naming(&place, false, steps), steps);
        match place.create(&FILES, false, false) {
            Ok(output) => drop(output),
            Err(error) => assert!(steps == 3 && error.message() == "the output exists", "{steps}: {error}"),
        }
        assert!(if steps < 3 { place.found().is_empty() } else { place.holds("new") }, "{:?}", place.found());

        let place = Place::new();
        killed_while_naming(&place, false, steps);
        finish(place.create(&FILES, false, true).unwrap());
        assert!(place.holds("new"), "{steps}: {:?}", place.found());
    }
}

#[test]
fn a_file_that_was_changed_since_it_got_its_name_is_not_taken_back() {
    let place = Place::new();
    killed_while_naming(&place, false, 1);
    fs::write(place.path("o.0"), "mine").unwrap();
    assert_eq!(place.create(&FILES, false, false).unwrap_err().message(), "the output exists");
    assert_eq!(fs::read_to_string(place.path("o.0")).unwrap(), "mine");
}

#[test]
fn where_one_file_cannot_get_its_name_all_old_ones_keep_theirs() {
    let place = Place::with_old();
    let output = place.written(&FILES, true);
    fs::remove_file(place.path("o.1")).unwrap();
    fs::create_dir_all(place.path("o.1/sub")).unwrap();
    // A directory can be set aside, but not a file put over the one that comes back.
    fs::create_dir_all(aside(&output.files[1].temporary).join("sub")).unwrap();
    assert!(output.commit_as(false).is_err());
    for (name, text) in [("o.0", "old"), ("o.index", "old")] {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn a_second_process_that_writes_the_same_output_is_told_and_touches_nothing() {
    let place = Place::new();
    let first = place.written(&FILES, false);
    let before = place.found();
    for (overwrite, resume) in [(false, false), (true, false), (true, true)] {
        let error = place.create(&FILES, overwrite, resume).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.message().contains("another conversion is writing"), "{error}");
        assert_eq!(place.found(), before);
    }
    first.commit_as(false).unwrap();
    assert!(place.holds("new"));
}

#[test]
fn several_share_the_files_of_one_key_and_nobody_else_takes_them_meanwhile() {
    let place = Place::new();
    let first = place.stage(&FILES, false, StageMode::Shared).unwrap();
    let second = place.stage(&FILES, false, StageMode::Shared).unwrap();
    assert_eq!(first.token(), second.token());
    first.file(FileId(0)).unwrap().write_at(0, b"n").unwrap();
    second.file(FileId(0)).unwrap().write_at(1, b"ew").unwrap();
    (1..3).for_each(|id| second.file(FileId(id)).unwrap().write_at(0, b"new").unwrap());
    for mode in [StageMode::Fresh, StageMode::Resume, StageMode::Existing] {
        let error = place.stage(&FILES, false, mode).unwrap_err();
        assert!(error.message().contains("another conversion is writing"), "{mode:?}: {error}");
    }
    drop(first);
    drop(second);
    let last = place.stage(&FILES, false, StageMode::Existing).unwrap();
    assert_eq!(last.earlier(), Earlier::Kept);
    last.commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());
}

/// What several processes wrote, and left to be committed.
fn shared(place: &Place, overwrite: bool) {
    let output = place.stage(&FILES, overwrite, StageMode::Shared).unwrap();
    (0..3).for_each(|id| output.file(FileId(id)).unwrap().write_at(0, b"new").unwrap());
}

#[test]
fn what_several_wrote_stays_until_it_is_committed_or_discarded() {
    let place = Place::new();
    shared(&place, false);
    let left = place.found();
    assert_eq!(left.len(), 4);
    let mut output = place.stage(&FILES, false, StageMode::Existing).unwrap();
    let attached = place.path("receipt.json").display().to_string();
    output.attach(&attached).unwrap();
    drop(output);
    let names = |found: &[(String, String)]| found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&place.found()), names(&left), "the attachment goes");
    Box::new(place.stage(&FILES, false, StageMode::Existing).unwrap()).discard();
    assert_eq!(place.found(), []);
}

#[test]
fn where_a_file_that_several_wrote_cannot_get_its_name_all_of_them_stay() {
    let place = Place::new();
    shared(&place, false);
    let output = place.stage(&FILES, false, StageMode::Existing).unwrap();
    fs::write(place.path("o.1"), "mine").unwrap();
    assert_eq!(output.commit_as(false).unwrap_err().message(), "the output exists");
    assert!(!place.path("o.0").exists());
    fs::remove_file(place.path("o.1")).unwrap();
    place.stage(&FILES, false, StageMode::Existing).unwrap().commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());

    let place = Place::with_old();
    shared(&place, true);
    let output = place.stage(&FILES, true, StageMode::Existing).unwrap();
    let blocked = aside(&output.files[1].temporary);
    fs::create_dir_all(blocked.join("sub")).unwrap();
    assert!(output.commit_as(false).is_err());
    for name in FILES {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), "old", "{name}");
    }
    fs::remove_dir_all(blocked).unwrap();
    place.stage(&FILES, true, StageMode::Existing).unwrap().commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());
}

#[test]
fn a_staged_file_that_is_gone_is_an_error_and_is_not_made_again() {
    let place = Place::new();
    drop(place.stage(&FILES, false, StageMode::Shared).unwrap());
    let (name, _) = place.found().into_iter().find(|(name, _)| name.ends_with(".ckpt-tmp")).unwrap();
    fs::remove_file(place.path(&name)).unwrap();
    for mode in [StageMode::Shared, StageMode::Existing] {
        let error = place.stage(&FILES, false, mode).unwrap_err();
        assert_eq!((error.kind(), error.message()), (Kind::Io, "cannot open a staged file"), "{mode:?}");
    }
}

#[test]
fn files_that_a_killed_process_had_not_all_made_are_made_again() {
    let place = Place::new();
    let first = place.stage(&FILES, false, StageMode::Shared).unwrap();
    let token = first.token();
    drop(first);
    let of =
        |end: &str| place.found().into_iter().map(|(name, _)| name).find(|name| name.ends_with(end)).unwrap();
    let journal = place.path(&of(".ckpt-journal"));
    let bytes = fs::read(&journal).unwrap();
    // The last record: length, checksum, what it is, text.
    let header = bytes.strip_suffix(b"Dmade").unwrap();
    fs::write(&journal, &header[..header.len() - 8]).unwrap();
    fs::remove_file(place.path(&of(".ckpt-tmp"))).unwrap();
    let again = place.stage(&FILES, false, StageMode::Shared).unwrap();
    assert_ne!(again.token(), token);
    (0..3).for_each(|id| again.file(FileId(id)).unwrap().write_at(0, b"new").unwrap());
    drop(again);
    place.stage(&FILES, false, StageMode::Existing).unwrap().commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());
}

#[test]
fn nothing_is_staged_where_nobody_wrote() {
    let place = Place::new();
    let error = place.stage(&FILES, false, StageMode::Existing).unwrap_err();
    assert_eq!(error.message(), "no item of this plan has written anything yet");
    assert_eq!(place.found(), []);
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_whatever_files_that_writes() {
    let place = Place::new();
    killed(place.written(&["o/a/0", "o/a/1", "o.2"], false));
    assert_eq!(place.found().len(), 3);
    place.written(&FILES, false).commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());
}

#[test]
fn directories_that_were_made_go_with_the_output_and_those_of_others_stay() {
    let place = Place::new();
    fs::create_dir(place.path("kept")).unwrap();
    drop(place.written(&["o/a/0", "kept/b/1"], false));
    assert_eq!(place.found(), [("kept".to_owned(), String::new())]);
    assert!(fs::read_dir(place.path("kept")).unwrap().next().is_none());
}

#[test]
fn a_journal_without_its_beginning_or_end_is_no_obstacle() {
    let place = Place::new();
    let output = place.written(&FILES, false);
    let journal = output.naming.journal.clone();
    for number in 0..3 {
        output.note(&[number; 9], 3);
    }
    killed(output);
    let whole = fs::read(&journal).unwrap();
    let mut records = [0; 4];
    for len in 0..=whole.len() {
        fs::write(&journal, &whole[..len]).unwrap();
        let mut taken = Journal::take(&os(), &journal).unwrap();
        let past = taken.read().unwrap();
        assert!(past.valid <= len as u64);
        records[past.notes.len()] += 1;
        taken.abandon();
    }
    assert!(records.iter().all(|count| *count > 0), "{records:?}");
    // A byte that changed hides what comes after it.
    for at in [0, 4, 9, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&journal, &damaged).unwrap();
        let past = Journal::take(&os(), &journal).unwrap().read().unwrap();
        assert!(past.notes.len() < 3, "{at}");
    }
    fs::write(&journal, "something else").unwrap();
    place.written(&FILES, false).commit_as(false).unwrap();
    assert!(place.holds("new"), "{:?}", place.found());
}

#[test]
fn two_names_that_differ_only_in_case_are_refused_before_anything_exists() {
    let place = Place::new();
    let error = place.create(&["o.Index", "o.index"], true, false).unwrap_err();
    assert!(error.message().contains("differ only in case"), "{error}");
    assert!(place.found().is_empty());
}

/// A process that is killed after `steps` of those that [`Output::commit`] takes with an attachment in another
/// directory.
fn killed_with_attachment(place: &Place, attachment: &Path, overwrite: bool, steps: usize) -> usize {
    let mut output = place.attaching(Some(attachment), overwrite, StageMode::Fresh).unwrap();
    (0..3).for_each(|id| output.file(FileId(id)).unwrap().write_at(0, b"new").unwrap());
    let id = output.attach(attachment.to_str().unwrap()).unwrap();
    output.file(id).unwrap().write_at(0, b"new").unwrap();
    let files: Vec<(PathBuf, PathBuf)> =
        output.files.iter().map(|p| (p.temporary.clone(), p.target.clone())).collect();
    let stamps: Vec<Stamp> = files.iter().map(|(path, _)| Stamp::of(path).unwrap()).collect();
    output.journal.name(&stamps, false).unwrap();
    killed(output);
    let old = files.iter().rev().filter(|_| overwrite).map(|(path, target)| (target.clone(), aside(path)));
    let new = files.iter().map(|(path, target)| (path.clone(), target.clone()));
    let taken = old.chain(new).take(steps);
    taken.map(|(from, to)| fs::rename(from, to).unwrap()).count()
}

#[test]
fn killed_between_the_outputs_names_and_the_attachments_the_next_process_takes_all_back_or_has_all() {
    for (overwrite, steps) in (0..=4).map(|steps| (false, steps)).chain((0..=8).map(|steps| (true, steps))) {
        let all = if overwrite { 8 } else { 4 };
        // The next process wants the same attachment, another one, or none; it goes on, or begins anew.
        for (mode, same) in
            [StageMode::Resume, StageMode::Fresh].into_iter().flat_map(|m| [(m, true), (m, false)])
        {
            let (place, elsewhere) = (if overwrite { Place::with_old() } else { Place::new() }, Place::new());
            let attachment = elsewhere.path("r");
            if overwrite {
                fs::write(&attachment, "old").unwrap();
            }
            assert_eq!(killed_with_attachment(&place, &attachment, overwrite, steps), steps);
            let wanted = same.then_some(attachment.as_path());
            let told = format!("overwrite {overwrite}, {steps} steps, {mode:?}, same {same}");
            match place.attaching(wanted, overwrite, mode) {
                Ok(output) => {
                    let complete = steps == all && mode == StageMode::Resume;
                    assert_eq!(output.earlier() == Earlier::Complete, complete, "{told}");
                    assert_eq!(output.bytes().unwrap(), 9, "{told}");
                }
                Err(error) => assert!(steps == all && !overwrite, "{told}: {error}"),
            }
            let expected = if steps == all { Some("new") } else { overwrite.then_some("old") };
            let held =
                |text: &str| place.holds(text) && elsewhere.found() == [("r".to_owned(), text.to_owned())];
            match expected {
                Some(text) => assert!(held(text), "{told}: {:?} {:?}", place.found(), elsewhere.found()),
                None => assert_eq!((place.found(), elsewhere.found()), (vec![], vec![]), "{told}"),
            }
        }
    }
}

#[test]
fn a_journal_leads_to_no_file_outside_the_directory_that_is_not_the_outputs_own() {
    let (place, victim) = (Place::new(), Place::new());
    fs::write(victim.path("r"), "precious").unwrap();
    fs::write(victim.path(".r.0badc0de.ckpt-tmp"), "precious").unwrap();
    let before = victim.found();
    let output = place.written(&FILES, false);
    let mut stamps: Vec<Stamp> = output.files.iter().map(|p| Stamp::of(&p.temporary).unwrap()).collect();
    stamps.push(Stamp::of(&victim.path("r")).unwrap());
    for path in
        [victim.path("r"), victim.path(".r.0badc0de.ckpt-tmp"), PathBuf::from("../r"), PathBuf::from("/")]
    {
        output.journal.attach(&path).unwrap();
    }
    output.journal.attach(&victim.path("r")).unwrap();
    output.journal.name(&stamps, false).unwrap();
    killed(output);
    drop(place.create(&FILES, true, true).unwrap());
    assert_eq!(victim.found(), before);
    assert!(place.found().is_empty());
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_with_a_temporary_name_is_not_followed() {
        let (place, victim) = (Place::new(), Place::new());
        fs::write(victim.path("v"), "precious").unwrap();
        let temporary = place.written(&FILES, false).files[0].temporary.to_path_buf();
        for target in ["v", "not-there"] {
            symlink(victim.path(target), &temporary).unwrap();
            place.written(&FILES, true).commit_as(false).unwrap();
            assert!(place.holds("new"));
        }
        assert_eq!(victim.found(), [("v".to_owned(), "precious".to_owned())]);
    }

    #[test]
    fn a_link_with_the_journals_name_is_refused_and_not_followed() {
        let (place, victim) = (Place::new(), Place::new());
        fs::write(victim.path("v"), "precious").unwrap();
        let journal = Naming::new(place.0.path(), "o").journal;
        for target in ["v", "not-there"] {
            symlink(victim.path(target), &journal).unwrap();
            assert!(place.create(&FILES, true, true).is_err(), "{target}");
            fs::remove_file(&journal).unwrap();
        }
        assert_eq!(victim.found(), [("v".to_owned(), "precious".to_owned())]);
        assert!(place.found().is_empty());
    }

    #[test]
    fn a_link_with_the_final_name_is_never_replaced_wherever_it_leads() {
        let (place, victim) = (Place::new(), Place::new());
        fs::write(victim.path("v"), "precious").unwrap();
        for target in
            [victim.path("v"), victim.path("not-there"), victim.0.path().into(), "/dev/stdout".into()]
        {
            symlink(&target, place.path("o.0")).unwrap();
            for overwrite in [false, true] {
                let error = place.create(&FILES, overwrite, false).unwrap_err();
                assert_eq!(error.message(), "the output is a symbolic link");
                assert!(!error.to_string().contains("overwrite"), "{error}");
            }
            assert_eq!(fs::read_link(place.path("o.0")).unwrap(), target);
            fs::remove_file(place.path("o.0")).unwrap();
            assert!(place.found().is_empty());
        }
        assert_eq!(victim.found(), [("v".to_owned(), "precious".to_owned())]);
    }

    #[test]
    fn devices_pipes_and_directories_are_never_replaced() {
        let place = Place::new();
        let _socket = std::os::unix::net::UnixListener::bind(place.path("o.0")).unwrap();
        symlink("/dev/null", place.path("o.1")).unwrap();
        fs::create_dir(place.path("o.2")).unwrap();
        symlink(place.path("o.2"), place.path("o.3")).unwrap();
        let before = place.found();
        for name in ["o.0", "o.1", "o.2", "o.3"] {
            let error = place.create(&[name], true, false).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{name}: {error}");
            assert!(error.message().starts_with("the output is "), "{error}");
        }
        assert_eq!(place.found(), before);
    }
}
