//! Compares our reader of flatbuffers with the verifier of the crate `flatbuffers`: both must accept the same files.

use tensorfile::ptd::{self, Compatibility, Segments, Version};
use tensorfile::tensorbuffers::{self, Operation};

use crate::{samples, verifier};

pub fn run(input: &[u8]) {
    verifier::compare(input).unwrap();
}

pub fn seeds() -> Vec<Vec<u8>> {
    let model = Compatibility { model_name: "llama".to_owned(), version: "2".to_owned(), ..Compatibility::default() };
    let ptd = || ptd::Options::new().alignment(16);
    let ptd = [
        ptd(),
        ptd().version(Version::Dt01V1),
        ptd().version(Version::Dt01V2).segments(Segments::One).compatibility(model),
    ];
    let operation = Operation { id: 1, operation: 15, output: tensorbuffers::id("a"), inputs: vec![2, 3] };
    let tensorbuffers = tensorbuffers::Options::new().alignment(1).model("llama").operations([operation]);
    let write =
        |map| ptd.iter().map(|options| options.to_vec(map)).chain([tensorbuffers.to_vec(map)]).collect::<Vec<_>>();
    // Not every map can be stored.
    samples::maps().iter().flat_map(write).flatten().collect()
}
