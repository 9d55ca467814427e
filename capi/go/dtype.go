package tensorfile

// #include "bridge.h"
import "C"

import (
	"fmt"
	"reflect"
	"sync"
)

// DType is an element type. The numbers never change.
type DType int32

const (
	// Stored, as an argument, means the dtype of the file.
	Stored DType = C.TF_DTYPE_STORED
	// Bool is one byte, 0 or 1.
	Bool DType = C.TF_DTYPE_BOOL
	// I8 is a signed 8-bit integer.
	I8 DType = C.TF_DTYPE_I8
	// I16 is a signed 16-bit integer.
	I16 DType = C.TF_DTYPE_I16
	// I32 is a signed 32-bit integer.
	I32 DType = C.TF_DTYPE_I32
	// I64 is a signed 64-bit integer.
	I64 DType = C.TF_DTYPE_I64
	// U8 is an unsigned 8-bit integer.
	U8 DType = C.TF_DTYPE_U8
	// U16 is an unsigned 16-bit integer.
	U16 DType = C.TF_DTYPE_U16
	// U32 is an unsigned 32-bit integer.
	U32 DType = C.TF_DTYPE_U32
	// U64 is an unsigned 64-bit integer.
	U64 DType = C.TF_DTYPE_U64
	// F16 is IEEE 754 half precision.
	F16 DType = C.TF_DTYPE_F16
	// BF16 is bfloat16: the upper half of an f32.
	BF16 DType = C.TF_DTYPE_BF16
	// F32 is IEEE 754 single precision.
	F32 DType = C.TF_DTYPE_F32
	// F64 is IEEE 754 double precision.
	F64 DType = C.TF_DTYPE_F64
	// F8_E5M2 is an 8-bit float, 5 exponent bits, with infinities.
	F8_E5M2 DType = C.TF_DTYPE_F8_E5M2
	// F8_E4M3FN is an 8-bit float, 4 exponent bits, no infinities.
	F8_E4M3FN DType = C.TF_DTYPE_F8_E4M3FN
	// F8_E5M2FNUZ is an 8-bit float, 5 exponent bits, no infinities, no negative zero.
	F8_E5M2FNUZ DType = C.TF_DTYPE_F8_E5M2FNUZ
	// F8_E4M3FNUZ is an 8-bit float, 4 exponent bits, no infinities, no negative zero.
	F8_E4M3FNUZ DType = C.TF_DTYPE_F8_E4M3FNUZ
	// QInt8 is a quantized signed 8-bit integer; opaque.
	QInt8 DType = C.TF_DTYPE_QINT8
	// QUInt8 is a quantized unsigned 8-bit integer; opaque.
	QUInt8 DType = C.TF_DTYPE_QUINT8
	// QInt32 is a quantized signed 32-bit integer; opaque.
	QInt32 DType = C.TF_DTYPE_QINT32
	// QUInt4x2 is quantized unsigned 4-bit integers, two to a byte; opaque. ExecuTorch counts bytes as elements.
	QUInt4x2 DType = C.TF_DTYPE_QUINT4X2
	// QUInt2x4 is quantized unsigned 2-bit integers, four to a byte; opaque. ExecuTorch counts bytes as elements.
	QUInt2x4 DType = C.TF_DTYPE_QUINT2X4
	// Bits16 is 16 uninterpreted bits.
	Bits16 DType = C.TF_DTYPE_BITS16
	// F8_E8M0 is an 8-bit power of two: 8 exponent bits, no sign, no zero, no infinities. The scales of MX formats.
	F8_E8M0 DType = C.TF_DTYPE_F8_E8M0
	// F4 is 4-bit floats, E2M1, two to a byte; opaque.
	F4 DType = C.TF_DTYPE_F4
	// F6_E2M3 is 6-bit floats, 2 exponent bits, four to three bytes; opaque.
	F6_E2M3 DType = C.TF_DTYPE_F6_E2M3
	// F6_E3M2 is 6-bit floats, 3 exponent bits, four to three bytes; opaque.
	F6_E3M2 DType = C.TF_DTYPE_F6_E3M2
	// C64 is a complex number of two f32, the real part first.
	C64 DType = C.TF_DTYPE_C64
	// C128 is a complex number of two f64, the real part first.
	C128 DType = C.TF_DTYPE_C128
	// Q4_0 is ggml's q4_0: 32 weights in 18 bytes; opaque.
	Q4_0 DType = C.TF_DTYPE_Q4_0
	// Q4_1 is ggml's q4_1: 32 weights in 20 bytes; opaque.
	Q4_1 DType = C.TF_DTYPE_Q4_1
	// Q5_0 is ggml's q5_0: 32 weights in 22 bytes; opaque.
	Q5_0 DType = C.TF_DTYPE_Q5_0
	// Q5_1 is ggml's q5_1: 32 weights in 24 bytes; opaque.
	Q5_1 DType = C.TF_DTYPE_Q5_1
	// Q8_0 is ggml's q8_0: 32 weights in 34 bytes; opaque.
	Q8_0 DType = C.TF_DTYPE_Q8_0
	// Q8_1 is ggml's q8_1: 32 weights in 36 bytes; opaque.
	Q8_1 DType = C.TF_DTYPE_Q8_1
	// Q2_K is ggml's q2_k: 256 weights in 84 bytes; opaque.
	Q2_K DType = C.TF_DTYPE_Q2_K
	// Q3_K is ggml's q3_k: 256 weights in 110 bytes; opaque.
	Q3_K DType = C.TF_DTYPE_Q3_K
	// Q4_K is ggml's q4_k: 256 weights in 144 bytes; opaque.
	Q4_K DType = C.TF_DTYPE_Q4_K
	// Q5_K is ggml's q5_k: 256 weights in 176 bytes; opaque.
	Q5_K DType = C.TF_DTYPE_Q5_K
	// Q6_K is ggml's q6_k: 256 weights in 210 bytes; opaque.
	Q6_K DType = C.TF_DTYPE_Q6_K
	// Q8_K is ggml's q8_k: 256 weights in 292 bytes; opaque.
	Q8_K DType = C.TF_DTYPE_Q8_K
	// IQ2_XXS is ggml's iq2_xxs: 256 weights in 66 bytes; opaque.
	IQ2_XXS DType = C.TF_DTYPE_IQ2_XXS
	// IQ2_XS is ggml's iq2_xs: 256 weights in 74 bytes; opaque.
	IQ2_XS DType = C.TF_DTYPE_IQ2_XS
	// IQ3_XXS is ggml's iq3_xxs: 256 weights in 98 bytes; opaque.
	IQ3_XXS DType = C.TF_DTYPE_IQ3_XXS
	// IQ1_S is ggml's iq1_s: 256 weights in 50 bytes; opaque.
	IQ1_S DType = C.TF_DTYPE_IQ1_S
	// IQ4_NL is ggml's iq4_nl: 32 weights in 18 bytes; opaque.
	IQ4_NL DType = C.TF_DTYPE_IQ4_NL
	// IQ3_S is ggml's iq3_s: 256 weights in 110 bytes; opaque.
	IQ3_S DType = C.TF_DTYPE_IQ3_S
	// IQ2_S is ggml's iq2_s: 256 weights in 82 bytes; opaque.
	IQ2_S DType = C.TF_DTYPE_IQ2_S
	// IQ4_XS is ggml's iq4_xs: 256 weights in 136 bytes; opaque.
	IQ4_XS DType = C.TF_DTYPE_IQ4_XS
	// IQ1_M is ggml's iq1_m: 256 weights in 56 bytes; opaque.
	IQ1_M DType = C.TF_DTYPE_IQ1_M
	// TQ1_0 is ggml's tq1_0: 256 weights in 54 bytes; opaque.
	TQ1_0 DType = C.TF_DTYPE_TQ1_0
	// TQ2_0 is ggml's tq2_0: 256 weights in 66 bytes; opaque.
	TQ2_0 DType = C.TF_DTYPE_TQ2_0
	// MXFP4 is ggml's mxfp4: 32 weights in 17 bytes; opaque.
	MXFP4 DType = C.TF_DTYPE_MXFP4
	// NVFP4 is ggml's nvfp4: 64 weights in 36 bytes; opaque.
	NVFP4 DType = C.TF_DTYPE_NVFP4
	// Q1_0 is ggml's q1_0: 128 weights in 18 bytes; opaque.
	Q1_0 DType = C.TF_DTYPE_Q1_0
	// Q2_0 is ggml's q2_0: 64 weights in 18 bytes; opaque.
	Q2_0 DType = C.TF_DTYPE_Q2_0
)

// dtypeInfo is a row of the library's table of dtypes.
type dtypeInfo struct {
	name                      string
	blockElements, blockBytes int
}

var dtypes struct {
	once  sync.Once
	known []dtypeInfo
}

// info returns the row of a dtype, or nil.
func (d DType) info() *dtypeInfo {
	dtypes.once.Do(func() {
		// The row of Stored stays empty.
		for next := C.int32_t(0); ; next++ {
			info := C.tf_dtype_info{size: C.sizeof_tf_dtype_info}
			if C.tf_dtype_get_info(next, &info, nil) == C.TF_OK {
				row := dtypeInfo{goString(info.name), int(info.block_elements), int(info.block_bytes)}
				dtypes.known = append(dtypes.known, row)
			} else if next == 0 {
				dtypes.known = append(dtypes.known, dtypeInfo{})
			} else {
				return
			}
		}
	})
	if d <= Stored || int(d) >= len(dtypes.known) {
		return nil
	}
	return &dtypes.known[d]
}

// String returns the name, such as "f32"; "stored" for Stored.
func (d DType) String() string {
	if info := d.info(); info != nil {
		return info.name
	}
	if d == Stored {
		return "stored"
	}
	return fmt.Sprintf("DType(%d)", int32(d))
}

// BlockElements returns the number of elements in a block: 1 for most dtypes, and 0 if there is no such dtype.
func (d DType) BlockElements() int {
	if info := d.info(); info != nil {
		return info.blockElements
	}
	return 0
}

// BlockBytes returns the number of bytes of a block: the size of an element for most dtypes, and 0 if there is no such
// dtype.
func (d DType) BlockBytes() int {
	if info := d.info(); info != nil {
		return info.blockBytes
	}
	return 0
}

// ParseDType returns the dtype with a name, such as "f32".
func ParseDType(name string) (DType, error) {
	var dtype C.int32_t
	text, length := cText(name)
	err := run(nil, func(raw **C.tf_error) C.tf_status { return C.tfgo_dtype_find(text, length, &dtype, raw) })
	return DType(dtype), err
}

// Float16 has the bits of an IEEE 754 half precision number. To read numbers, call ReadAll[float32].
type Float16 uint16

// BFloat16 has the bits of a bfloat16: the upper half of a float32. To read numbers, call ReadAll[float32].
type BFloat16 uint16

// Element is a Go type of tensor elements, or a type made from one.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// DTypeOf returns the dtype of a Go type. [Float16] and [BFloat16] have their own; other types made from uint16 are U16.
func DTypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case Float16:
		return F16
	case BFloat16:
		return BF16
	}
	return [...]DType{
		reflect.Bool: Bool, reflect.Int8: I8, reflect.Int16: I16, reflect.Int32: I32, reflect.Int64: I64,
		reflect.Uint8: U8, reflect.Uint16: U16, reflect.Uint32: U32, reflect.Uint64: U64,
		reflect.Float32: F32, reflect.Float64: F64, reflect.Complex64: C64, reflect.Complex128: C128,
	}[reflect.TypeOf(zero).Kind()]
}
