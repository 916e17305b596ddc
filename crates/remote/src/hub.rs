//! The Hugging Face Hub: files of one revision of a repository.

use super::problem::{Failure, Problem};
use super::{runtime, web};
use serde::Deserialize;
use std::path::PathBuf;

/// One revision of a repository.
pub(super) struct Repository {
    endpoint: String,
    /// `models`, `datasets` or `spaces`.
    kind: &'static str,
    /// `owner/name`.
    name: String,
    /// The commit, which does not change.
    commit: String,
    token: Option<String>,
}

const ENDPOINT: &str = "https://huggingface.co";
/// A directory's answer has a thousand files.
const PAGES: usize = 1000;

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

/// What a directory has.
#[derive(Default)]
pub(super) struct Directory {
    /// The names of its files.
    pub(super) files: Vec<String>,
    /// The names of its directories.
    pub(super) directories: Vec<String>,
    /// Whether it has anything.
    pub(super) exists: bool,
}

impl Repository {
    /// Opens `owner/name[@revision]`, with `datasets/` or `spaces/` before it for those, and finds the commit that the
    /// revision names now.
    pub(super) fn open(text: &str, endpoint: Option<&str>) -> Result<Self, Problem> {
        let (kind, rest) = match text.split_once('/') {
            Some(("datasets", rest)) => ("datasets", rest),
            Some(("spaces", rest)) => ("spaces", rest),
            _ => ("models", text),
        };
        let (name, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let given = std::env::var("HF_ENDPOINT").ok().filter(|value| !value.is_empty());
        let endpoint = endpoint.map(str::to_owned).or(given).unwrap_or_else(|| ENDPOINT.to_owned());
        let mut repository = Repository {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            kind,
            name: name.to_owned(),
            commit: String::new(),
            token: token(),
        };
        let url = format!("{}/revision/{revision}", repository.interface());
        let (answer, _) = repository.ask(url)?;
        let found: Revision = serde_json::from_slice(&answer).map_err(|error| unreadable(&error))?;
        if found.sha.is_empty() || !found.sha.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Problem::new(Failure::Other, "the Hub's answer does not name a commit"));
        }
        repository.commit = found.sha;
        Ok(repository)
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The address below which the files are.
    pub(super) fn files(&self) -> String {
        let kind = if self.kind == "models" { String::new() } else { format!("{}/", self.kind) };
        format!("{}/{kind}{}/resolve/{}", self.endpoint, self.name, self.commit)
    }

    fn interface(&self) -> String {
        format!("{}/api/{}/{}", self.endpoint, self.kind, self.name)
    }

    /// The files directly in a directory; at most `most + 1`.
    pub(super) fn list(&self, directory: &str, most: u64) -> Result<Directory, Problem> {
        let mut found = Directory::default();
        let encoded = directory.split('/').map(encoded).collect::<Vec<_>>().join("/");
        let mut next = Some(format!("{}/tree/{}/{encoded}", self.interface(), self.commit));
        for _ in 0..PAGES {
            let Some(url) = next.take() else { break };
            let (answer, following) = match self.ask(url) {
                Err(problem) if problem.failure == Failure::Missing => break,
                answer => answer?,
            };
            let entries: Vec<Entry> = serde_json::from_slice(&answer).map_err(|error| unreadable(&error))?;
            found.exists |= !entries.is_empty();
            for entry in entries {
                let Some(name) = entry.path.rsplit('/').next() else { continue };
                match entry.kind.as_str() {
                    "file" => found.files.push(name.to_owned()),
                    "directory" => found.directories.push(name.to_owned()),
                    _ => {}
                }
            }
            if found.files.len() as u64 > most {
                break;
            }
            // The token goes to no other server.
            next = following.filter(|url| url.starts_with(&format!("{}/", self.endpoint)));
        }
        Ok(found)
    }

    /// The answer to a request, and the address of the next page.
    fn ask(&self, url: String) -> Result<(Vec<u8>, Option<String>), Problem> {
        let client = web::client(self.endpoint.starts_with("http://"))?;
        let mut request = client.get(url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = runtime::wait(web::answer(request, "the Hub"));
        let answer =
            answer.map_err(|error| Problem::new(Failure::Other, error.to_string()))??.granted("the Hub")?;
        let link = answer.headers.get(reqwest::header::LINK).and_then(|link| link.to_str().ok());
        Ok((answer.body, link.and_then(next_page)))
    }
}

/// The address of the next page in a header such as `<https://…>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let address = next.trim().strip_prefix('<')?.split_once('>')?.0;
    Some(address.to_owned())
}

fn unreadable(error: &serde_json::Error) -> Problem {
    Problem::new(Failure::Other, format!("the Hub's answer cannot be understood: {error}"))
}

/// A part of a path, as an address has it.
fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The token of the user: of the environment, or of the file that `hf auth login` writes.
fn token() -> Option<String> {
    let given = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].iter().find_map(|name| std::env::var(name).ok());
    let token = given.or_else(|| {
        let home = || Some(std::env::home_dir()?.join(".cache").join("huggingface"));
        let cache =
            || std::env::var_os("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("huggingface"));
        let own = std::env::var_os("HF_HOME").map(PathBuf::from);
        let named = std::env::var_os("HF_TOKEN_PATH").map(PathBuf::from);
        let path = named.or_else(|| Some(own.or_else(cache).or_else(home)?.join("token")))?;
        std::fs::read_to_string(path).ok()
    });
    token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_what_the_header_calls_so() {
        let link = "<https://host/a?cursor=1>; rel=\"prev\", <https://host/b>; rel=\"next\"";
        assert_eq!(next_page(link).as_deref(), Some("https://host/b"));
        assert_eq!(next_page("<https://host/a>; rel=\"prev\""), None);
    }

    #[test]
    fn a_name_of_any_characters_is_a_part_of_an_address() {
        assert_eq!(encoded("a b/ü%"), "a%20b%2F%C3%BC%25");
    }
}
