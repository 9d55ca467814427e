//! Reads parts of a file on a web server. `cargo run --example remote --features http -- URL` reads a file of yours.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::{fs, io, thread};

use ndarray::Array2;
use tensorfile::file::traffic;
use tensorfile::{File, TensorMap, save};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            let path = folder.path().join("model.safetensors");
            let table = |rows: usize| Array2::from_shape_fn((rows, 256), |(row, column)| (row + column) as f32);
            save(&path, &TensorMap::from_iter([("embed", table(4000)), ("head", table(10))]))?;
            serve(path)?
        }
    };

    // The index is read, with one request or two.
    let file = File::open(&url)?;
    for tensor in file.tensors() {
        println!("{} {}", tensor.name(), tensor.info());
    }

    // A tensor is read when it is asked for; of a slice, only its rows.
    let first = file.nth(0).ok_or("it has no tensors")?;
    let rows: Vec<_> =
        first.shape().iter().enumerate().map(|(dim, len)| 0..if dim == 0 { 2.min(*len) } else { *len }).collect();
    let slice = file.slice(first.name(), &rows)?;
    println!("{}: {:?} of {:?}", first.name(), slice.shape(), first.shape());

    let traffic = traffic();
    println!("{} of {} bytes in {} requests", traffic.bytes, file.file_bytes(), traffic.requests);
    Ok(())
}

/// Starts a web server for one file, and returns its URL. It knows ranges, and little else.
fn serve(path: std::path::PathBuf) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/model.safetensors", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let path = path.clone();
            thread::spawn(move || answer(&stream, &path));
        }
    });
    Ok(url)
}

/// Answers the requests of a connection: `Range: bytes=0-65535` with these bytes.
fn answer(mut stream: &TcpStream, path: &Path) -> io::Result<()> {
    let mut file = fs::File::open(path)?;
    let total = file.metadata()?.len();
    let mut range = None;
    for line in BufReader::new(stream).lines() {
        let line = line?.to_ascii_lowercase();
        if let Some((first, last)) = line.strip_prefix("range: bytes=").and_then(|range| range.split_once('-')) {
            range = first.parse::<u64>().ok().zip(last.parse::<u64>().ok());
        }
        if !line.is_empty() {
            continue;
        }
        let (first, last) = range.take().unwrap_or((0, total - 1));
        let last = last.min(total - 1);
        let len = last + 1 - first;
        write!(
            stream,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{total}\r\nContent-Length: {len}\r\n\r\n"
        )?;
        file.seek(SeekFrom::Start(first))?;
        io::copy(&mut (&file).take(len), &mut stream)?;
    }
    Ok(())
}
