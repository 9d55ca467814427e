//! The Hugging Face hub: `hf://[datasets/|spaces/]OWNER/NAME[@REV][/PATH]`.
//!
//! ```text
//! HF_ENDPOINT/OWNER/NAME/resolve/REV/PATH                            the file, or a redirect to a store
//! HF_ENDPOINT/api/models/OWNER/NAME/tree/REV[/FOLDER]                the names of the files
//! HF_HUB_CACHE/models--OWNER--NAME/refs/REV                          a commit
//! HF_HUB_CACHE/models--OWNER--NAME/snapshots/COMMIT/PATH             a file in the cache
//! ```
//!
//! # Specification
//!
//! There is no specification. `huggingface_hub` has the same variables of the environment, paths and headers.
//!
//! # Deviations
//!
//! - A file that is not in the cache is not stored there: only the bytes that are asked for are read.
//! - A repository always has an owner: `hf://openai-community/gpt2`.

use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use ureq::http::HeaderMap;

use super::client::{Failed, Get, HubReason, Linked, Refusal, Retries, failed_status, get, read_body};
use super::url::{WebUrl, encode_segment};
use super::web;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{is_training_state, may_have_tensors};
use crate::limits::Limits;
use crate::remote::location::{ListedFolder, Location, RemoteFile, RemoteFolder};
use crate::remote::source::RemoteSource;
use crate::storage::shown_url;

/// The names of files to open in a repository. The first one that is there counts.
const NAMES: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];

/// The metadata of a folder that a trainer saved.
const METADATA: &str = ".metadata";

/// The longest list of files in bytes.
const LONGEST_LIST: usize = 8 << 20;

/// A file or all of a repository, as a URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HubFile {
    repository: Repository,
    /// The path of the file.
    path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Repository {
    /// `models`, `datasets` or `spaces`.
    kind: &'static str,
    owner: String,
    name: String,
    /// A branch, a tag or a commit, if it is not the default branch.
    revision: Option<String>,
}

impl HubFile {
    /// Parses a URL.
    fn parse(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("://")?;
        let (kind, rest) = ["datasets", "spaces"]
            .into_iter()
            .find_map(|kind| Some((kind, rest.strip_prefix(kind)?.strip_prefix('/')?)))
            .unwrap_or(("models", rest));
        let (owner, rest) = rest.split_once('/')?;
        let (name, path) = match rest.find(['/', '@']) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let (revision, path) = match path.strip_prefix('@') {
            Some(rest) => split_revision(rest),
            None => (None, path.strip_prefix('/').unwrap_or_default()),
        };
        let is_name = |text: &str| !text.is_empty() && !text.starts_with('.') && !text.contains(['\\', '?', '#', '%']);
        // The URL of a folder ends with a slash.
        let is_path = path.is_empty() || is_relative(path.strip_suffix('/').unwrap_or(path));
        if !is_name(owner) || !is_name(name) || !is_path || revision.as_ref().is_some_and(|rev| !is_revision(rev)) {
            return None;
        }
        let (owner, name) = (owner.to_owned(), name.to_owned());
        let path = Some(path.to_owned()).filter(|path| !path.is_empty());
        Some(Self { repository: Repository { kind, owner, name, revision }, path })
    }
}

/// Splits `REV[/PATH]`. A revision has slashes only as `%2F`, and in `refs/pr/1` and `refs/convert/NAME`.
fn split_revision(rest: &str) -> (Option<String>, &str) {
    let is_long = rest.starts_with("refs/pr/") || rest.starts_with("refs/convert/");
    let end = if is_long { 2 } else { 0 };
    let end = rest.match_indices('/').nth(end).map_or(rest.len(), |(end, _)| end);
    let (revision, path) = rest.split_at(end);
    let revision = revision.replace("%2F", "/").replace("%2f", "/");
    (Some(revision), path.strip_prefix('/').unwrap_or_default())
}

fn is_revision(revision: &str) -> bool {
    let is_segment = |segment: &str| !segment.is_empty() && !segment.starts_with('.');
    revision.split('/').all(is_segment) && !revision.contains(['\\', '%', ':'])
}

/// Returns whether a path stays inside of its repository, also if it is joined to a folder of the cache.
fn is_relative(path: &str) -> bool {
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    path.split('/').all(is_segment) && Path::new(path).components().all(is_plain) && !path.contains('\0')
}

impl Repository {
    const DEFAULT: &str = "main";

    fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(Self::DEFAULT)
    }

    /// Returns the URL for messages.
    fn shown(&self) -> String {
        let kind = if self.kind == "models" { String::new() } else { format!("{}/", self.kind) };
        let revision = self.revision.as_ref().map(|revision| format!("@{revision}")).unwrap_or_default();
        format!("hf://{kind}{}/{}{revision}", self.owner, self.name)
    }

    fn shown_file(&self, path: &str) -> String {
        format!("{}/{path}", self.shown())
    }

    /// Returns the folder of the repository in the cache.
    fn cache(&self) -> Option<PathBuf> {
        let kind = self.kind;
        Some(cache_folder()?.join(format!("{kind}--{}--{}", self.owner, self.name)))
    }

    /// Returns the folder of the revision in the cache.
    fn snapshot(&self) -> Option<PathBuf> {
        let folder = self.cache()?;
        let commit = match fs::read_to_string(folder.join("refs").join(self.revision())) {
            Ok(commit) => commit.trim().to_owned(),
            Err(_) => self.revision().to_owned(),
        };
        // A branch that was never loaded has no reference.
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_commit.then(|| folder.join("snapshots").join(commit)).filter(|folder| folder.is_dir())
    }
}

/// Opens a file of the hub: from the cache if it is there.
pub(super) fn open(url: &str, limits: &Limits) -> Result<Location> {
    let file = HubFile::parse(url).ok_or_else(|| {
        let what = format!("open `{}`", shown_url(url));
        let instead = "a URL of the hub is `hf://OWNER/NAME`, or `hf://OWNER/NAME@REVISION/PATH`".to_owned();
        ErrorKind::Unsupported { what, instead }
    })?;
    let HubFile { repository, path } = &file;
    if let Some(snapshot) = repository.snapshot() {
        let is_here = |path: &str| Some(snapshot.join(path)).filter(|path| path.is_file());
        let found = match path {
            // Of a folder, only the metadata of a trainer is looked for.
            Some(path) if path.ends_with('/') => is_here(&format!("{path}{METADATA}")),
            Some(path) => is_here(path),
            None => NAMES.iter().find_map(|name| is_here(name).filter(|path| is_complete(path))),
        };
        if let Some(path) = found {
            return Ok(Location::Path(path));
        }
    }
    if is_offline() {
        let cache = cache_folder().unwrap_or_default();
        let what = format!("ask the hub, as HF_HUB_OFFLINE is set, and the file is not in {}", cache.display());
        let instead = "without it, the file is read from the hub".to_owned();
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    let folder = HubFolder::new(repository.clone())?;
    match path {
        Some(path) if path.ends_with('/') => folder.list_folder(path, None),
        Some(path) => folder.open_file(path, limits),
        None => folder.open_checkpoint(limits),
    }
}

/// Returns whether all shards of an index are in the cache, next to it.
fn is_complete(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !name.ends_with(".index.json") {
        return true;
    }
    let index = fs::read(path).ok().and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    let shards = index.as_ref().and_then(|index| index.get("weight_map")?.as_object());
    shards.is_some_and(|shards| {
        let is_here = |shard: &str| is_relative(shard) && path.with_file_name(shard).is_file();
        shards.values().all(|shard| shard.as_str().is_some_and(is_here))
    })
}

/// A repository at a revision, and the token for it.
#[derive(Clone)]
struct HubFolder {
    endpoint: WebUrl,
    repository: Repository,
    /// The commit that the first answer named, so that all shards are of one.
    commit: Option<String>,
    /// The folder of the opened file, which ends with a slash unless it is empty.
    folder: String,
    token: Option<String>,
}

impl HubFolder {
    fn new(repository: Repository) -> Result<Self> {
        let endpoint = var("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let endpoint = WebUrl::parse(&format!("{}/", endpoint.trim_end_matches('/'))).map_err(|what| {
            let instead = "it is the URL of a hub, such as `https://huggingface.co`".to_owned();
            ErrorKind::Unsupported { what: format!("use HF_ENDPOINT: {what}"), instead }
        })?;
        Ok(Self { endpoint, repository, commit: None, folder: String::new(), token: token() })
    }

    fn url(&self, path: &str) -> WebUrl {
        let Repository { kind, owner, name, .. } = &self.repository;
        let kind = if *kind == "models" { String::new() } else { format!("{kind}/") };
        let revision = encode_segment(self.commit.as_deref().unwrap_or(self.repository.revision()));
        let path: Vec<String> = path.split('/').map(encode_segment).collect();
        let [owner, name] = [owner, name].map(|text| encode_segment(text));
        self.in_endpoint(&format!("{kind}{owner}/{name}/resolve/{revision}/{}", path.join("/")))
    }

    fn in_endpoint(&self, path: &str) -> WebUrl {
        self.endpoint.join(path).expect("encoded segments are a relative URL")
    }

    fn open_object(&self, path: &str, limits: &Limits) -> Result<(Linked, RemoteSource)> {
        let shown = self.repository.shown_file(path);
        let opened = web::open_object(&self.url(path), self.token.as_deref(), shown, limits);
        opened.map_err(|error| self.explain(error, path))
    }

    fn open_file(&self, path: &str, limits: &Limits) -> Result<Location> {
        let (Linked { commit, .. }, source) = self.open_object(path, limits)?;
        let folder = path.rfind('/').map_or("", |end| &path[..=end]).to_owned();
        let siblings = Box::new(Self { commit, folder, ..self.clone() });
        Ok(Location::Ranges(RemoteFile { source: Arc::new(source), folder: siblings }))
    }

    /// Lists the files of a folder, whose path ends with a slash or is empty, at one commit.
    fn list_folder(&self, path: &str, error: Option<Error>) -> Result<Location> {
        let folder = Self { commit: self.find_commit(), folder: path.to_owned(), ..self.clone() };
        let names = folder.list(path)?;
        let names = names.iter().filter_map(|file| file.strip_prefix(path)).map(str::to_owned).collect();
        Ok(Location::Folder(ListedFolder {
            name: self.repository.shown_file(path),
            folder: Box::new(folder),
            names,
            error,
        }))
    }

    /// Opens the checkpoint of the repository, or its only tensor file.
    fn open_checkpoint(&self, limits: &Limits) -> Result<Location> {
        for name in NAMES {
            match self.open_file(name, limits) {
                Err(error) if error.is_not_found() && !is_revision_missing(&error) => {}
                opened => return opened,
            }
        }
        let names = self.list("")?;
        let is_tensors = |path: &&String| {
            let is_shard = path.contains("-of-");
            let is_model = may_have_tensors(Path::new(path)) && !is_training_state(path);
            is_model && !is_shard || path.ends_with(".index.json")
        };
        let files: Vec<&String> = names.iter().filter(is_tensors).collect();
        match &files[..] {
            [file] => self.open_file(file, limits),
            [] => {
                // A trainer has other files.
                let error = self.no_checkpoint("it has no tensor files".to_owned());
                self.list_folder("", Some(error))
            }
            [first, rest @ ..] => {
                let shown = files.iter().take(10).map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
                let more = rest.len().saturating_sub(9);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let example = self.repository.shown_file(first);
                Err(self.no_checkpoint(format!("it has {shown}{more}; name one, such as {example}")))
            }
        }
    }

    fn no_checkpoint(&self, what: String) -> Error {
        let [file, index] = NAMES;
        let message = format!("the repository has no `{file}` and no `{index}`; {what}");
        std::io::Error::new(std::io::ErrorKind::NotFound, message).into()
    }

    /// Returns the paths of the files in a folder, in order. The folder ends with a slash or is empty.
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let revision = self.commit.as_deref().unwrap_or(self.repository.revision());
        let folder: Vec<String> =
            folder.split_terminator('/').map(|name| format!("/{}", encode_segment(name))).collect();
        let tree = format!("{}/tree/{}{}", self.api(), encode_segment(revision), folder.concat());
        let (mut files, mut next, mut left) = (Vec::new(), Some(self.in_endpoint(&tree)), LONGEST_LIST);
        while let Some(url) = next.take() {
            let (json, headers) = self.answer(&url, left)?;
            left = left.saturating_sub(json.len());
            let list: Vec<Value> = serde_json::from_slice(&json)
                .map_err(|_| std::io::Error::other("the hub's list of files is malformed"))?;
            let path = |entry: &Value| {
                let is_file = entry.get("type")?.as_str()? == "file";
                entry.get("path")?.as_str().filter(|_| is_file).map(str::to_owned)
            };
            files.extend(list.iter().filter_map(path));
            // A page has up to 1000 files.
            let link = headers.get_all("link").iter().find_map(|link| next_page(link.to_str().ok()?));
            next = link.and_then(|link| url.join(link).ok()).filter(|next| next.has_origin_of(&url));
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Returns the commit of the revision, if the hub says it.
    fn find_commit(&self) -> Option<String> {
        let url = self.in_endpoint(&format!("{}/revision/{}", self.api(), encode_segment(self.repository.revision())));
        let (json, _) = self.answer(&url, LONGEST_LIST).ok()?;
        serde_json::from_slice::<Value>(&json).ok()?.get("sha")?.as_str().map(str::to_owned)
    }

    /// Returns the path of the repository in the interface of the hub.
    fn api(&self) -> String {
        let Repository { kind, owner, name, .. } = &self.repository;
        format!("api/{kind}/{}/{}", encode_segment(owner), encode_segment(name))
    }

    /// Returns the answer to a request of the interface, up to a length, and its headers.
    fn answer(&self, url: &WebUrl, most: usize) -> Result<(Vec<u8>, HeaderMap)> {
        let request = Get { url, range: None, if_match: None, token: self.token.as_deref(), is_public: false };
        let mut retries = Retries::new();
        loop {
            let answer = || {
                let mut reply = get(&request)?;
                if reply.status.as_u16() != 200 {
                    return Err(failed_status(reply.status, &reply.headers));
                }
                let (mut json, mut piece) = (Vec::new(), vec![0; 64 << 10]);
                loop {
                    match read_body(&mut reply.body, &mut piece)? {
                        0 => return Ok((json, reply.headers)),
                        read if json.len() < most => json.extend_from_slice(&piece[..read]),
                        _ => return Err(Failed::lasting("the hub sends an endless list of files")),
                    }
                }
            };
            match answer() {
                Ok(answer) => return Ok(answer),
                Err(failed) => retries.wait(failed).map_err(|error| self.explain(error.into(), ""))?,
            }
        }
    }

    /// Adds to a refusal what the hub says about it, and where a token was looked for. Without a word of the hub, a
    /// private repository looks like one that does not exist.
    fn explain(&self, error: Error, path: &str) -> Error {
        let Some(refusal) = Refusal::of(&error) else { return error };
        let shown = self.repository.shown();
        let no_token = || {
            format!(
                "there is none in HF_TOKEN, in the file of HF_TOKEN_PATH, in $HF_HOME/token, or in {}",
                default_home().unwrap_or_default().join("token").display()
            )
        };
        let why = match (refusal.reason, &self.token) {
            (Some(HubReason::Gated), token) => {
                let then = match token {
                    Some(_) => "; the token is of a user without access".to_owned(),
                    None => format!(", with a token; {}", no_token()),
                };
                let Repository { kind, owner, name, .. } = &self.repository;
                let kind = if *kind == "models" { String::new() } else { format!("{kind}/") };
                let page = self.in_endpoint(&format!("{kind}{}/{}", encode_segment(owner), encode_segment(name)));
                format!("the repository is gated: ask for access at {page}{then}")
            }
            (Some(HubReason::Disabled), _) => "the hub disabled the repository".to_owned(),
            (Some(HubReason::BadToken), _) => {
                "the hub does not know the token: it expired, or is not whole; `hf auth login` saves a new one"
                    .to_owned()
            }
            (Some(HubReason::NoRevision), _) => {
                format!("the repository has no revision `{}`", self.repository.revision())
            }
            (Some(HubReason::NoFile), _) if path.is_empty() => return error,
            (Some(HubReason::NoFile), _) => format!("{shown} has no file `{path}`"),
            (Some(HubReason::NoRepository), token) => match token {
                Some(_) => "the repository does not exist, or the token has no access to it".to_owned(),
                None => format!("the repository does not exist, or needs a token; {}", no_token()),
            },
            (None, token) if matches!(refusal.status.as_u16(), 401 | 403) => match token {
                Some(_) => "the repository does not exist, or the token has no access to it".to_owned(),
                None => format!("the repository does not exist, or needs a token; {}", no_token()),
            },
            (None, _) => return error,
        };
        refusal.because(&why)
    }
}

/// Returns the URL of the next page in a header `Link`: `<URL>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (url, parameters) = link.trim_start().strip_prefix('<')?.split_once('>')?;
    parameters.split(',').next()?.contains("rel=\"next\"").then_some(url)
}

/// Returns whether no file of a repository can be there.
fn is_revision_missing(error: &Error) -> bool {
    let reason = Refusal::of(error).and_then(|refusal| refusal.reason);
    matches!(reason, Some(HubReason::NoRevision | HubReason::NoRepository))
}

impl RemoteFolder for HubFolder {
    fn open(&self, name: &str, limits: &Limits) -> Result<Arc<RemoteSource>> {
        Ok(Arc::new(self.open_object(&format!("{}{name}", self.folder), limits)?.1))
    }
}

/// Returns a variable of the environment that is not empty.
fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn is_offline() -> bool {
    var("HF_HUB_OFFLINE").is_some_and(|value| matches!(&*value.to_ascii_lowercase(), "1" | "true" | "yes" | "on"))
}

/// Returns the token for the hub.
fn token() -> Option<String> {
    let in_file = |path: PathBuf| fs::read_to_string(path).ok();
    let found =
        var("HF_TOKEN").or_else(|| in_file(var("HF_TOKEN_PATH")?.into())).or_else(|| in_file(home()?.join("token")))?;
    // The token becomes part of a header, so it must be plain text.
    Some(found.trim().to_owned()).filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
}

fn home() -> Option<PathBuf> {
    var("HF_HOME").map(PathBuf::from).or_else(default_home)
}

fn default_home() -> Option<PathBuf> {
    let cache = var("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cache")));
    cache.map(|cache| cache.join("huggingface"))
}

fn cache_folder() -> Option<PathBuf> {
    let named = var("HF_HUB_CACHE").or_else(|| var("HUGGINGFACE_HUB_CACHE")).map(PathBuf::from);
    named.or_else(|| Some(home()?.join("hub")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<(&'static str, String, Option<String>, Option<String>)> {
        let HubFile { repository: Repository { kind, owner, name, revision }, path } = HubFile::parse(url)?;
        Some((kind, format!("{owner}/{name}"), revision, path))
    }

    #[test]
    fn urls_of_the_hub_are_parsed() {
        let some = |text: &str| Some(text.to_owned());
        for (url, kind, name, revision, path) in [
            ("hf://o/n", "models", "o/n", None, None),
            ("hf://o/n/", "models", "o/n", None, None),
            ("hf://o/n/a/", "models", "o/n", None, some("a/")),
            ("hf://o/n/a/b.npy", "models", "o/n", None, some("a/b.npy")),
            ("HF://o/n@v1", "models", "o/n", some("v1"), None),
            ("hf://o/n@v1/a@b.npy", "models", "o/n", some("v1"), some("a@b.npy")),
            ("hf://o/n@refs/pr/1/a.npy", "models", "o/n", some("refs/pr/1"), some("a.npy")),
            ("hf://o/n@refs%2Fpr%2F1/a.npy", "models", "o/n", some("refs/pr/1"), some("a.npy")),
            ("hf://o/n@refs/convert/parquet", "models", "o/n", some("refs/convert/parquet"), None),
            ("hf://datasets/o/n/a.npy", "datasets", "o/n", None, some("a.npy")),
            ("hf://spaces/o/n", "spaces", "o/n", None, None),
            ("hf://o/datasets/a.npy", "models", "o/datasets", None, some("a.npy")),
        ] {
            assert_eq!(parsed(url), Some((kind, name.to_owned(), revision, path)), "{url}");
        }
        for url in [
            "hf://",
            "hf://o",
            "hf://o/",
            "hf:///n",
            "hf://o/../n",
            "hf://o/n/../a",
            "hf://o/n//a",
            "hf://o/n//",
            "hf://o/n/a//b",
            "hf://o/n/./a",
            "hf://o/n@v1//etc/passwd",
            "hf://o/n@c:/a",
            "hf://o/n@/a",
            "hf://o/n@../a",
            "hf://o/n?q",
        ] {
            assert_eq!(parsed(url), None, "{url}");
        }
    }

    #[test]
    fn messages_show_what_was_asked_for() {
        for url in ["hf://o/n", "hf://datasets/o/n@refs/pr/1", "hf://spaces/o/n@v1"] {
            assert_eq!(HubFile::parse(url).unwrap().repository.shown(), url);
        }
    }
}
