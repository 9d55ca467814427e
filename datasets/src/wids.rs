//! The index of Python's `wids`. It lists the number of samples of each shard, so that `wids` finds any sample by
//! number.

use serde::Serialize;

#[derive(Serialize)]
struct WidsIndex<'i> {
    __kind__: &'static str,
    wids_version: u32,
    shardlist: Vec<WidsShard<'i>>,
}

/// A shard of the index.
#[derive(Serialize)]
pub(crate) struct WidsShard<'i> {
    /// The path or URL, which may be relative to the index.
    pub(crate) url: &'i str,
    pub(crate) nsamples: u64,
    pub(crate) filesize: u64,
    /// The digest. `wids` ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blake3: Option<String>,
}

/// Returns the index of shards, in order.
pub(crate) fn wids_index<'i>(shards: impl IntoIterator<Item = WidsShard<'i>>) -> Vec<u8> {
    let shardlist = shards.into_iter().collect();
    let index = WidsIndex { __kind__: "wids-shard-index-v1", wids_version: 1, shardlist };
    let mut json = serde_json::to_vec(&index).expect("strings and numbers are JSON");
    json.push(b'\n');
    json
}
