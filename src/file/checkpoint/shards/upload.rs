//! Saves a checkpoint to a store, as shards and an index that is uploaded last.

use std::io;
use std::path::Path;

use super::save::{OldSet, Saving, Split, index, is_shard_name};
use crate::error::Result;
use crate::file::checkpoint::INDEX_EXTENSION;
use crate::limits::Limits;
use crate::model::Tensors;
use crate::remote::{self, Location};
use crate::storage::{FileStorage, ProgressCount};
use crate::tensor::checked_io::write_all;

/// Saves tensors to shards next to the object at `url`, and their index. The names of the new shards differ from the
/// names in the old index, and the old shards are removed last. So the index names one complete set at any time.
pub(in crate::file) fn upload(
    url: &str,
    split: &Split,
    tensors: &dyn Tensors,
    saving: Saving<'_>,
    no_replace: bool,
) -> Result<()> {
    let Saving { durability: _, progress, keeps_single } = saving;
    let (path, index_url) = (Path::new(url), format!("{url}{INDEX_EXTENSION}"));
    let old = old_set(&index_url)?;
    if no_replace && (old.is_some() || !keeps_single && exists(url)?) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the object exists").into());
    }
    let old = old.unwrap_or_default();
    let folder = &url[..=url.rfind('/').unwrap_or(0)];
    let at = |name: &str| format!("{folder}{name}");
    let names = old.other_names(path, split, &|name| exists(&at(name)).unwrap_or(true))?;

    let mut count = progress.map(|listener| listener.count(split.file_bytes()));
    let mut uploaded = 0;
    let mut upload_all = || {
        for (name, (plan, own)) in names.iter().zip(split.shards(tensors)) {
            remote::save(&at(name), plan.file_bytes(), no_replace, &mut |object| {
                plan.write_stream(&own, object, count.as_mut())
            })?;
            uploaded += 1;
        }
        count.take().map_or(Ok(()), ProgressCount::finish)
    };
    if let Err(error) = upload_all() {
        // The error of the upload matters more than an error of removing its shards.
        names[..uploaded].iter().for_each(|name| drop(remote::remove(&at(name))));
        return Err(error);
    }
    let json = index(split, &names);
    // After a failure both sets stay, because the index in the store may name either.
    remote::save(&index_url, json.len() as u64, no_replace, &mut |object| Ok(write_all(object, &json)?))?;

    // With the old object there, opening the URL would open it instead of the index.
    if !keeps_single
        && let Err(error) = remote::remove(url)
        && !error.is_not_found()
    {
        return Err(error);
    }
    for name in old.names.iter().filter(|name| is_shard_name(path, name) && !names.contains(name)) {
        // Old shards that cannot be removed do no harm.
        let _ = remote::remove(&at(name));
    }
    Ok(())
}

/// Returns the shards of the index in the store; `None` if there is none.
fn old_set(index_url: &str) -> Result<Option<OldSet>> {
    let source = match remote::open(index_url, &Limits::default()) {
        Ok(Location::Ranges(file)) => file.source,
        Err(error) if !error.is_not_found() => return Err(error),
        _ => return Ok(None),
    };
    let storage = FileStorage::ranges(source)?;
    Ok(Some(OldSet::of_index(super::open::read(&storage, &Limits::default()))))
}

fn exists(url: &str) -> Result<bool> {
    match remote::open(url, &Limits::default()) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
