package tensorfile

// #include "bridge.h"
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// Layout is the order of a tensor's elements in its file.
type Layout int32

const (
	// RowMajor is dense; the last dim is innermost.
	RowMajor Layout = C.TF_LAYOUT_ROW_MAJOR
	// DimOrder is dense, with the dims in another order: see the strides.
	DimOrder Layout = C.TF_LAYOUT_DIM_ORDER
	// COO is sparse: the indices of each element, 64 bits for each dim, then their number in 64 bits, then the elements.
	COO Layout = C.TF_LAYOUT_COO
	// Blob is named bytes that are not a tensor.
	Blob Layout = C.TF_LAYOUT_BLOB
	// UnknownLayout is a tensor of an unknown dtype, or a damaged one. Its bytes can be read as they are stored.
	UnknownLayout Layout = C.TF_LAYOUT_UNKNOWN
)

// String returns a word for the layout, such as "row-major".
func (l Layout) String() string {
	words := [...]string{"row-major", "dim-order", "coo", "blob", "unknown"}
	if l < 0 || int(l) >= len(words) {
		return fmt.Sprintf("Layout(%d)", int32(l))
	}
	return words[l]
}

// Tensor is a tensor of a file, whose bytes it keeps. Its name, dtype, shape and so on are copied when it is found, and
// stay after Close.
type Tensor struct {
	handle
	raw    *C.tf_tensor
	shared *shared

	name, unknown    string
	dtype            DType
	layout           Layout
	shape, strides   []int
	bytes, alignment int
	offset           int64
}

// newTensor owns raw.
func newTensor(raw *C.tf_tensor, shared *shared) (*Tensor, error) {
	shared.retain()
	tensor := &Tensor{raw: raw, shared: shared}
	tensor.free = func() {
		C.tf_tensor_close(raw)
		shared.release()
	}
	err := tensor.run(func(cause **C.tf_error) C.tf_status {
		info := C.tf_tensor_info{size: C.sizeof_tf_tensor_info}
		status := C.tf_tensor_get_info(raw, &info, cause)
		if status != C.TF_OK {
			return status
		}
		tensor.name, tensor.unknown = goString(info.name), goString(info.unknown_dtype)
		tensor.dtype, tensor.layout = DType(info.dtype), Layout(info.layout)
		tensor.bytes, tensor.alignment = math.MaxInt, int(info.alignment)
		if info.bytes <= math.MaxInt {
			tensor.bytes = int(info.bytes)
		}
		tensor.offset = offsetOf(info.offset)
		tensor.shape = goDims(info.dims, info.rank)
		if info.strides != nil {
			tensor.strides = make([]int, int(info.rank))
			if info.rank > 0 {
				for i, stride := range unsafe.Slice(info.strides, int(info.rank)) {
					tensor.strides[i] = int(stride)
				}
			}
		}
		return status
	})
	if err != nil {
		tensor.close()
		return nil, err
	}
	runtime.SetFinalizer(tensor, (*Tensor).Close)
	return tensor, nil
}

// run calls a function of C unless the tensor is closed.
func (t *Tensor) run(call func(raw **C.tf_error) C.tf_status) error {
	if err := t.use("tensor"); err != nil {
		return err
	}
	defer t.done()
	return t.shared.run(call)
}

// Close closes the tensor. The slices of its views end with it: to use one later reads freed memory, or ends the program.
// It returns nil, and may be called again.
func (t *Tensor) Close() error {
	t.close()
	return nil
}

// Name returns the name, or the position in digits if the tensor has no name.
func (t *Tensor) Name() string { return t.name }

// DType returns the dtype. If [Tensor.UnknownDType] is not empty, it is U8 and means nothing.
func (t *Tensor) DType() DType { return t.dtype }

// UnknownDType returns the name of a dtype that the library does not know, as in the file; mostly empty.
func (t *Tensor) UnknownDType() string { return t.unknown }

// Layout returns the order of the elements in the file.
func (t *Tensor) Layout() Layout { return t.layout }

// Shape returns a copy of the dims, in elements.
func (t *Tensor) Shape() []int { return append([]int{}, t.shape...) }

// Strides returns the distance of neighbours along each dim in bytes, as a view has the elements. It is nil for sparse
// tensors, unknown dtypes and dtypes with several elements in a block.
func (t *Tensor) Strides() []int {
	if t.strides == nil {
		return nil
	}
	return append([]int{}, t.strides...)
}

// ByteLen returns the number of bytes of the elements, decoded. It comes from the file: check it before you allocate
// memory for a file that you do not trust.
func (t *Tensor) ByteLen() int { return t.bytes }

// Offset returns the offset of the elements in their file, or -1 if they are in several places.
func (t *Tensor) Offset() int64 { return t.offset }

// Alignment returns the largest power of two, up to 4096, that divides the offset. The address of a view of a mapped file
// is a multiple of it. It is 1 if there is no offset.
func (t *Tensor) Alignment() int { return t.alignment }

// View returns the elements without a copy, in the order of the file: see [Tensor.Strides].
//
// The slice is valid until Close of this tensor, even if the file is closed before. From here on, the tensor is not closed
// when it is collected: if you never call Close, the slice stays valid and the file stays mapped.
//
// A file on disk is mapped privately: if you write to the slice, the change stays in this process, and views of the same
// file share it. If another program truncates the file, reading the slice ends this program; [WithPositioned] avoids it.
//
// Tensors that are compressed, decoded, in several places, or of a file that is read at positions cannot be viewed;
// neither can bools of a mapped file. The error says so, and [ReadAll] reads them.
func (t *Tensor) View() ([]byte, error) {
	var view []byte
	err := t.run(func(raw **C.tf_error) C.tf_status {
		var bytes unsafe.Pointer
		var length C.size_t
		status := C.tf_view(t.raw, &bytes, &length, raw)
		if status == C.TF_OK {
			// The collector does not see that the slice needs the tensor.
			runtime.SetFinalizer(t, nil)
			view = []byte{}
			if length > 0 {
				view = unsafe.Slice((*byte)(bytes), int(length))
			}
		}
		return status
	})
	return view, err
}

// ViewAll is [Tensor.View] as elements. It is an error if the tensor is of another dtype, or if the elements are not
// aligned for Go. The elements are in the order of the file, and the slice is valid until Close of the tensor.
func ViewAll[T Element](t *Tensor) ([]T, error) {
	if err := t.expectElements(); err != nil {
		return nil, err
	}
	if err := expectLittleEndian(); err != nil {
		return nil, err
	}
	if t.dtype != DTypeOf[T]() {
		return nil, t.misuse("a view of %v needs that dtype, not %v; ReadAll casts", t.dtype, DTypeOf[T]())
	}
	bytes, err := t.View()
	if err != nil || len(bytes) == 0 {
		return []T{}, err
	}
	var zero T
	if uintptr(unsafe.Pointer(&bytes[0]))%unsafe.Alignof(zero) != 0 {
		return nil, t.misuse("the elements are not aligned to %d bytes in the file; ReadAll copies them", unsafe.Alignof(zero))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&bytes[0])), len(bytes)/int(unsafe.Sizeof(zero))), nil
}

// ReadAll reads all elements into a new slice, in row-major order. Numbers of another dtype are cast, rounding to the
// nearest, or to the smallest or largest number of T; compare [Tensor.DType] first if that would be a mistake. Sparse
// tensors, unknown dtypes and quantized weights are not cast: see [Tensor.ReadInto].
func ReadAll[T Element](t *Tensor) ([]T, error) {
	if err := t.expectElements(); err != nil {
		return nil, err
	}
	elements, err := makeElements[T](t.shared, t.shape)
	if err != nil {
		return nil, err
	}
	return elements, t.ReadInto(bytesOf(elements), DTypeOf[T]())
}

// ReadSlice reads a part of a tensor into a new slice: one range for each dim. Otherwise as [ReadAll].
func ReadSlice[T Element](t *Tensor, ranges ...Range) ([]T, error) {
	if err := t.expectElements(); err != nil {
		return nil, err
	}
	shape, err := t.rangeShape(ranges)
	if err != nil {
		return nil, err
	}
	elements, err := makeElements[T](t.shared, shape)
	if err != nil {
		return nil, err
	}
	return elements, t.SliceInto(bytesOf(elements), DTypeOf[T](), nil, ranges...)
}

// ReadInto reads all elements into memory, in row-major order without gaps. Its length is exactly the number of bytes they
// take: [Tensor.ByteLen] for [Stored].
//
// dtype is a dtype to cast numbers to, or Stored. Sparse tensors and those of unknown dtypes are read as they are stored.
// After an error, the content of memory is undefined.
func (t *Tensor) ReadInto(memory []byte, dtype DType) error {
	return t.run(func(raw **C.tf_error) C.tf_status {
		return C.tfgo_read(t.raw, C.int32_t(dtype), firstByte(memory), C.size_t(len(memory)), raw)
	})
}

// Range is the indices Start to End, without End, along one dim.
type Range struct {
	Start, End int
}

// Slice reads a part of a tensor into new memory, in its dtype: one range for each dim.
func (t *Tensor) Slice(ranges ...Range) ([]byte, error) {
	if err := t.expectElements(); err != nil {
		return nil, err
	}
	shape, err := t.rangeShape(ranges)
	if err != nil {
		return nil, err
	}
	count, err := product(shape)
	if err != nil {
		return nil, err
	}
	length, err := sized(count, t.dtype.BlockBytes())
	if err == nil {
		err = t.shared.allow(length)
	}
	if err != nil {
		return nil, err
	}
	memory := make([]byte, length)
	return memory, t.SliceInto(memory, Stored, nil, ranges...)
}

// SliceInto reads a part of a tensor into memory: one range for each dim. Otherwise as [Tensor.ReadInto].
//
// strides has the distance of neighbours along each dim in memory, in bytes; nil is row-major order without gaps, and then
// the length of memory is exact. With strides, bytes between the elements stay as they are. Strides are not negative, and
// put no element over another.
func (t *Tensor) SliceInto(memory []byte, dtype DType, strides []int, ranges ...Range) error {
	converted, err := cRanges(ranges)
	if err != nil {
		return err
	}
	var distances *C.ptrdiff_t
	if strides != nil {
		if len(strides) != len(ranges) {
			return t.misuse("%d strides for %d ranges", len(strides), len(ranges))
		}
		// One more, so that there is an address without dims.
		distances = first(cStrides(append(append([]int{}, strides...), 0)))
	}
	return t.run(func(raw **C.tf_error) C.tf_status {
		return C.tfgo_slice(t.raw, first(converted), C.size_t(len(converted)), C.int32_t(dtype), firstByte(memory),
			C.size_t(len(memory)), distances, raw)
	})
}

// expectElements returns an error if the tensor has no single elements of a known dtype.
func (t *Tensor) expectElements() error {
	if t.strides == nil {
		return t.misuse("it has no single elements; ReadInto reads its bytes")
	}
	return nil
}

// rangeShape returns the shape of a part. Ranges that exceed the tensor are errors before memory is allocated for them.
func (t *Tensor) rangeShape(ranges []Range) ([]int, error) {
	if len(ranges) != len(t.shape) {
		return nil, t.misuse("%d ranges for shape %v", len(ranges), t.shape)
	}
	shape := make([]int, len(ranges))
	for i, each := range ranges {
		if each.Start < 0 || each.Start > each.End || each.End > t.shape[i] {
			return nil, t.misuse("range %d..%d of dim %d exceeds shape %v", each.Start, each.End, i, t.shape)
		}
		shape[i] = each.End - each.Start
	}
	return shape, nil
}

func (t *Tensor) misuse(format string, args ...any) *Error {
	err := misuse("tensor `%s`: %s", t.name, fmt.Sprintf(format, args...))
	err.Tensor = t.name
	return err
}

func cRanges(ranges []Range) ([]C.tf_range, error) {
	converted := make([]C.tf_range, len(ranges))
	for i, each := range ranges {
		if each.Start < 0 || each.End < 0 {
			return nil, misuse("range %d..%d is negative", each.Start, each.End)
		}
		converted[i] = C.tf_range{start: C.size_t(each.Start), end: C.size_t(each.End)}
	}
	return converted, nil
}

func cStrides(strides []int) []C.ptrdiff_t {
	converted := make([]C.ptrdiff_t, len(strides))
	for i, stride := range strides {
		converted[i] = C.ptrdiff_t(stride)
	}
	return converted
}

func makeElements[T Element](shared *shared, shape []int) ([]T, error) {
	count, err := product(shape)
	if err != nil {
		return nil, err
	}
	var zero T
	length, err := sized(count, int(unsafe.Sizeof(zero)))
	if err == nil {
		err = shared.allow(length)
	}
	if err == nil {
		err = expectLittleEndian()
	}
	if err != nil {
		return nil, err
	}
	return make([]T, count), nil
}

// bytesOf returns the memory of elements.
func bytesOf[T Element](elements []T) []byte {
	if len(elements) == 0 {
		return nil
	}
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(&elements[0])), len(elements)*int(unsafe.Sizeof(zero)))
}
