//! The configuration beside a model whose quantized weights were decoded.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use tensorfile::File;
use tensorfile::file::atomic::NewFile;
use tensorfile::file::shown_url;

use super::quoted;
use crate::exit::{At, Outcome};
use crate::output::note;

/// The name of the configuration of transformers and of MLX.
const NAME: &str = "config.json";

/// The keys that say how weights are stored.
const STALE: [&str; 2] = ["quantization_config", "quantization"];

/// A configuration with keys that are not true of decoded weights.
pub struct StaleConfiguration {
    /// The path or the URL, for messages.
    shown: PathBuf,
    /// The folder; `None` at a URL.
    folder: Option<PathBuf>,
    /// The stale keys, and the text without them.
    stale: Vec<String>,
    text: String,
    /// Some weights are still quantized, so that the keys are needed.
    is_needed: bool,
}

impl StaleConfiguration {
    /// Reads the configuration beside a file whose weights are decoded. `None` if there is none, or nothing in it is stale.
    pub fn beside(file: &File) -> Option<Self> {
        let text = String::from_utf8(file.read_configuration()?).ok()?;
        let (stale, text) = without_stale(&text)?;
        let shown = Path::new(&*file.location()?).with_file_name(NAME);
        let folder = file.path().filter(|path| shown_url(path).is_none()).map(folder_of);
        let is_needed = file.quantized().is_ok_and(|left| !left.is_empty());
        (!stale.is_empty()).then_some(Self { shown, folder, stale, text, is_needed })
    }

    /// Says which keys are stale. If the target is the file of a model in another folder, the configuration is written there
    /// without them, unless there is one.
    pub fn settle(&self, target: &Path, is_sharded: bool, dry_run: bool) -> Outcome<()> {
        let (shown, keys) = (self.shown.display(), quoted(&self.stale));
        let is = if self.stale.len() == 1 { "is" } else { "are" };
        let not_true = format!("{keys} {is} not true of decoded weights");
        let (it, them) = if self.stale.len() == 1 { ("it", "key") } else { ("them", "keys") };
        if self.is_needed {
            note(format_args!("{shown}: {not_true}, but of others that stay quantized"));
            return Ok(());
        }
        let Some(path) = self.target(target, is_sharded) else {
            note(format_args!("{shown}: {not_true}; copy the file without {it}"));
            return Ok(());
        };
        let to = path.display();
        if path.symlink_metadata().is_ok() {
            // It may be the configuration of an earlier run.
            let stays = fs::read_to_string(&path).ok().and_then(|text| without_stale(&text));
            if stays.is_none_or(|(stale, _)| !stale.is_empty()) {
                note(format_args!("{to}: stays as it is; {not_true}, so remove the {them} there"));
            }
            return Ok(());
        }
        if !dry_run {
            let mut file = NewFile::create(&path).at(&path)?;
            file.write_all(self.text.as_bytes())?;
            // Another program may have put one there in the meantime.
            file.put(true).at(&path)?;
        }
        let written = if dry_run { "would be written" } else { "written" };
        note(format_args!("{to}: {written} from {shown} without {keys}, as weights are decoded"));
        Ok(())
    }

    /// Returns the path for the configuration, if the target is the file that a model's folder is loaded from.
    fn target(&self, target: &Path, is_sharded: bool) -> Option<PathBuf> {
        // Other names are those of single files, in any folder.
        let is_model = is_sharded || target.file_name().is_some_and(|name| name == "model.safetensors");
        if !is_model || shown_url(target).is_some() {
            return None;
        }
        let folder = folder_of(target);
        let is_same = |own: &PathBuf| match (fs::canonicalize(own), fs::canonicalize(&folder)) {
            (Ok(own), Ok(other)) => own == other,
            _ => *own == folder,
        };
        (!self.folder.as_ref().is_some_and(is_same)).then(|| folder.join(NAME))
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the stale keys of a JSON object, and its text without them; `None` if it is none. The rest stays as it is written.
fn without_stale(text: &str) -> Option<(Vec<String>, String)> {
    let mut rest = text.trim_start().strip_prefix('{')?;
    let (mut stale, mut kept) = (Vec::new(), Vec::new());
    // Members, with the blanks before them.
    while !rest.trim_start().starts_with('}') {
        let member = rest;
        let key: String = next_value(&mut rest)?;
        rest = rest.trim_start().strip_prefix(':')?;
        next_value::<IgnoredAny>(&mut rest)?;
        let member = &member[..member.len() - rest.len()];
        match STALE.contains(&&*key) {
            true => stale.push(key),
            false => kept.push(member),
        }
        match rest.trim_start().strip_prefix(',') {
            Some(after) => rest = after,
            None => break,
        }
    }
    rest.trim_start().strip_prefix('}')?;
    Some((stale, format!("{{{}{rest}", kept.join(","))))
}

/// Reads a value of JSON off the beginning of a text.
fn next_value<T: serde::de::DeserializeOwned>(text: &mut &str) -> Option<T> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next()?.ok()?;
    *text = &text[values.byte_offset()..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::without_stale;

    #[test]
    fn what_is_not_stale_stays_as_it_is_written() {
        let cases = [
            (
                "{\n  \"b\": 1.50,\n  \"quantization_config\": {\"quantization\": [1, {}]},\n  \"a\": {\"quantization\": 1}\n}\n",
                Some((1, "{\n  \"b\": 1.50,\n  \"a\": {\"quantization\": 1}\n}\n")),
            ),
            ("{\"quantization\": {}, \"x\": null, \"quantization_config\": {}}", Some((2, "{ \"x\": null}"))),
            ("{\"quantization\": 4}", Some((1, "{}"))),
            ("{}", Some((0, "{}"))),
            ("[1]", None),
            ("{\"a\": }", None),
            ("{\"a\": 1", None),
        ];
        for (text, expected) in cases {
            let found = without_stale(text).map(|(stale, text)| (stale.len(), text));
            assert_eq!(found, expected.map(|(stale, text)| (stale, text.to_owned())), "{text}");
        }
    }
}
