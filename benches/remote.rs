//! Files at URLs, on a server in this process that is as slow as a distant one.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench remote --features http            # a file of 256 MiB
//! cargo bench -p tensorfile-benches --bench remote --features http -- 1024    # of 1024 MiB
//! ```
//!
//! Each answer begins after 30 ms, and each connection sends 100 MB/s. "One connection" is one request for all bytes,
//! on an open connection. Times are the shortest of several rounds, each of which measures all ways in turn.

#[path = "../tests/it/support/server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "it is that of the tests, which need all of it")]
mod server;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use server::{Object, Server};
use tensorfile::{File, Result, Tensor, TensorMap, safetensors, ten};

const LATENCY: Duration = Duration::from_millis(30);
const RATE: f64 = 100e6;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let mib = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(256_usize);
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize);
    let bytes = ((mib << 20) / shrink.max(1)).max(1 << 20);
    let map = |count: usize| -> Result<TensorMap> {
        let zeros = vec![1_u8; bytes / count];
        (0..count).map(|i| Ok((format!("t{i}"), Tensor::from_slice(&zeros, [zeros.len()])?))).collect()
    };
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["", "one connection", "this library", "times as fast", "requests"]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for (what, file) in [
        ("16 tensors of safetensors", safetensors::to_vec(&map(16)?)?),
        ("a tensor in each 100 KiB of safetensors", safetensors::to_vec(&map((bytes / (100 << 10)).max(1))?)?),
        ("16 tensors of ten", ten::to_vec(&map(16)?)?),
    ] {
        measure(&mut table, what, file)?;
    }
    println!("{mib} MiB in each file:\n{table}");
    Ok(())
}

/// Measures reading all of a file that is open.
fn measure(table: &mut Table, what: &str, file: Vec<u8>) -> Result<()> {
    let (server, len) = (Server::new(), file.len());
    let object = |latency| Object {
        bytes: file.clone().into(),
        etag: Some("\"v1\"".into()),
        latency,
        rate: Some(RATE),
        ..Object::default()
    };
    let url = server.put_object("/model", object(LATENCY));
    let opened = File::open(&url)?;
    let plan = opened.read_plan().all()?.finish()?;
    let (mut memory, mut whole) = (vec![1; plan.bytes()], vec![1; len]);
    let mut times = [Duration::MAX; 3];
    let mut requests = [0; 2];
    for _ in 0..ROUNDS {
        let mut time = |way: usize, read: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let start = Instant::now();
            read()?;
            times[way] = times[way].min(start.elapsed());
            Ok(())
        };
        let connection = TcpStream::connect(("127.0.0.1", server.port()))?;
        time(0, &mut || Ok(get(&connection, &mut whole)?))?;
        server.take_seen();
        time(1, &mut || plan.read_into(&mut memory))?;
        requests[0] = server.requests();
        time(2, &mut || opened.load::<TensorMap>().map(drop))?;
        requests[1] = server.requests();
    }
    for (way, (time, requests)) in ["to the caller's memory", "loaded"].iter().zip(times[1..].iter().zip(requests)) {
        let text = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        let ratio = times[0].as_secs_f64() / time.as_secs_f64();
        table.add_row([
            format!("{what}, {way}"),
            text(times[0]),
            text(*time),
            format!("{ratio:.1}"),
            requests.to_string(),
        ]);
    }
    Ok(())
}

/// Reads all of the object.
fn get(mut connection: &TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    connection.write_all(b"GET /model HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 20, connection), String::new());
    while reader.read_line(&mut line)? > 2 {}
    reader.read_exact(bytes)
}
