//! Finds the model in a trainer's folder that is not itself a checkpoint.
//!
//! ```text
//! DeepSpeed     latest: global_step5             global_step5/mp_rank_00_model_states.pt, zero_pp_rank_*_model_states.pt
//! Megatron      latest_checkpointed_iteration.txt: 5    iter_0000005/mp_rank_00/model_optim_rng.pt, or iter_0000005/.metadata
//! accelerate    pytorch_model_fsdp_0/.metadata   optimizer_0/.metadata | scheduler.bin | random_states_0.pkl
//! NeMo          weights/.metadata                context/
//! ```
//!
//! We do not open the model instead of the folder, because a folder may have several. The error names the one to open.

use std::cmp::Reverse;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::directory::{file_names, is_checkpoint};
use crate::format::{is_training_state, may_have_tensors};

/// The place of the model in a folder.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::file) struct ModelPlace {
    /// The software, if its files identify it.
    pub(in crate::file) trainer: Option<&'static str>,
    /// A file or a folder, relative to the searched folder. `None` if no file has whole tensors.
    pub(in crate::file) path: Option<PathBuf>,
    /// The number of other files with parts of the model.
    pub(in crate::file) others: usize,
    /// Advice for the message.
    pub(in crate::file) hint: Option<String>,
}

impl ModelPlace {
    fn at(path: PathBuf) -> Self {
        Self { trainer: None, path: Some(path), others: 0, hint: None }
    }

    fn within(self, folder: &Path) -> Self {
        // Joining an empty path would append a slash.
        let join = |path: PathBuf| if path.as_os_str().is_empty() { folder.to_owned() } else { folder.join(path) };
        Self { path: self.path.map(join), ..self }
    }
}

/// The ends of DeepSpeed's file names, for the model and for the optimizer.
const MODEL_STATES: &str = "model_states.pt";
const OPTIMIZER_STATES: &str = "_optim_states.pt";

/// The files of the model in Megatron and accelerate.
const MODELS: [(&str, Option<&str>); 3] =
    [("model_optim_rng.pt", Some(MEGATRON)), ("model_rng.pt", Some(MEGATRON)), ("pytorch_model_fsdp.bin", None)];

const DEEPSPEED: &str = "DeepSpeed";
const MEGATRON: &str = "Megatron";

/// The names of folders to look in first, because they usually have the model.
const FOLDERS: [&str; 6] = ["weights", "model", "pytorch_model", "pytorch_model_fsdp_0", "mp_rank_00", "actor"];

/// Finds the model in a folder that is not a checkpoint.
pub(in crate::file) fn find_model(folder: &Path) -> Option<ModelPlace> {
    /// The largest depth of folders, and the most folders to look at.
    const DEPTH: usize = 3;
    const MOST: usize = 200;

    find_within(folder, DEPTH, &mut { MOST })
}

fn find_within(folder: &Path, depth: usize, left: &mut usize) -> Option<ModelPlace> {
    *left = left.checked_sub(1)?;
    let names = file_names(folder).ok()?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
    if let Some(found) = deepspeed(folder, &names) {
        return Some(found);
    }
    if let Some((name, trainer)) = MODELS.iter().find(|(name, _)| names.contains(name) && folder.join(name).is_file()) {
        return Some(ModelPlace { trainer: *trainer, ..ModelPlace::at(name.into()) });
    }
    if depth == 0 {
        return None;
    }
    let (latest, trainer) = latest(folder).unzip();
    let mut folders: Vec<&str> = names.iter().copied().filter(|name| !is_training_state(name)).collect();
    folders.retain(|name| !name.starts_with('.') && folder.join(name).is_dir());
    let rank = |name: &str| {
        let known = FOLDERS.iter().position(|known| *known == name).unwrap_or(FOLDERS.len());
        (latest.as_deref() != Some(name), known, Reverse(last_number(name)))
    };
    folders.sort_by_key(|name| rank(name));
    for name in &folders {
        let inner = folder.join(name);
        let found = if is_checkpoint(&inner) {
            Some(ModelPlace::at(PathBuf::new()))
        } else {
            find_within(&inner, depth - 1, left).map(|found| with_other_ranks(found, name, &folders, folder))
        };
        if let Some(found) = found {
            let trainer = found.trainer.or(trainer);
            return Some(ModelPlace { trainer, ..found.within(Path::new(name)) });
        }
    }
    // A folder of checkpoints in files.
    folders.iter().find_map(|name| {
        *left = left.checked_sub(1)?;
        let files = file_names(&folder.join(name)).ok()?;
        let is_model = |file: &&PathBuf| may_have_tensors(file) && !file.to_str().is_none_or(is_training_state);
        let file = files.iter().find(is_model).filter(|file| folder.join(name).join(file).is_file())?;
        Some(ModelPlace::at(Path::new(name).join(file)))
    })
}

/// Counts the folders of the other processes. In Megatron, each has a part of the model.
fn with_other_ranks(found: ModelPlace, name: &str, folders: &[&str], folder: &Path) -> ModelPlace {
    let Some(path) = found.path.as_ref().filter(|_| name.starts_with("mp_rank_")) else { return found };
    let is_rank = |other: &&&str| **other != name && other.starts_with("mp_rank_");
    let others = folders.iter().filter(is_rank).filter(|other| folder.join(other).join(path).is_file()).count();
    ModelPlace { others, ..found }
}

/// Returns the files of the model that DeepSpeed saved in a folder.
fn deepspeed(folder: &Path, names: &[&str]) -> Option<ModelPlace> {
    let models: Vec<&str> = names.iter().copied().filter(|name| name.ends_with(MODEL_STATES)).collect();
    let has = |folder: &Path, name: &str| folder.join(name).is_file();
    let script = "zero_to_fp32.py";
    let is_script_here = has(folder, script) || folder.parent().is_some_and(|parent| has(parent, script));
    let script = if is_script_here { format!("`{script}` there") } else { format!("`{script}` of DeepSpeed") };
    // Each stage of a pipeline has its layers in separate files.
    let whole = |begin: &str| models.iter().copied().filter(|name| name.starts_with(begin)).collect::<Vec<_>>();
    let mut files = whole("layer_");
    if files.is_empty() {
        files = whole("mp_rank_");
    }
    let Some((first, others)) = files.split_first() else {
        models.first()?;
        let hint = format!(
            "the weights of ZeRO-3 are in parts in the `*{OPTIMIZER_STATES}` files, and {script} puts them together"
        );
        return Some(ModelPlace { trainer: Some(DEEPSPEED), path: None, others: 0, hint: Some(hint) });
    };
    let hint = if folder.join("zero").is_dir() {
        Some("its weights in f32 are in `zero` next to it, in `NAME/fp32.pt` for each parameter".to_owned())
    } else {
        let has_optimizer = names.iter().any(|name| name.ends_with(OPTIMIZER_STATES));
        has_optimizer.then(|| format!("{script} makes a file of its weights in f32"))
    };
    Some(ModelPlace { trainer: Some(DEEPSPEED), others: others.len(), hint, ..ModelPlace::at(first.into()) })
}

/// Returns the folder of the last step, and the software that names it in a file.
fn latest(folder: &Path) -> Option<(String, &'static str)> {
    let read = |name: &str| {
        let mut text = String::new();
        let path = folder.join(name);
        // A pipe would block.
        let file = path.is_file().then(|| fs::File::open(&path))?.ok()?;
        file.take(256).read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned())
    };
    if let Some(iteration) = read("latest_checkpointed_iteration.txt") {
        let name = iteration.parse().map_or(iteration, |number: u64| format!("iter_{number:07}"));
        return Some((name, MEGATRON));
    }
    ["latest", "latest_universal"].into_iter().find_map(read).map(|name| (name, DEEPSPEED))
}

/// Returns the last number in a name, which is usually the step.
fn last_number(name: &str) -> Option<u64> {
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let before = name[..end].trim_end_matches(|letter: char| letter.is_ascii_digit());
    name[before.len()..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_has_the_largest_number() {
        for (name, expected) in
            [("checkpoint-500", Some(500)), ("step_12.ckpt", Some(12)), ("é7é", Some(7)), ("", None), ("last", None)]
        {
            assert_eq!(last_number(name), expected, "{name}");
        }
    }
}
