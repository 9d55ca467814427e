//! What the configuration of a model says about its quantization.
//!
//! Programs write it next to the weights: `config.json` of transformers and MLX, `hf_quant_config.json` of ModelOpt,
//! `quantize_config.json` of GPTQ.

#[cfg_attr(not(feature = "safetensors"), path = "config/no_json.rs")]
mod json;

pub(crate) use json::Json;

/// The files that may state a quantization, in the order in which they are read. The first that states one counts.
pub(crate) const CONFIG: &str = "config.json";
const OF_GPTQ: &str = "quantize_config.json";
const OF_MODELOPT: &str = "hf_quant_config.json";

/// The longest configuration that is read, in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// Returns the bytes of a file beside the model; `None` if it is not there. The error says what is wrong with it.
pub(crate) type ReadConfig<'r> = dyn FnMut(&str) -> Result<Option<Vec<u8>>, String> + 'r;

/// The configuration of a model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// The object that describes the quantization.
    quantization: Option<Json>,
    /// The groups of layers of compressed-tensors. They are asked for by each weight.
    groups: Vec<Json>,
    /// The rows and columns of the blocks of FP8.
    block: Option<[usize; 2]>,
    /// What is wrong with the configuration.
    problem: Option<String>,
}

impl Config {
    pub(crate) const NONE: &'static Self = &Self { quantization: None, groups: Vec::new(), block: None, problem: None };

    /// Reads the configuration. `read` gets the name of a file, and returns its bytes if it exists. `of_gptq` says that the
    /// names of the tensors are those of GPTQ. At most two files are asked for.
    pub(crate) fn read(of_gptq: bool, read: &mut ReadConfig<'_>) -> Self {
        for name in [CONFIG, if of_gptq { OF_GPTQ } else { OF_MODELOPT }] {
            match read(name) {
                Ok(None) => {}
                Ok(Some(bytes)) => match Self::parse(&bytes) {
                    Ok(Self { quantization: None, .. }) => {}
                    Ok(config) => return config,
                    Err(problem) => return Self::with_problem(format!("`{name}`: {problem}")),
                },
                Err(problem) => return Self::with_problem(format!("`{name}`: {problem}")),
            }
        }
        Self::default()
    }

    /// Reads a configuration of any of the programs.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let json = Json::parse(bytes)?;
        let parts = ["quantization_config", "quantization"].into_iter();
        let own = parts.filter_map(|key| json.get(&[key])).find(|part| part.is_object());
        // `quantize_config.json` is the object itself.
        let own = own.or_else(|| json.number(&["bits"]).is_some().then_some(json));
        let groups = own.as_ref().and_then(|json| json.get(&["config_groups"]));
        let groups = groups.map(|groups| groups.values()).unwrap_or_default();
        let block = own.as_ref().and_then(|json| block(json, &groups));
        Ok(Self { quantization: own, groups, block, problem: None })
    }

    pub(crate) fn with_problem(problem: String) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }

    /// Returns why nothing is known: a clause.
    pub(super) fn absence(&self) -> String {
        match &self.problem {
            Some(problem) => format!("the configuration cannot be used: {problem}"),
            None => "no configuration states it".to_owned(),
        }
    }

    /// Returns whether a quantization is stated.
    pub(super) fn is_stated(&self) -> bool {
        self.quantization.is_some()
    }

    /// Returns the method in lower case: `gptq`, `awq`, `compressed-tensors`, `fp8`.
    pub(super) fn method(&self) -> Option<String> {
        self.text(&["quant_method"]).map(str::to_lowercase)
    }

    pub(super) fn text(&self, path: &[&str]) -> Option<&str> {
        self.quantization.as_ref()?.text(path)
    }

    pub(super) fn number(&self, path: &[&str]) -> Option<i64> {
        self.quantization.as_ref()?.number(path)
    }

    pub(super) fn flag(&self, path: &[&str]) -> Option<bool> {
        self.quantization.as_ref()?.flag(path)
    }

    /// Returns whether there is an object at a path.
    pub(super) fn has_object(&self, path: &[&str]) -> bool {
        self.quantization.as_ref().and_then(|json| json.get(path)).is_some_and(|json| json.is_object())
    }

    /// Returns the rows and columns of the blocks of FP8.
    pub(super) fn block(&self) -> Option<[usize; 2]> {
        self.block
    }

    /// Returns the groups of layers of compressed-tensors.
    pub(super) fn groups(&self) -> &[Json] {
        &self.groups
    }
}

/// Reads the rows and columns of the blocks of FP8.
fn block(quantization: &Json, groups: &[Json]) -> Option<[usize; 2]> {
    let stated = quantization.numbers(&["weight_block_size"]);
    let stated = stated.or_else(|| groups.iter().find_map(|group| group.numbers(&["weights", "block_structure"])))?;
    // What is stated and is no block fits nothing; the usual one would be a guess.
    let block = <[i64; 2]>::try_from(stated).unwrap_or_default();
    Some(block.map(|dim| usize::try_from(dim).unwrap_or_default()))
}
