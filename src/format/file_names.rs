//! Guesses about the contents of files, by their names.

use std::path::Path;

use super::detect::has_known_extension;

/// Extensions of checkpoints that other files have too: the content decides.
const AMBIGUOUS: [&str; 2] = ["bin", "ckpt"];

/// Extensions of files with tensors of other software, and of many files in one.
const OTHERS: [&str; 14] = [
    "h5", "hdf5", "joblib", "keras", "mlmodel", "msgpack", "onnx", "pb", "pdparams", "pickle", "pkl", "tar", "tflite",
    "tgz",
];

/// The beginnings of the names of what trainers save besides the model, and the end of such a name in DeepSpeed.
const TRAINING_STATE: [&str; 8] =
    ["optim", "scheduler", "rng", "random_states", "training_args", "trainer_state", "scaler", "sampler"];
const OPTIMIZER_STATES: &str = "_optim_states.pt";

/// Returns whether a file has an extension of checkpoints and of other files.
pub(crate) fn is_ambiguous(name: &Path) -> bool {
    has_extension(name, &AMBIGUOUS)
}

/// Returns whether a file may have tensors, by its extension.
pub(crate) fn may_have_tensors(name: &Path) -> bool {
    has_known_extension(name) || is_ambiguous(name)
}

/// Returns whether a file is of a kind that may have tensors and is not read, or of many files.
pub(crate) fn is_of_other_kind(name: &Path) -> bool {
    let is_compressed = has_extension(name, &["gz", "zst"]);
    has_extension(name, &OTHERS)
        || is_compressed && has_extension(Path::new(name.file_stem().unwrap_or_default()), &["tar"])
}

/// Returns whether a file or a folder is what trainers save besides the model, such as the state of an optimizer.
pub(crate) fn is_training_state(name: &str) -> bool {
    TRAINING_STATE.iter().any(|begin| name.starts_with(begin)) || name.ends_with(OPTIMIZER_STATES)
}

fn has_extension(name: &Path, extensions: &[&str]) -> bool {
    let own = name.extension().unwrap_or_default();
    extensions.iter().any(|extension| own.eq_ignore_ascii_case(extension))
}
