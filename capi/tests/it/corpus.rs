//! All inputs that fuzzing found, through the C interface.

use std::ffi::c_void;
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use tensorfile_c::entry::{
    tf_error_free, tf_file_close, tf_file_get_info, tf_file_metadata, tf_file_tensor, tf_file_warnings, tf_open_memory,
    tf_plan_free, tf_plan_get_info, tf_plan_new, tf_plan_read, tf_read, tf_tensor_close, tf_tensor_get_info, tf_view,
};
use tensorfile_c::{tf_dtype, tf_file_info, tf_open_options, tf_plan_info, tf_status, tf_tensor_info, tf_text};

use crate::root;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn no_input_crashes() {
    let folder = root().join("../fuzz/corpus");
    if !folder.exists() {
        println!("NOTE: no fuzz/corpus here");
        return;
    }
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    let (mut opened, mut read) = (0, 0);
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        // Many targets have bytes of their own before the file.
        for start in [0, 1, 2, 4, 8].into_iter().filter(|start| *start <= bytes.len()) {
            if let Some(tensors) = walk(&bytes[start..]) {
                opened += 1;
                read += tensors;
            }
        }
    }
    assert!(paths.len() > 100 && opened > 40 && read > 100, "{} files, {opened} opened, {read} tensors", paths.len());
}

/// Uses all of a file. Returns the number of tensors that were read.
fn walk(bytes: &[u8]) -> Option<usize> {
    let text = tf_text { data: null(), len: 0 };
    let options = tf_open_options {
        size: size_of::<tf_open_options>(),
        format: text,
        flags: 0,
        dequantize: 0,
        deny_warnings: text,
        max_tensors: 10_000,
        max_rank: 0,
        max_shared: 1 << 20,
        max_memory: 1 << 24,
        progress: None,
        progress_context: null_mut(),
    };
    let (mut file, mut error) = (null_mut(), null_mut());
    let (start, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
    let status = tf_open_memory(start, len, None, null_mut(), &raw const options, &raw mut file, &raw mut error);
    if status != tf_status::TF_OK {
        assert!(!error.is_null());
        tf_error_free(error);
        return None;
    }
    let mut info = tf_file_info { size: size_of::<tf_file_info>(), format: text, tensors: 0, bytes: 0 };
    assert_eq!(tf_file_get_info(file, &raw mut info, null_mut()), tf_status::TF_OK);
    let (mut entries, mut warnings, mut count) = (null(), null(), 0);
    tf_file_metadata(file, &raw mut entries, &raw mut count, null_mut());
    tf_file_warnings(file, &raw mut warnings, &raw mut count, null_mut());
    let read = (0..info.tensors.min(1000)).filter(|position| tensor(file, *position)).count();
    let mut plan = null_mut();
    if tf_plan_new(file, null(), 0, null(), &raw mut plan, null_mut()) == tf_status::TF_OK {
        let mut info = tf_plan_info { size: size_of::<tf_plan_info>(), pieces: 0, bytes: 0, bytes_read: 0 };
        assert_eq!(tf_plan_get_info(plan, &raw mut info, null_mut()), tf_status::TF_OK);
        if info.bytes < 1 << 24 {
            let mut memory = vec![0_u8; info.bytes];
            tf_plan_read(plan, memory.as_mut_ptr().cast(), memory.len(), null_mut());
        }
        tf_plan_free(plan);
    }
    tf_file_close(file);
    Some(read)
}

fn tensor(file: *mut tensorfile_c::tf_file, position: usize) -> bool {
    let mut tensor = null_mut();
    assert_eq!(tf_file_tensor(file, position, &raw mut tensor, null_mut()), tf_status::TF_OK);
    let text = tf_text { data: null(), len: 0 };
    let mut info = tf_tensor_info {
        size: size_of::<tf_tensor_info>(),
        name: text,
        dtype: 0,
        layout: 0,
        rank: 0,
        dims: null(),
        strides: null(),
        bytes: 0,
        offset: 0,
        alignment: 0,
        unknown_dtype: text,
    };
    assert_eq!(tf_tensor_get_info(tensor, &raw mut info, null_mut()), tf_status::TF_OK);
    let (mut bytes, mut len) = (null(), 0);
    if tf_view(tensor, &raw mut bytes, &raw mut len, null_mut()) == tf_status::TF_OK {
        assert_eq!(len, info.bytes);
    }
    let mut is_read = false;
    if info.bytes < 1 << 24 {
        let mut memory = vec![0_u8; info.bytes];
        let start = memory.as_mut_ptr().cast();
        is_read = tf_read(tensor, 0, start, memory.len(), null_mut()) == tf_status::TF_OK;
        // Of another length, unless it fits by chance.
        tf_read(tensor, tf_dtype::TF_DTYPE_F32 as i32, start, memory.len(), null_mut());
    }
    tf_tensor_close(tensor);
    is_read
}
