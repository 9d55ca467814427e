//! The program gives the same results with any number of threads, and on systems without threads.

use tensorfile::{Tensor, TensorMap};

use super::{Session, weights};

/// Tensors that are large enough for several threads: with NaN, and with some far from zero.
fn large() -> TensorMap {
    let mut large = TensorMap::new();
    large.insert("first", weights(&[1100, 1001]));
    let mut numbers: Vec<f32> = bytemuck::pod_collect_to_vec(large["first"].as_bytes());
    numbers.iter_mut().for_each(|number| *number = *number / 100.0 + 3.0);
    (numbers[700_000], numbers[1_000_000]) = (f32::NAN, 1e9);
    large.insert("far", Tensor::from_slice(&numbers, [1100, 1001]).unwrap());
    let integers: Vec<i64> = (0..700_000).map(|at| at * at - (1 << 38)).collect();
    large.insert("integers", Tensor::from_slice(&integers, [700_000]).unwrap());
    large.insert("small", weights(&[3]));
    large
}

fn changed() -> TensorMap {
    let mut changed = large();
    let mut numbers: Vec<f32> = bytemuck::pod_collect_to_vec(changed["first"].as_bytes());
    for at in [5, 400_000, 400_001, 1_100_000] {
        numbers[at] += 1.5;
    }
    changed.insert("first", Tensor::from_slice(&numbers, [1100, 1001]).unwrap());
    changed
}

#[test]
fn results_are_the_same_with_any_number_of_threads() {
    let session = Session::new();
    session.write("large.ptd", &large());
    session.write("changed.ptd", &changed());
    let run = |threads: &str| {
        let commands = [
            "hash --tensors large.ptd",
            "stats --json large.ptd",
            "stats --long large.ptd",
            "verify --payload large.ptd",
            "diff --json large.ptd changed.ptd",
            "diff --rtol 0.5 large.ptd changed.ptd",
            "diff --quiet large.ptd changed.ptd",
            "convert large.ptd cast.ptd --dtype f32=f16,i64=f32 --cast-integers -v",
        ];
        let outputs = commands.map(|line| {
            let mut command = session.command(&line.split_whitespace().collect::<Vec<_>>());
            let output = command.env("TENSORFILE_THREADS", threads).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
        });
        (outputs, std::fs::read(session.path("cast.ptd")).unwrap())
    };
    let (outputs, file) = run("1");
    assert!(outputs[4].1.contains("\"differing\": 4"), "{}", outputs[4].1);
    assert!(outputs[7].2.contains("element 1000000 is 1000000000"), "{}", outputs[7].2);
    for threads in ["2", "5"] {
        let (with_threads, file_with_threads) = run(threads);
        assert_eq!(with_threads, outputs, "{threads} threads");
        assert!(file_with_threads == file, "{threads} threads");
    }
}

#[test]
fn every_command_works_where_no_thread_can_start() {
    let session = Session::new();
    session.write("large.ptd", &large());
    session.write("changed.ptd", &changed());
    session.write(
        "model.npz",
        &super::model()
            .iter()
            .filter(|(_, tensor)| tensor.info().dtype != tensorfile::Dtype::QUint4x2)
            .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
            .collect(),
    );
    let run = |line: &str, has_threads: bool| {
        let mut command = session.command(&line.split_whitespace().collect::<Vec<_>>());
        command.env("TENSORFILE_THREADS", "4");
        if !has_threads {
            // There is no memory for such a stack, so that no thread starts.
            command.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        }
        let output = command.output().unwrap();
        let written = std::fs::read(session.path("out.ptd")).unwrap_or_default();
        let _ = std::fs::remove_file(session.path("out.ptd"));
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8(output.stderr).unwrap(),
            written,
        )
    };
    for line in [
        "ls large.ptd",
        "info large.ptd",
        "show large.ptd small",
        "show model.npz halves",
        "stats large.ptd",
        "stats --json model.npz",
        "hash --tensors large.ptd",
        "verify --payload large.ptd",
        "diff large.ptd changed.ptd",
        "diff model.ptd model.ptd",
        "diff model.ptd model.npz",
        "diff --json large.ptd model.ptd",
        "report --json large.ptd model.ptd",
        "codegen model.ptd",
        "convert large.ptd out.ptd --dtype f32=f16",
        "convert model.npz out.ptd",
        "merge large.ptd model.ptd out.ptd",
        "split model.ptd --by *=out.ptd",
        "split model.ptd --by-prefix 1 --dry-run",
        "append model.ptd large.ptd --dry-run",
        "edit model.npz --set a=b --dry-run",
    ] {
        assert_eq!(run(line, false), run(line, true), "{line}");
    }
}
