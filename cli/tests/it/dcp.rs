//! Folders saved by trainers, read as one file.

use std::fs;
use std::path::Path;

use tensorfile::{TensorMap, safetensors};

use super::{Session, weights};

/// A session with copies of the folders of PyTorch.
fn session() -> Session {
    let session = Session::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/dcp");
    for name in ["plain", "sharded_4", "hugging_face_4", "old_2"] {
        fs::create_dir(session.path(name)).unwrap();
        for entry in fs::read_dir(fixtures.join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), session.path(name).join(entry.file_name())).unwrap();
        }
    }
    session
}

#[test]
fn a_folder_is_a_file_to_read() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "ls sharded_4",
        "ls hugging_face_4",
        "ls --json old_2",
        "info sharded_4",
        "info hugging_face_4",
        "verify --payload sharded_4 hugging_face_4 old_2 plain",
        "hash --tensors sharded_4",
        "stats sharded_4 --diffable",
        "show sharded_4 blocks --slice 1:3,:",
        "codegen old_2",
    ]));
}

#[test]
fn a_folder_is_converted() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert sharded_4 whole.safetensors --filter !complex --filter !conj",
        "diff sharded_4 whole.safetensors --filter !complex --filter !conj",
        "diff hugging_face_4 whole.safetensors",
        "convert sharded_4 parts.safetensors --filter !complex --filter !conj --max-shard-size 300B",
        "diff parts.safetensors.index.json whole.safetensors",
        "convert plain plain.ptd --filter model.* --lossy",
        "convert plain plain.safetensors",
        "diff plain plain.ptd --filter model.*",
        "convert whole.safetensors saved.pt",
    ]));
}

#[test]
fn a_folder_is_made_for_other_ranks() {
    let session = session();
    fs::create_dir(session.path("used")).unwrap();
    fs::write(session.path("used/notes.txt"), "mine").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "convert old_2 run/three --to dcp --ranks 3",
        "ls run/three",
        "diff old_2 run/three",
        "convert run/three one --to dcp",
        "hash old_2 run/three one",
        "verify --payload one",
        "convert sharded_4 eight --to dcp --ranks 8 --prefix app --replicate 64 --shard-dim blocks=1 --dry-run",
        "convert sharded_4 eight --to dcp --ranks 8 --prefix app --replicate 64 --shard-dim blocks=1 --json",
        "info eight",
        "convert one used --to dcp",
        "convert one new --to dcp --ranks 0",
        "convert one new.pt --ranks 2",
        "convert one - --to dcp",
        "convert one new --to dcp --max-shard-size 1MB",
        "convert one new --to dcp --shard-dim x",
    ]));
}

#[test]
fn a_folder_is_made_of_safetensors_files() {
    let session = session();
    insta::assert_snapshot!(session.transcript(&[
        "convert old_2 hf --to hf-sharded --ranks 3",
        "ls hf",
        "diff old_2 hf",
        "convert hf back --to dcp --ranks 2 --json --lossy",
        "hash old_2 hf back",
        "verify --payload hf",
        "convert old_2 hf --to hf-sharded",
        "convert old_2 - --to hf-sharded",
        "convert plain values --to hf-sharded --filter model.*",
        "info values",
    ]));
}

/// Runs a command that must pass. Returns what it prints.
fn run(session: &Session, arguments: &[&str]) -> String {
    let output = session.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail. Returns its message.
fn fail(session: &Session, arguments: &[&str]) -> String {
    let output = session.run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Three jobs write a folder, in any order, and one of them twice.
#[test]
fn jobs_share_the_ranks_of_a_folder() {
    for kind in ["dcp", "hf-sharded"] {
        let session = session();
        let convert = |job: usize| {
            let split = format!("{job}/3");
            let line = run(&session, &["convert", "old_2", "run", "--to", kind, "--ranks", "5", "--split", &split]);
            assert!(line.contains(&format!(r#"{{"job":{job},"of":3,"files":["#)), "{line}");
            line
        };
        let mut lines = convert(3) + &convert(1);
        fs::write(session.path("lines"), &lines).unwrap();
        let error = fail(&session, &["splits", "--commit", "run", "lines"]);
        assert!(error.contains("the part of job 2 of 3 is missing"), "{error}");
        let error = fail(&session, &["ls", "run"]);
        assert!(error.contains("is a folder of a trainer that was not saved whole"), "{error}");
        lines += &convert(2);
        lines += &convert(2);
        fs::write(session.path("lines"), &lines).unwrap();
        let changed = lines.replace(r#""bytes":"#, r#""bytes":1"#);
        fs::write(session.path("changed"), changed).unwrap();
        let error = fail(&session, &["splits", "--commit", "run", "changed"]);
        assert!(error.contains("changed after it was written"), "{error}");
        for _ in 0..2 {
            let done = run(&session, &["splits", "--commit", "run", "lines"]);
            assert!(done.starts_with("run: "), "{done}");
        }
        assert_eq!(
            run(&session, &["hash", "run"]).split_whitespace().next(),
            run(&session, &["hash", "old_2"]).split_whitespace().next()
        );
        run(&session, &["convert", "old_2", "whole", "--to", kind, "--ranks", "5"]);
        for entry in fs::read_dir(session.path("whole")).unwrap() {
            let name = entry.unwrap().file_name();
            let [one, other] = ["run", "whole"].map(|folder| fs::read(session.path(folder).join(&name)).unwrap());
            assert!(one == other, "{}", name.display());
        }
        for (arguments, expected) in [
            (&["convert", "old_2", "new", "--to", kind, "--split", "1/2"][..], "cannot save the ranks of job 1 of 2"),
            (
                &["convert", "old_2", "new", "--to", kind, "--ranks", "2", "--split", "1/2", "--json"],
                "takes no --prove",
            ),
            (
                &["convert", "old_2", "new", "--to", kind, "--ranks", "2", "--split", "1/2", "--plan"],
                "--plan is for files",
            ),
        ] {
            let error = fail(&session, arguments);
            assert!(error.contains(expected), "{error}");
            assert!(!session.path("new").exists());
        }
    }
}

#[test]
fn other_files_of_a_trainer_are_next_to_the_folder() {
    let session = session();
    fs::copy(
        session.path("hugging_face_4/shard-00001-model-00001-of-00001.safetensors"),
        session.path("old_2/other.safetensors"),
    )
    .unwrap();
    fs::remove_file(session.path("sharded_4/__3_0.distcp")).unwrap();
    fs::write(session.path("plain/.metadata"), b"\x80\x04cposix\nsystem\n(X\x02\x00\x00\x00lstR.").unwrap();
    fs::create_dir(session.path("unfinished")).unwrap();
    fs::copy(session.path("sharded_4/__1_0.distcp"), session.path("unfinished/__1_0.distcp")).unwrap();
    fs::create_dir(session.path("empty")).unwrap();
    fs::write(session.path("empty/.metadata"), "").unwrap();
    insta::assert_snapshot!(session.transcript(&[
        "ls old_2",
        "ls sharded_4",
        "verify plain",
        "ls empty",
        "ls unfinished",
        "convert unfinished a.safetensors",
        "ls plain/__0_0.distcp",
    ]));
}

/// Returns a session with files of the folders of cases.
fn cases(copied: &[(&str, &str)], written: &[(&str, &str)]) -> Session {
    let session = Session::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let target = |to: &str| {
        let path = session.path(to);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    copied.iter().for_each(|(from, to)| _ = fs::copy(fixtures.join(from), target(to)).unwrap());
    written.iter().for_each(|(to, text)| fs::write(target(to), text).unwrap());
    session
}

/// `ls`, which takes a folder for the files in it, and `convert`, which takes it for one, say the same.
#[test]
fn folders_of_trainers_say_what_to_open() {
    let zero = "cases/trainer-folders/zero_pp_rank_0_mp_rank_00_model_states.pt";
    let session = cases(
        &[
            (zero, "ds3/global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt"),
            ("dcp/plain/.metadata", "acc/pytorch_model_fsdp_0/.metadata"),
            ("dcp/plain/__0_0.distcp", "acc/pytorch_model_fsdp_0/__0_0.distcp"),
            ("cases/trainer-folders/training_args.bin", "acc/scheduler.bin"),
            ("pytorch/state_dict.pt", "meg/iter_0000005/mp_rank_00/model_optim_rng.pt"),
            ("pytorch/state_dict.pt", "state/optimizer.pt"),
            ("dcp/plain/.metadata", "state/pytorch_model_fsdp_0/.metadata"),
            ("cases/trainer-folders/training_args.bin", "args/training_args.bin"),
        ],
        &[("ds3/latest", "global_step5"), ("meg/latest_checkpointed_iteration.txt", "5"), ("empty/a.txt", "")],
    );
    insta::assert_snapshot!(session.transcript(&[
        "ls ds3",
        "convert ds3 a.safetensors",
        "verify --strict ds3/global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt",
        "ls acc",
        "convert acc a.safetensors",
        "ls meg",
        "convert meg a.safetensors",
        "ls state --patterns --filter nothing",
        "ls args",
        "convert args/training_args.bin a.safetensors",
        "ls empty",
        "convert empty a.safetensors",
    ]));
    assert!(!session.path("a.safetensors").exists());
}

/// Every command that takes a folder reads the same files, and says which it left out.
#[test]
fn commands_agree_on_the_files_of_a_folder() {
    let session = cases(
        &[
            ("pytorch/state_dict.pt", "run/a.pt"),
            ("pytorch/state_dict.pt", "run/last.ckpt"),
            ("pytorch/state_dict.pt", "run/pytorch_model.bin"),
            ("cases/trainer-folders/training_args.bin", "run/training_args.bin"),
        ],
        &[("run/model.onnx", ""), ("run/other.bin", "text"), ("run/readme.md", "")],
    );
    let expected = ["run/a.pt", "run/last.ckpt", "run/pytorch_model.bin"];
    let note = "tensorfile: run: left out `model.onnx` and 2 other files, of other formats or without tensors\n";
    for command in ["ls", "hash", "verify", "stats", "info"] {
        let output = session.run(&[command, "run"]);
        let (out, messages) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let mentioned: Vec<&str> = expected.iter().copied().filter(|name| out.contains(name)).collect();
        assert_eq!(mentioned, expected, "{command}: {out}");
        assert!(!out.contains("training_args") && !out.contains("other.bin"), "{command}: {out}");
        assert_eq!(messages, note, "{command}");
    }
}

#[test]
fn blobs_are_dropped_on_request() {
    let session = cases(&[], &[]);
    let mut map = TensorMap::from_iter([("a", weights(&[2]))]);
    for name in ["blob", "other"] {
        map.insert(name, tensorfile::Tensor::new(tensorfile::TensorInfo::blob(3), &[1, 2, 3]).unwrap());
    }
    session.write("a.ptd", &map);
    insta::assert_snapshot!(session.transcript(&[
        "convert a.ptd a.safetensors",
        "convert a.ptd a.safetensors --filter !other",
        "convert a.ptd a.safetensors --lossy",
        "ls a.safetensors",
        "convert a.ptd b.ptd",
        "ls b.ptd",
    ]));
}

#[test]
fn missing_files_of_processes_are_named() {
    let session = session();
    let name = |process: usize| format!("shard-{process:05}-model-00001-of-00001.safetensors");
    // The tensors that it has a part of leave a hole.
    fs::remove_file(session.path("hugging_face_4").join(name(2))).unwrap();
    // It has whole tensors only.
    let folder = session.path("stages");
    fs::create_dir(&folder).unwrap();
    for process in [1, 3] {
        let map = TensorMap::from_iter([(format!("layer.{process}"), weights(&[2]))]);
        let offsets = format!("{{\"layer.{process}\": {{\"saved_offsets\": [0]}}}}");
        let options = safetensors::Options::new().metadata("DCP_SHARDING_INFO", offsets);
        fs::write(folder.join(name(process)), options.to_vec(&map).unwrap()).unwrap();
    }
    insta::assert_snapshot!(session.transcript(&[
        "ls hugging_face_4",
        "verify hugging_face_4",
        "merge hugging_face_4 -o whole.safetensors",
        "splits hugging_face_4",
        "ls stages",
        "verify stages",
        "verify --strict stages",
        "convert stages whole.safetensors",
    ]));
    fs::copy(folder.join(name(1)), folder.join("shard-00002-model-00001-of-00002.safetensors")).unwrap();
    insta::assert_snapshot!("two_saves", session.transcript(&["ls stages"]));
}
