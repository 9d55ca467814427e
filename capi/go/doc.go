// Package tensorfile reads and writes tensor files: safetensors, GGUF, PyTorch, NumPy and others. It calls the C library
// of the same name, which pkg-config finds.
//
//	file, err := tensorfile.Open("model.safetensors")
//	if err != nil {
//		return err
//	}
//	defer file.Close()
//	bias, err := file.Find("bias")
//	if err != nil {
//		return err
//	}
//	defer bias.Close()
//	values, err := tensorfile.ReadAll[float32](bias)
//
// # Lifetimes
//
// A [Tensor] and a [Plan] keep the bytes of their file, so a [File] may be closed before them. Close may be called at any
// time and more than once: calls that are running finish first, and later calls fail with [fs.ErrClosed].
//
// [Tensor.View] and [ViewAll] return slices of memory that Go does not manage: the mapped file, or the copy that
// [OpenBytes] made. They are valid until Close of the Tensor they came from. The collector does not know that such a
// slice needs its Tensor. Therefore a Tensor that was viewed has no finalizer: without Close, it leaks its file, and its
// slices stay valid. Files, plans, and tensors that were not viewed release their memory when they are collected; Close
// does it sooner. No call of [runtime.KeepAlive] is needed.
//
// Everything else that this package returns is a copy in Go memory. Names, shapes and strides are valid after Close.
//
// # Goroutines
//
// Any number of goroutines may use files, tensors and plans at once. A [Writer] is for one goroutine at a time.
//
// # Bytes
//
// Bytes of elements, as View returns and AddBytes takes them, are little-endian. Functions with elements of Go types, such
// as ReadAll, return an error on big-endian machines.
//
// # Callbacks
//
// Progress functions, readers and writers that you pass may be called on other threads. An error from one of them ends the
// call, and [errors.Is] finds it in the error of the call. A panic in one of them ends the call too, and is raised again
// with the same value in the goroutine that made the call. If several goroutines read one File, any of the calls that fail
// may get the error or the panic. Callbacks must not call [runtime.Goexit], as FailNow of package testing does.
package tensorfile

/*
#cgo pkg-config: tensorfile
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"math"
	"sync"
	"unsafe"
)

// Version returns the version of the C library, such as 0.1.0.
func Version() string { return C.GoString(C.tf_version()) }

// SetMaxThreads sets the most threads that the library uses in this process, at least 1. The results are the same with
// any number.
func SetMaxThreads(threads int) error {
	if threads < 1 {
		return misuse("the number of threads is %d; it is at least 1", threads)
	}
	if C.tf_set_max_threads(C.size_t(threads)) != C.TF_OK {
		return misuse("cannot set the number of threads to %d", threads)
	}
	return nil
}

// checkABI returns an error if the shared library is of another version than the header.
func checkABI() error {
	if found := C.tf_abi_version(); found != C.TF_ABI_VERSION {
		return misuse("the library has version %d of the binary interface, but the package was built for %d",
			uint32(found), C.TF_ABI_VERSION)
	}
	return nil
}

// handle counts the calls that use an object of C, so that Close does not free it under them.
type handle struct {
	mutex  sync.Mutex
	uses   int
	closed bool
	free   func()
}

// use returns an error if the object was closed. Otherwise, done has to follow.
func (h *handle) use(what string) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return closedError(what)
	}
	h.uses++
	return nil
}

func (h *handle) done() {
	h.mutex.Lock()
	h.uses--
	free := h.closed && h.uses == 0
	h.mutex.Unlock()
	if free {
		h.free()
	}
}

func (h *handle) close() {
	h.mutex.Lock()
	free := !h.closed && h.uses == 0
	h.closed = true
	h.mutex.Unlock()
	if free {
		h.free()
	}
}

// goString copies a text of C.
func goString(text C.tf_text) string {
	if text.len == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(text.data)), int(text.len)))
}

// cText copies a string for an argument of C. It is Go memory, which lives as long as the call.
func cText(text string) (*C.char, C.size_t) {
	if text == "" {
		return nil, 0
	}
	bytes := []byte(text)
	return (*C.char)(unsafe.Pointer(&bytes[0])), C.size_t(len(bytes))
}

func first[T any](slice []T) *T {
	if len(slice) == 0 {
		return nil
	}
	return &slice[0]
}

func firstByte(bytes []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(first(bytes))) }

// cDims converts dims, none of which may be negative.
func cDims(shape []int) ([]C.size_t, error) {
	dims := make([]C.size_t, len(shape))
	for i, dim := range shape {
		if dim < 0 {
			return nil, misuse("dim %d of the shape is %d", i, dim)
		}
		dims[i] = C.size_t(dim)
	}
	return dims, nil
}

func goDims(dims *C.size_t, rank C.size_t) []int {
	shape := make([]int, int(rank))
	if rank > 0 {
		for i, dim := range unsafe.Slice(dims, int(rank)) {
			shape[i] = int(dim)
		}
	}
	return shape
}

// product returns the number of elements of a shape.
func product(shape []int) (int, error) {
	count := 1
	for _, dim := range shape {
		if dim == 0 {
			return 0, nil
		}
	}
	for _, dim := range shape {
		if dim < 0 || count > math.MaxInt/dim {
			return 0, misuse("shape %v has more elements than an int counts", shape)
		}
		count *= dim
	}
	return count, nil
}

// sized returns the bytes of a number of elements.
func sized(count, size int) (int, error) {
	if size > 0 && count > math.MaxInt/size {
		return 0, misuse("%d elements of %d bytes exceed memory", count, size)
	}
	return count * size, nil
}

// expectLittleEndian returns an error on machines where bytes of files are not Go values.
func expectLittleEndian() error {
	if number := uint16(1); *(*byte)(unsafe.Pointer(&number)) != 1 {
		return misuse("this machine is big-endian; use functions with bytes")
	}
	return nil
}

// offsetOf returns an offset, or -1 for TF_NO_OFFSET.
func offsetOf(offset C.uint64_t) int64 {
	if offset > math.MaxInt64 {
		return -1
	}
	return int64(offset)
}

func misuse(format string, args ...any) *Error {
	return &Error{Status: StatusCall, Kind: "argument", Offset: -1, message: fmt.Sprintf(format, args...)}
}
