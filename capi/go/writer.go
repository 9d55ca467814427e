package tensorfile

// #include <stdlib.h>
// #include "bridge.h"
import "C"

import (
	"io"
	"runtime/cgo"
	"unsafe"
)

// Writer is named tensors in Go memory, and metadata, to be written to files.
//
// It keeps the slices that you add, without a copy; they must stay as they are until the last save. C holds the elements
// of all tensors during a save, and cgo does not allow it to hold Go memory. So each save copies them to memory of C, and
// frees it at the end: while it runs, the elements are in memory twice.
//
// A Writer is used by one goroutine at a time. It holds no memory of C between saves, and needs no Close.
type Writer struct {
	options  []SaveOption
	tensors  []array
	metadata Metadata
}

type array struct {
	name  string
	dtype DType
	dims  []C.size_t
	data  []byte
}

// NewWriter returns a writer without tensors. The options are for all of its saves.
func NewWriter(options ...SaveOption) *Writer {
	return &Writer{options: append([]SaveOption{}, options...)}
}

// Add adds a tensor whose elements lie in row-major order. Without a shape, it is of rank 1; [AddScalar] adds one of
// rank 0. The number of elements has to be that of the shape.
func Add[T Element](w *Writer, name string, elements []T, shape ...int) error {
	if err := expectLittleEndian(); err != nil {
		return err
	}
	if len(shape) == 0 {
		shape = []int{len(elements)}
	}
	return w.AddBytes(name, DTypeOf[T](), shape, bytesOf(elements))
}

// AddScalar adds a tensor of rank 0. The element is copied.
func AddScalar[T Element](w *Writer, name string, element T) error {
	if err := expectLittleEndian(); err != nil {
		return err
	}
	return w.AddBytes(name, DTypeOf[T](), nil, bytesOf([]T{element}))
}

// AddBytes adds a tensor of any dtype, whose elements or blocks lie in row-major order. They are little-endian. The
// number of bytes has to be that of the dtype and the shape.
func (w *Writer) AddBytes(name string, dtype DType, shape []int, data []byte) error {
	dims, err := cDims(shape)
	if err != nil {
		return err
	}
	count, err := product(shape)
	if err != nil {
		return err
	}
	block := dtype.BlockElements()
	if block == 0 {
		return misuse("tensor `%s`: unknown dtype %v", name, dtype)
	}
	if count%block != 0 {
		return misuse("tensor `%s`: %d elements are not whole blocks of %d", name, count, block)
	}
	length, err := sized(count/block, dtype.BlockBytes())
	if err != nil {
		return err
	}
	if len(data) != length {
		return misuse("tensor `%s`: the data is %d bytes, but %v%v takes %d", name, len(data), dtype, shape, length)
	}
	w.tensors = append(w.tensors, array{name: name, dtype: dtype, dims: dims, data: data})
	return nil
}

// AddStrided adds a tensor whose elements do not lie in row-major order. strides has the distance of neighbours along each
// dim in bytes. It may be negative, or 0 to repeat an element. The element at index 0 of each dim begins at data[start].
// All elements have to lie in data. They are copied at once, in row-major order.
func (w *Writer) AddStrided(name string, dtype DType, shape, strides []int, data []byte, start int) error {
	dims, err := cDims(shape)
	if err != nil {
		return err
	}
	if len(strides) != len(shape) || dtype.BlockElements() != 1 {
		return misuse("tensor `%s`: %d strides for %v%v", name, len(strides), dtype, shape)
	}
	count, err := product(shape)
	if err != nil {
		return err
	}
	if count == 0 {
		return w.AddBytes(name, dtype, shape, nil)
	}
	// The lowest and the highest byte.
	low, high := start, start+dtype.BlockBytes()
	for i, stride := range strides {
		distance := (shape[i] - 1) * stride
		if shape[i] > 1 && (distance/(shape[i]-1) != stride || distance > len(data) || distance < -len(data)) {
			return misuse("tensor `%s`: stride %d of dim %d exceeds the data", name, stride, i)
		}
		if distance < 0 {
			low += distance
		} else {
			high += distance
		}
	}
	if start < 0 || start > len(data) || low < 0 || high > len(data) {
		return misuse("tensor `%s`: elements from byte %d to %d exceed the %d bytes of the data", name, low, high, len(data))
	}
	length, err := sized(count, dtype.BlockBytes())
	if err != nil {
		return err
	}
	rows := make([]byte, 0, length)
	index := make([]int, len(shape))
	for at := start; ; {
		rows = append(rows, data[at:at+dtype.BlockBytes()]...)
		dim := len(shape) - 1
		for ; dim >= 0 && index[dim]+1 == shape[dim]; dim-- {
			at -= strides[dim] * index[dim]
			index[dim] = 0
		}
		if dim < 0 {
			break
		}
		index[dim]++
		at += strides[dim]
	}
	w.tensors = append(w.tensors, array{name: name, dtype: dtype, dims: dims, data: rows})
	return nil
}

// SetMetadata sets an entry of the metadata. A later one with the same key replaces it.
func (w *Writer) SetMetadata(key, value string) {
	for i := range w.metadata {
		if w.metadata[i].Key == key {
			w.metadata[i].Value = value
			return
		}
	}
	w.metadata = append(w.metadata, Entry{key, value})
}

// Save saves the tensors as a file. It replaces an existing one only when it is complete, and on disk; otherwise the old
// file stays, and there is no part of a new one. What the format cannot store is an error before anything is written.
func (w *Writer) Save(path string, options ...SaveOption) error {
	o := makeSaveOptions(w.options, options)
	var callbacks calls
	defer o.lend(&callbacks)()
	return w.withC(&callbacks, func(writer *C.tf_writer, raw **C.tf_error) C.tf_status {
		text, length := cText(path)
		format, formatLen := cText(o.format)
		return C.tfgo_save(writer, text, length, format, formatLen, o.numbers, raw)
	})
}

// WriteTo writes the file to out piece by piece, in order, and returns the number of bytes. [SaveFormat] among the options
// of [NewWriter] names the format. It implements [io.WriterTo].
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	o := makeSaveOptions(w.options)
	var callbacks calls
	defer o.lend(&callbacks)()
	to := &sink{calls: &callbacks, writer: out}
	handle := cgo.NewHandle(to)
	defer handle.Delete()
	err := w.withC(&callbacks, func(writer *C.tf_writer, raw **C.tf_error) C.tf_status {
		format, formatLen := cText(o.format)
		return C.tfgo_write(writer, C.uintptr_t(handle), format, formatLen, o.numbers, raw)
	})
	return to.written, err
}

// withC calls save with a writer of C, whose elements are in memory of C until it returns.
func (w *Writer) withC(callbacks *calls, save func(*C.tf_writer, **C.tf_error) C.tf_status) error {
	if err := checkABI(); err != nil {
		return err
	}
	var writer *C.tf_writer
	var memories []unsafe.Pointer
	defer func() {
		C.tf_writer_free(writer)
		for _, memory := range memories {
			C.free(memory)
		}
	}()
	return run([]*calls{callbacks}, func(raw **C.tf_error) C.tf_status {
		if status := C.tf_writer_new(&writer, raw); status != C.TF_OK {
			return status
		}
		for _, tensor := range w.tensors {
			// C.malloc ends the program if there is no memory, as Go does.
			memory := C.malloc(C.size_t(len(tensor.data) + 1))
			memories = append(memories, memory)
			copy(unsafe.Slice((*byte)(memory), len(tensor.data)), tensor.data)
			name, nameLen := cText(tensor.name)
			status := C.tfgo_writer_add(writer, name, nameLen, C.int32_t(tensor.dtype), first(tensor.dims),
				nil, C.size_t(len(tensor.dims)), memory, raw)
			if status != C.TF_OK {
				return status
			}
		}
		for _, entry := range w.metadata {
			key, keyLen := cText(entry.Key)
			value, valueLen := cText(entry.Value)
			if status := C.tfgo_writer_metadata(writer, key, keyLen, value, valueLen, raw); status != C.TF_OK {
				return status
			}
		}
		return save(writer, raw)
	})
}

// Convert copies all tensors and the metadata of a file to another file, in pieces. The formats are those of the
// extensions, or of the options, which may be nil. Both may be the same file.
//
// Metadata that the new format cannot store is an error; [SaveWithoutMetadata] leaves it out.
func Convert(from, to string, opening []Option, saving []SaveOption) error {
	if err := checkABI(); err != nil {
		return err
	}
	open, save := makeOpenOptions(opening), makeSaveOptions(saving)
	var callbacks calls
	defer save.lend(&callbacks)()
	if open.progress != nil {
		handle := cgo.NewHandle(&progress{calls: &callbacks, call: open.progress})
		defer handle.Delete()
		open.numbers.progress = C.uintptr_t(handle)
	}
	fromText, fromLen := cText(from)
	fromFormat, fromFormatLen := cText(open.format)
	deny, denyLen := cText(open.deny)
	toText, toLen := cText(to)
	toFormat, toFormatLen := cText(save.format)
	return run([]*calls{&callbacks}, func(raw **C.tf_error) C.tf_status {
		return C.tfgo_convert(fromText, fromLen, fromFormat, fromFormatLen, deny, denyLen, open.numbers,
			toText, toLen, toFormat, toFormatLen, save.numbers, raw)
	})
}
