//! Quantized weights at URLs: the same numbers, from no more requests and bytes than they take.

use std::fs;

use tensorfile::{Dequantize, Dtype, File, OpenOptions, Tensor, TensorInfo, TensorMap, safetensors};

use super::cases;
use super::decoding::{all, check, decoded};
use crate::support::server::Server;

/// Puts the files of a folder on a server. Returns the URL of the one to open.
fn put(server: &Server, case: &super::Case) -> String {
    let path = case.path();
    let folder = if path.is_dir() { path.clone() } else { path.parent().unwrap().to_owned() };
    let mut opened = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let url = server.put(&format!("/{}/{name}", case.name), fs::read(entry.path()).unwrap());
        let is_model = name.ends_with(".gguf") || name.ends_with(".safetensors") && !name.contains("-of-");
        if is_model || name.ends_with(".index.json") {
            opened = url;
        }
    }
    opened
}

#[test]
fn every_case_is_right_at_a_url() {
    for case in decoded() {
        let server = Server::new();
        let url = put(&server, &case);
        let file = OpenOptions::new().dequantize(Dequantize::to(Dtype::F32)).open(&url).unwrap();
        check(&case, "at a URL", Dtype::F32, &all(&file));
    }
}

#[test]
fn a_plain_file_takes_no_more_requests() {
    for case in cases().into_iter().filter(|case| case.kind == "decoy" && case.name != "decoy-fp8-plain") {
        let server = Server::new();
        let file = File::open(put(&server, &case)).unwrap();
        server.requests();
        assert!(file.quantized().unwrap().is_empty());
        assert_eq!(server.requests(), 0, "{}", case.name);
    }
}

#[test]
fn a_configuration_takes_two_requests_at_most() {
    for case in cases().into_iter().filter(|case| case.kind != "decoy") {
        let server = Server::new();
        let file = File::open(put(&server, &case)).unwrap();
        server.take_seen();
        file.quantized().unwrap();
        let configurations = server.take_seen().iter().filter(|seen| seen.target.ends_with("config.json")).count();
        assert!(configurations <= 2, "{}: {configurations}", case.name);
    }
}

#[test]
fn a_slice_reads_its_codes_and_scales() {
    let (rows, columns) = (1024, 4096);
    let codes = vec![0x38_u8; rows * columns];
    let scales = Tensor::from_slice(&[0.5_f32; 8 * 32], [8, 32]).unwrap();
    let mut map = TensorMap::new();
    map.insert("w.weight", Tensor::new(TensorInfo::new(Dtype::F8E4M3Fn, [rows, columns]), &codes).unwrap());
    map.insert("w.weight_scale_inv", scales);
    let server = Server::new();
    let url = server.put("/model.safetensors", safetensors::to_vec(&map).unwrap());
    let file = OpenOptions::new().dequantize(Dequantize::to(Dtype::Bf16)).open(&url).unwrap();
    let before = server.sent();
    let part = file.slice("w.weight", &[256..512, 0..columns]).unwrap();
    assert_eq!(part.as_bytes()[..2], half::bf16::from_f32(0.5).to_le_bytes());
    let (sent, needed) = (server.sent() - before, 256 * columns + 2 * 32 * 4);
    assert!(sent <= needed + needed / 10, "{sent} bytes for {needed}");
}
