//! The quantized weights of an open file, recognized when they are first asked for.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;

use super::File;
#[cfg(feature = "quant")]
use super::dequantize::DecodedFiles;
use super::place::Siblings;
use crate::error::{Error, Result};
use crate::model::RenameRules;
use crate::quant::{CONFIG, Config, Json, MAX_CONFIG_BYTES, Observed, Quantized, may_be_quantized, recognize};
use crate::storage::{FileReader, FileStorage, ReadAt};
use crate::tensor::TensorInfo;

/// The longest payload that is read as a description, in bytes.
pub(super) const MAX_DESCRIPTION: u64 = 64 << 10;

/// What is known about the quantized weights of a file, and where its configuration is.
#[derive(Default)]
pub(super) struct Quantization {
    recognized: OnceLock<Quantized>,
    siblings: Option<Arc<dyn Siblings>>,
    /// The path of the configuration, if the call names one.
    config: Option<PathBuf>,
    /// The storage is a single file with weights that are decoded from it.
    wraps_file: bool,
    /// The same file for types that ask for decoded weights.
    #[cfg(feature = "quant")]
    pub(super) decoded: DecodedFiles,
}

impl Quantization {
    /// A file with others beside it.
    pub(super) fn beside(siblings: Arc<dyn Siblings>, config: Option<PathBuf>) -> Self {
        Self { siblings: Some(siblings), config, ..Self::default() }
    }

    /// A file that has no place, such as bytes in memory.
    pub(super) fn alone(config: Option<PathBuf>) -> Self {
        Self { config, ..Self::default() }
    }

    /// Returns what is known about a file with the same bytes and other tensors. `recognized` are its quantized weights, if
    /// they are known.
    pub(super) fn of_other_tensors(&self, recognized: Option<Quantized>, wraps_file: bool) -> Self {
        Self {
            recognized: recognized.map(OnceLock::from).unwrap_or_default(),
            siblings: self.siblings.clone(),
            config: self.config.clone(),
            wraps_file: self.wraps_file | wraps_file,
            #[cfg(feature = "quant")]
            decoded: DecodedFiles::default(),
        }
    }

    fn read_config(&self, of_gptq: bool) -> Config {
        if let Some(path) = &self.config {
            let parsed = read_file(path).and_then(|bytes| Config::parse(&bytes));
            return parsed.unwrap_or_else(|problem| Config::with_problem(format!("`{}`: {problem}", path.display())));
        }
        let Some(siblings) = &self.siblings else { return Config::default() };
        Config::read(of_gptq, &mut |name| read_sibling(&**siblings, name))
    }
}

impl File {
    /// Returns the quantized weights: which tensors are codes, and which have their scales. They are recognized now, from
    /// names, headers, metadata and the [configuration](super::OpenOptions::config), and kept. No payload is read but
    /// descriptions of up to 64 KiB. The configuration is read if the names ask for it: at most two files of up to 1 MiB.
    ///
    /// See [`quant`](crate::quant) for the layouts.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// let file = File::from_bytes(safetensors::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?)?;
    /// assert!(file.quantized()?.is_empty());
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of reading metadata and descriptions. A configuration that cannot be read makes weights
    /// [unknown](crate::quant::UnknownCodes), and is no error.
    pub fn quantized(&self) -> Result<&Quantized> {
        if let Some(recognized) = self.quantization.recognized.get() {
            return Ok(recognized);
        }
        let recognized = self.recognize_quantized()?;
        Ok(self.quantization.recognized.get_or_init(|| recognized))
    }

    /// Returns the bytes of `config.json` beside the file, on disk or at the URL. `None` if there is none, or if it cannot be
    /// read or has more than 1 MiB.
    ///
    /// Its `quantization_config` or `quantization` says how weights are stored. Write it without them beside a file of decoded
    /// weights.
    ///
    /// ```
    /// use tensorfile::{File, TensorMap, safetensors};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// tensorfile::save(&path, &TensorMap::from_iter([("a", ndarray::array![1.0_f32])]))?;
    /// std::fs::write(path.with_file_name("config.json"), r#"{"model_type": "llama"}"#)?;
    /// let config = File::open(&path)?.read_configuration();
    /// assert_eq!(config.as_deref(), Some(&br#"{"model_type": "llama"}"#[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_configuration(&self) -> Option<Vec<u8>> {
        read_sibling(self.quantization.siblings.as_deref()?, CONFIG).ok()?
    }

    fn recognize_quantized(&self) -> Result<Quantized> {
        // Most files have none.
        if !(0..self.len()).any(|i| may_be_quantized(self.index.name(i), self.index.entry(i).info())) {
            return Ok(Quantized::default());
        }
        let observed =
            OpenTensors { file: self, config: OnceCell::new(), metadata: OnceCell::new(), failure: RefCell::default() };
        let recognized = recognize(&observed);
        match observed.failure.into_inner() {
            None => Ok(recognized),
            Some(error) => Err(self.place(error)),
        }
    }

    /// Returns all of the configuration: the named one, or `config.json` beside the file; `None` if there is none.
    pub(super) fn config_json(&self) -> Result<Option<Json>, String> {
        let Quantization { config, siblings, .. } = &self.quantization;
        let (name, bytes) = match (config, siblings) {
            (Some(path), _) => (path.display().to_string(), read_file(path).map(Some)),
            (None, Some(siblings)) => (CONFIG.to_owned(), read_sibling(&**siblings, CONFIG)),
            (None, None) => return Ok(None),
        };
        let parsed = bytes.and_then(|bytes| bytes.map(|bytes| Json::parse(&bytes)).transpose());
        parsed.map_err(|problem| format!("`{name}`: {problem}"))
    }

    /// Returns the bytes of the file itself, without the weights that are decoded from them.
    pub(super) fn own_storage(&self) -> &FileStorage {
        match &*self.storage {
            FileStorage::Joined(joined) if self.quantization.wraps_file => &joined.parts()[0],
            storage => storage,
        }
    }

    /// Recognizes weights before tensors are renamed, if there are any.
    pub(super) fn recognize_by_own_names(&self) -> Result<()> {
        self.quantized().map(drop)
    }

    /// Renames the weights as their tensors were.
    pub(super) fn rename_quantized(&mut self, rules: &RenameRules) {
        let Self { quantization, index, .. } = self;
        if let Some(recognized) = quantization.recognized.get_mut() {
            recognized
                .rename(&|position| index.name(position).to_owned(), &|position, name| rules.rename(position, name));
        }
    }
}

/// The tensors of an open file, and all that its place knows.
struct OpenTensors<'f> {
    file: &'f File,
    config: OnceCell<Config>,
    metadata: OnceCell<IndexMap<String, String>>,
    /// The first error of reading.
    failure: RefCell<Option<Error>>,
}

impl OpenTensors<'_> {
    fn keep_failure<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.failure.borrow_mut().get_or_insert(error).category()).ok()
    }
}

impl Observed for OpenTensors<'_> {
    fn len(&self) -> usize {
        self.file.len()
    }

    fn tensor(&self, position: usize) -> (&str, &TensorInfo) {
        (self.file.index.name(position), self.file.index.entry(position).info())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.file.position(name)
    }

    fn description(&self, position: usize) -> Option<Vec<u8>> {
        let tensor = self.file.nth(position).filter(|tensor| tensor.payload_bytes() <= MAX_DESCRIPTION)?;
        self.keep_failure(tensor.read()).map(|tensor| tensor.as_bytes().to_vec())
    }

    fn metadata(&self, key: &str) -> Option<Cow<'_, str>> {
        let entries = self.metadata.get_or_init(|| {
            self.keep_failure(self.file.untyped_metadata()).map(|metadata| metadata.entries).unwrap_or_default()
        });
        entries.get(key).map(|text| Cow::Borrowed(text.as_str()))
    }

    fn config(&self) -> &Config {
        self.config.get_or_init(|| {
            let is_of_gptq = |i| self.file.index.name(i).ends_with(".qweight");
            self.file.quantization.read_config((0..self.len()).any(is_of_gptq))
        })
    }
}

/// Reads a configuration that the call names.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a configuration beside the file; `None` if it is not there.
fn read_sibling(siblings: &dyn Siblings, name: &str) -> Result<Option<Vec<u8>>, String> {
    let (storage, _) = match siblings.open(name) {
        Ok(opened) => opened,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let len = storage.len();
    if len > MAX_CONFIG_BYTES {
        return Err(too_long());
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    FileReader::with_index(&storage).read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    Ok(Some(bytes))
}

fn too_long() -> String {
    format!("it has more than {MAX_CONFIG_BYTES} bytes")
}
