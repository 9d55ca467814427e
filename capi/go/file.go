package tensorfile

// #include <stdlib.h>
// #include <string.h>
// #include "bridge.h"
import "C"

import (
	"io"
	"runtime"
	"runtime/cgo"
	"sync/atomic"
	"unsafe"
)

// File is an open tensor file. Its tensors and plans keep its bytes when it is closed.
type File struct {
	handle
	raw    *C.tf_file
	shared *shared
	format string
	length int
	bytes  uint64
}

// shared is what the callbacks of a file need, until its last tensor and plan are closed.
type shared struct {
	owners int32
	calls  calls
	// progress is 0 if there is none.
	progress cgo.Handle
	// maxMemory is 0 if no limit was set.
	maxMemory uint64
}

func (s *shared) retain() { atomic.AddInt32(&s.owners, 1) }

func (s *shared) release() {
	if atomic.AddInt32(&s.owners, -1) == 0 && s.progress != 0 {
		s.progress.Delete()
	}
}

// allow returns an error if this package must not allocate as many bytes for a result. The library checks the limit too,
// but only when it gets the memory.
func (s *shared) allow(bytes int) error {
	limit := uint64(1) << 47 // More than any machine has; make panics a little above.
	if s.maxMemory > 0 && s.maxMemory < limit {
		limit = s.maxMemory
	}
	if uint64(bytes) > limit {
		err := misuse("the elements take %d bytes, but the limit is %d", bytes, limit)
		err.Status, err.Kind = StatusLimit, "limit"
		return err
	}
	return nil
}

func (s *shared) run(call func(raw **C.tf_error) C.tf_status) error {
	return run([]*calls{&s.calls}, call)
}

// Open opens a file, an index of shards or a folder of a trainer. If the library was built for it, path may be a URL.
//
// Only the index is read. The file is mapped into memory when a tensor is first viewed.
func Open(path string, options ...Option) (*File, error) {
	return open(options, func(shared *shared, o *openOptions, file **C.tf_file) error {
		text, length := cText(path)
		format, formatLen := cText(o.format)
		deny, denyLen := cText(o.deny)
		return shared.run(func(raw **C.tf_error) C.tf_status {
			return C.tfgo_open(text, length, format, formatLen, deny, denyLen, o.numbers, file, raw)
		})
	})
}

// OpenBytes opens a file in memory. It copies the bytes once, to memory of C, because C keeps them after the call. The
// copy is freed when the file, its tensors and its plans are closed. [OpenReaderAt] with a bytes.Reader does not copy,
// but its tensors cannot be viewed.
func OpenBytes(bytes []byte, options ...Option) (*File, error) {
	return open(options, func(shared *shared, o *openOptions, file **C.tf_file) error {
		// C.malloc ends the program if there is no memory, as Go does.
		memory := C.malloc(C.size_t(len(bytes) + 1))
		copy(unsafe.Slice((*byte)(memory), len(bytes)), bytes)
		format, formatLen := cText(o.format)
		deny, denyLen := cText(o.deny)
		return shared.run(func(raw **C.tf_error) C.tf_status {
			return C.tfgo_open_memory(memory, C.size_t(len(bytes)), format, formatLen, deny, denyLen, o.numbers, file, raw)
		})
	})
}

// OpenReaderAt opens a file of size bytes that reader reads: an object in a store, a cache, an encrypted file. The name is
// for messages. Its extension decides the format if the content does not. It may be empty.
//
// Several goroutines may call reader at once. It is kept until the file, its tensors and its plans are closed. It must not
// keep the slices that it fills. Tensors cannot be viewed.
func OpenReaderAt(reader io.ReaderAt, size int64, name string, options ...Option) (*File, error) {
	if reader == nil || size < 0 {
		return nil, misuse("the reader is nil, or its size %d is negative", size)
	}
	return open(options, func(shared *shared, o *openOptions, file **C.tf_file) error {
		text, length := cText(name)
		format, formatLen := cText(o.format)
		deny, denyLen := cText(o.deny)
		// C deletes the handle, also after an error.
		handle := C.uintptr_t(cgo.NewHandle(&source{&shared.calls, reader}))
		return shared.run(func(raw **C.tf_error) C.tf_status {
			return C.tfgo_open_source(text, length, C.uint64_t(size), handle, format, formatLen, deny, denyLen,
				o.numbers, file, raw)
		})
	})
}

func open(options []Option, call func(*shared, *openOptions, **C.tf_file) error) (*File, error) {
	if err := checkABI(); err != nil {
		return nil, err
	}
	o := makeOpenOptions(options)
	file := &File{shared: &shared{owners: 1, maxMemory: uint64(o.numbers.max_memory)}}
	if o.progress != nil {
		file.shared.progress = cgo.NewHandle(&progress{calls: &file.shared.calls, call: o.progress})
		o.numbers.progress = C.uintptr_t(file.shared.progress)
	}
	// C gets the address of this variable, because Go may not pass that of a field next to Go pointers.
	var opened *C.tf_file
	defer func() {
		// Also if a callback panicked.
		if file.raw == nil {
			C.tf_file_close(opened)
			file.shared.release()
		}
	}()
	if err := call(file.shared, &o, &opened); err != nil {
		return nil, err
	}
	file.raw = opened
	shared := file.shared
	file.free = func() {
		C.tf_file_close(opened)
		shared.release()
	}
	info := C.tf_file_info{size: C.sizeof_tf_file_info}
	err := file.run(func(raw **C.tf_error) C.tf_status { return C.tf_file_get_info(file.raw, &info, raw) })
	if err != nil {
		file.close()
		return nil, err
	}
	file.format, file.length, file.bytes = goString(info.format), int(info.tensors), uint64(info.bytes)
	runtime.SetFinalizer(file, (*File).Close)
	return file, nil
}

// run calls a function of C unless the file is closed.
func (f *File) run(call func(raw **C.tf_error) C.tf_status) error {
	if err := f.use("file"); err != nil {
		return err
	}
	defer f.done()
	return f.shared.run(call)
}

// Close closes the file. Its tensors and plans keep its bytes until they are closed. It returns nil, and may be called
// again.
func (f *File) Close() error {
	f.close()
	return nil
}

// Format returns the name of the format, such as "gguf".
func (f *File) Format() string { return f.format }

// Len returns the number of tensors.
func (f *File) Len() int { return f.length }

// ByteLen returns the number of bytes of the file, or of all its shards.
func (f *File) ByteLen() uint64 { return f.bytes }

// Tensor returns the tensor at a position, from 0, in the order of the file. Close it.
func (f *File) Tensor(position int) (*Tensor, error) {
	if position < 0 {
		return nil, misuse("there is no tensor %d", position)
	}
	return f.tensor(func(tensor **C.tf_tensor, raw **C.tf_error) C.tf_status {
		return C.tf_file_tensor(f.raw, C.size_t(position), tensor, raw)
	})
}

// Find returns the tensor with a name; a tensor without a name has its position in digits. Close it. If there is none,
// the message of the error has similar names.
func (f *File) Find(name string) (*Tensor, error) {
	text, length := cText(name)
	return f.tensor(func(tensor **C.tf_tensor, raw **C.tf_error) C.tf_status {
		return C.tfgo_find(f.raw, text, length, tensor, raw)
	})
}

func (f *File) tensor(find func(**C.tf_tensor, **C.tf_error) C.tf_status) (*Tensor, error) {
	var found *C.tf_tensor
	if err := f.run(func(raw **C.tf_error) C.tf_status { return find(&found, raw) }); err != nil {
		return nil, err
	}
	return newTensor(found, f.shared)
}

// Names returns the names of all tensors, in the order of the file.
func (f *File) Names() ([]string, error) {
	names := make([]string, f.length)
	for i := range names {
		tensor, err := f.Tensor(i)
		if err != nil {
			return nil, err
		}
		names[i] = tensor.Name()
		tensor.Close()
	}
	return names, nil
}

// Entry is a key and a value of metadata.
type Entry struct {
	// Key is unique in its file.
	Key string
	// Value is the value as text. Values of GGUF that are numbers or lists are JSON.
	Value string
}

// Metadata is the metadata of a file, in its order.
type Metadata []Entry

// Get returns the value of a key, and whether there is one.
func (m Metadata) Get(key string) (string, bool) {
	for _, entry := range m {
		if entry.Key == key {
			return entry.Value, true
		}
	}
	return "", false
}

// Map returns a new map of the entries.
func (m Metadata) Map() map[string]string {
	entries := make(map[string]string, len(m))
	for _, entry := range m {
		entries[entry.Key] = entry.Value
	}
	return entries
}

// Metadata returns a copy of the metadata.
func (f *File) Metadata() (Metadata, error) {
	var metadata Metadata
	err := f.run(func(raw **C.tf_error) C.tf_status {
		var entries *C.tf_entry
		var count C.size_t
		status := C.tf_file_metadata(f.raw, &entries, &count, raw)
		if status == C.TF_OK && count > 0 {
			for _, entry := range unsafe.Slice(entries, int(count)) {
				metadata = append(metadata, Entry{goString(entry.key), goString(entry.value)})
			}
		}
		return status
	})
	return metadata, err
}

// Warning is an oddity of a file that can be read.
type Warning struct {
	// Kind is the kind, such as "left-out" or "unknown-dtype".
	Kind string
	// Message is the sentence to show.
	Message string
	// Tensor is the name of the tensor; empty if the warning is about the file.
	Tensor string
	// Offset is the offset in the file in bytes, or -1 if it is not known.
	Offset int64
}

// Warnings returns the warnings about the file: parts that were left out, unknown dtypes, repeated names and others.
func (f *File) Warnings() ([]Warning, error) {
	var warnings []Warning
	err := f.run(func(raw **C.tf_error) C.tf_status {
		var found *C.tf_warning
		var count C.size_t
		status := C.tf_file_warnings(f.raw, &found, &count, raw)
		if status == C.TF_OK && count > 0 {
			for _, each := range unsafe.Slice(found, int(count)) {
				warnings = append(warnings, Warning{
					goString(each.kind), goString(each.message), goString(each.tensor), offsetOf(each.offset),
				})
			}
		}
		return status
	})
	return warnings, err
}

// Expected is a tensor that a file should have.
type Expected struct {
	Name  string
	DType DType
	Shape []int
}

// Report is a comparison of a file with the tensors that you expect.
type Report struct {
	// Differences is the number of differences; 0 if the file fits.
	Differences int
	// Text is the report as text, one line for each difference.
	Text string
	// JSON is the report as JSON.
	JSON string
}

// Report compares the file with the tensors that you expect: names, dtypes and shapes. No element is read. It is not an
// error if they differ.
func (f *File) Report(expected []Expected) (*Report, error) {
	var names []byte
	var lens, dims, ranks []C.size_t
	var dtypes []C.int32_t
	for _, each := range expected {
		shape, err := cDims(each.Shape)
		if err != nil {
			return nil, err
		}
		names = append(names, each.Name...)
		lens = append(lens, C.size_t(len(each.Name)))
		dtypes = append(dtypes, C.int32_t(each.DType))
		dims = append(dims, shape...)
		ranks = append(ranks, C.size_t(len(shape)))
	}
	var report Report
	err := f.run(func(raw **C.tf_error) C.tf_status {
		var made *C.tf_report
		status := C.tfgo_report(f.raw, (*C.char)(unsafe.Pointer(first(names))), first(lens), first(dtypes),
			first(dims), first(ranks), C.size_t(len(expected)), &made, raw)
		if status != C.TF_OK {
			return status
		}
		defer C.tf_report_free(made)
		info := C.tf_report_info{size: C.sizeof_tf_report_info}
		if status = C.tf_report_get_info(made, &info, raw); status == C.TF_OK {
			report = Report{int(info.differences), goString(info.text), goString(info.json)}
		}
		return status
	})
	if err != nil {
		return nil, err
	}
	return &report, nil
}
