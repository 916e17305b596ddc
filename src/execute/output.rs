//! Files that appear complete under their final names, or not at all.

use ckpt_api::{Error, Input, OutputFile, Result};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use tempfile::NamedTempFile;

/// Output files under temporary names beside their final ones; removed when dropped before [`Output::commit`].
#[derive(Debug)]
pub(crate) struct Output {
    files: Vec<(NamedTempFile, PathBuf)>,
    created: Vec<PathBuf>,
    overwrite: bool,
}

impl Output {
    /// Checks every final name, then makes the temporary files.
    pub(crate) fn create(
        directory: &Path,
        files: &[OutputFile],
        overwrite: bool,
        sources: &[PathBuf],
    ) -> Result<Self> {
        let mut output = Output { files: Vec::new(), created: Vec::new(), overwrite };
        let targets = files.iter().map(|file| target(directory, &file.name)).collect::<Result<Vec<_>>>()?;
        for path in &targets {
            refuse_existing(path, overwrite, sources)?;
        }
        for (path, file) in targets.into_iter().zip(files) {
            let temporary = output.temporary(&path)?;
            if let Some(len) = file.len {
                temporary
                    .as_file()
                    .set_len(len)
                    .map_err(|error| cannot("make the output file", &path, error))?;
            }
            output.files.push((temporary, path));
        }
        Ok(output)
    }

    fn temporary(&mut self, path: &Path) -> Result<NamedTempFile> {
        let directory = parent(path);
        if !directory.exists() {
            let missing = directory
                .ancestors()
                .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists());
            let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
            fs::create_dir_all(directory)
                .map_err(|error| cannot("make the output's directory", directory, error))?;
            self.created.extend(missing);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{name}.");
        builder.prefix(&prefix).suffix(".ckpt-tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder
            .tempfile_in(directory)
            .map_err(|error| cannot("make a file in the output's directory", directory, error))
    }

    /// Writes bytes at a place in a file.
    pub(crate) fn write_at(&self, file: ckpt_api::FileId, offset: u64, bytes: &[u8]) -> Result<()> {
        let (temporary, path) = &self.files[file.0];
        write_all_at(temporary.as_file(), bytes, offset)
            .map_err(|error| cannot("write the output", path, error).offset(offset))
    }

    /// Bytes in all files.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.files.iter().try_fold(0, |sum, (temporary, path)| {
            let meta =
                temporary.as_file().metadata().map_err(|error| cannot("look at the output", path, error))?;
            Ok(sum + meta.len())
        })
    }

    /// Gives every file its final name, the last one last. `sync` waits until the bytes are on the disk.
    pub(crate) fn commit(mut self, sync: bool) -> Result<Vec<PathBuf>> {
        if sync {
            for (temporary, path) in &self.files {
                temporary.as_file().sync_all().map_err(|error| cannot("flush the output", path, error))?;
            }
        }
        let mut done: Vec<PathBuf> = Vec::new();
        for (temporary, path) in self.files.drain(..) {
            let persisted =
                if self.overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
            if let Err(error) = persisted {
                // A replaced file cannot be brought back; new ones are taken away again.
                if !self.overwrite {
                    done.iter().for_each(|path| drop(fs::remove_file(path)));
                }
                return Err(cannot("give the output its name", &path, error.error));
            }
            done.push(path);
        }
        self.created.clear();
        if sync {
            sync_directories(&done)?;
        }
        Ok(done)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.files.clear();
        // Deepest first; a directory in which someone else put something stays.
        self.created.iter().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

fn target(directory: &Path, name: &str) -> Result<PathBuf> {
    let inside = !name.is_empty()
        && !name.contains('\0')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if inside {
        Ok(directory.join(name))
    } else {
        Err(Error::usage("the output's name leaves its directory").found(format!("{name:?}")))
    }
}

fn refuse_existing(path: &Path, overwrite: bool, sources: &[PathBuf]) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let shown = path.display().to_string();
    if let Ok(real) = path.canonicalize()
        && sources.contains(&real)
    {
        return Err(Error::usage("the output is the input")
            .file(shown)
            .help("write to another name; the source is never changed"));
    }
    if meta.is_dir() {
        return Err(Error::usage("the output is a directory")
            .file(shown)
            .help("name the file to write in it"));
    }
    if !overwrite {
        return Err(Error::usage("the output exists")
            .file(shown)
            .help("choose another name, or replace it with --force"));
    }
    Ok(())
}

/// The directory that a file lies in; `.` where its path names none.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The real paths of the input's files, against which outputs are compared.
pub(crate) fn real_paths(input: &Input, names: &[String]) -> Vec<PathBuf> {
    let Some(directory) = input.directory() else { return Vec::new() };
    let names = names.iter().map(String::as_str).chain((!input.entry().is_empty()).then_some(input.entry()));
    names.filter_map(|name| directory.join(name).canonicalize().ok()).collect()
}

fn cannot(what: &str, path: &Path, error: io::Error) -> Error {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let result = Error::io(format!("cannot {what}"), error).file(path.display().to_string());
    if full {
        result.help("the disk is full: nothing was left behind; make room or write elsewhere")
    } else {
        result
    }
}

#[cfg(unix)]
fn sync_directories(files: &[PathBuf]) -> Result<()> {
    let directories: std::collections::BTreeSet<&Path> = files.iter().map(|path| parent(path)).collect();
    for directory in directories {
        fs::File::open(directory)
            .and_then(|handle| handle.sync_all())
            .map_err(|error| cannot("flush the output's directory", directory, error))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn sync_directories(_: &[PathBuf]) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_all_at(file: &fs::File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
