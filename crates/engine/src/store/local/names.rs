//! Names of output files: which may be written, and what files are called until they have theirs.

use ckpt_api::{ChecksumAlgorithm, Error, Result};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// How a file is called that has no final name yet.
pub(super) const TEMPORARY: &str = ".ckpt-tmp";
/// How a file is called that gave its name to one that is not alone.
pub(super) const ASIDE: &str = ".ckpt-old";
const JOURNAL: &str = ".ckpt-journal";

/// The path of an output file, which is in `directory`.
pub(super) fn target(directory: &Path, name: &str) -> Result<PathBuf> {
    let inside = !name.is_empty()
        && !name.contains('\0')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !inside {
        return Err(Error::usage("the output's name leads outside its directory").found(format!("{name:?}")));
    }
    if cfg!(windows) && name.split(['/', '\\']).any(is_device) {
        return Err(Error::usage("this system does not allow the output's name")
            .found(format!("{name:?}"))
            .help("choose another name"));
    }
    Ok(directory.join(name))
}

/// What Windows takes for a device or a stream, whatever its extension, or stores under another name.
fn is_device(part: &str) -> bool {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    const PORTS: [&str; 2] = ["COM", "LPT"];
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_port = |port: &str| {
        let mut number = stem.strip_prefix(port).unwrap_or_default().chars();
        matches!((number.next(), number.next()), (Some('1'..='9' | '¹' | '²' | '³'), None))
    };
    DEVICES.contains(&stem.as_str())
        || PORTS.into_iter().any(is_port)
        || part.contains(':')
        || part.ends_with(['.', ' '])
}

/// Refuses names of which a file system that ignores case makes one.
pub(super) fn check_distinct<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let mut seen: HashMap<String, &Path> = HashMap::new();
    for path in paths {
        if let Some(other) = seen.insert(path.to_string_lossy().to_lowercase(), path) {
            return Err(Error::usage("two output files would have names that differ only in case")
                .found(format!("'{}' and '{}'", other.display(), path.display()))
                .help("some file systems treat them as the same name: choose another one"));
        }
    }
    Ok(())
}

/// Refuses a name that a conversion gives to files of its own: another conversion would remove it.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`].
pub fn refuse_own(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if !name.starts_with('.') || ![TEMPORARY, ASIDE, JOURNAL].iter().any(|end| name.ends_with(end)) {
        return Ok(());
    }
    Err(Error::usage("the name is reserved for the files of an unfinished conversion")
        .file(path.display().to_string())
        .help("choose another name"))
}

/// Whether both are one name, however they are spelled, where `a` and `A` are the same.
pub(super) fn is_same_name(a: &Path, b: &Path) -> bool {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let directory = |path: &Path| real(path).parent().map(Path::to_owned);
    name(a) == name(b) && directory(a) == directory(b)
}

/// The directory that a file is in; `.` if its path names none.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path of a file whose directory has no links in it.
pub(super) fn real(path: &Path) -> PathBuf {
    let directory = parent(path).canonicalize().unwrap_or_else(|_| parent(path).to_owned());
    directory.join(path.file_name().unwrap_or_default())
}

/// The names that one output's files have until they have their own: the same whenever the same output is written, and
/// never those of another output.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    pub(super) journal: PathBuf,
    directory: PathBuf,
    /// What the output is called, with its directory.
    whole: String,
}

impl Naming {
    /// For the output that the user calls `name`.
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let real = here.canonicalize().unwrap_or_else(|_| here.to_owned());
        let whole = real.join(name).to_string_lossy().into_owned();
        let journal = directory.join(format!(".{}{JOURNAL}", short(name)));
        Naming { journal, directory: directory.to_owned(), whole }
    }

    /// The output's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a file is called before it has the name `target`, relative to the output's directory; it is beside it.
    pub(super) fn temporary(&self, target: &str) -> String {
        let name = Path::new(target).file_name().unwrap_or_default().to_string_lossy();
        let sum = crc32c(&[self.whole.as_bytes(), &[0], target.as_bytes()]);
        format!(".{}.{sum:08x}{TEMPORARY}", short(&name))
    }

    /// The same for a file that may be elsewhere.
    pub(super) fn temporary_elsewhere(&self, target: &Path) -> String {
        self.temporary(&real(target).to_string_lossy())
    }
}

/// What the file is called that had a name before the file with this temporary name.
pub(super) fn aside(temporary: &Path) -> PathBuf {
    let name = temporary.file_name().unwrap_or_default().to_string_lossy();
    temporary.with_file_name(format!("{}{ASIDE}", name.strip_suffix(TEMPORARY).unwrap_or(&name)))
}

/// Whether [`Naming::temporary`] gives such names.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY) && !name.contains(['/', '\\', '\0', ':'])
}

/// A name that leaves room for more, however long it is.
fn short(name: &str) -> String {
    const LONGEST: usize = 120;
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let end = name.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last().unwrap_or(0);
    format!("{}-{:08x}", name.get(..end).unwrap_or_default(), crc32c(&[name.as_bytes()]))
}

/// The CRC-32C of the pieces, one after the other.
pub(super) fn crc32c(pieces: &[&[u8]]) -> u32 {
    pieces.iter().fold(0, |crc, piece| ChecksumAlgorithm::Crc32c.append(crc, piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leaves_the_directory_is_refused() {
        for name in ["../x", "../../x", "a/../../x", "/etc/x", "", ".", "..", "a\0b"] {
            assert_eq!(target(Path::new("d"), name).unwrap_err().kind(), ckpt_api::Kind::Usage, "{name:?}");
        }
        assert_eq!(target(Path::new("d"), "sub/x").unwrap(), Path::new("d/sub/x"));
    }

    #[test]
    fn names_that_conversions_give_to_their_own_files_are_refused() {
        let naming = Naming::new(Path::new("d"), "x.npz");
        let temporary = Path::new("d").join(naming.temporary("x.npz"));
        let own = [naming.journal, aside(&temporary), temporary, PathBuf::from(".X.CKPT-Journal")];
        own.iter().for_each(|path| assert!(refuse_own(path).is_err(), "{}", path.display()));
        for name in ["x.ckpt-journal", ".x.npz", ".ckpt-tmp/x", ".x.ckpt-journal.json", ""] {
            refuse_own(Path::new(name)).unwrap();
        }
    }

    #[test]
    fn windows_has_names_that_are_no_files() {
        let devices = ["CON", "nul", "Aux.safetensors", "com1.nn", "LPT9", "prn .x", "a:b", "x.", "x "];
        devices.into_iter().for_each(|name| assert!(is_device(name), "{name}"));
        let files = ["console", "nul2", "com0", "com10.nn", "auxiliary.nn", ".nn", "x.nn"];
        files.into_iter().for_each(|name| assert!(!is_device(name), "{name}"));
    }

    #[test]
    fn names_that_differ_only_in_case_are_refused() {
        let paths = |names: [&str; 2]| names.map(PathBuf::from);
        let error = check_distinct(&paths(["d/Model.bin", "d/model.bin"])).unwrap_err().to_string();
        assert!(error.contains("Model.bin") && error.contains("model.bin"), "{error}");
        check_distinct(&paths(["d/a", "e/a"])).unwrap();
    }

    #[test]
    fn files_of_different_outputs_never_share_a_temporary_name() {
        let directory = tempfile::tempdir().unwrap();
        let naming = |name: &str| Naming::new(directory.path(), name);
        assert_eq!(naming("x").temporary("x.index"), naming("x").temporary("x.index"));
        assert_ne!(naming("x").temporary("x.index"), naming("x.index").temporary("x.index"));
        assert_ne!(naming("x").journal, naming("x.index").journal);
        assert!(is_temporary(&naming("x").temporary("x.index")));
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let directory = Path::new("d");
        let (a, b) = ("ä".repeat(120) + "a", "ä".repeat(120) + "b");
        let (a, b) = (Naming::new(directory, &a), Naming::new(directory, &b));
        assert_ne!(a.journal, b.journal);
        for path in [&a.journal, &b.journal] {
            assert!(path.file_name().unwrap().len() <= 255, "{}", path.display());
        }
    }
}
