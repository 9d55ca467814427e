package tensorfile

// #include "bridge.h"
import "C"

import (
	"fmt"
	"io/fs"
	"syscall"
)

// Status is the category of an error.
type Status int32

const (
	// StatusFile means that the file is malformed, or of no known format.
	StatusFile Status = C.TF_FILE
	// StatusMismatch means that the file does not have what was asked for.
	StatusMismatch Status = C.TF_MISMATCH
	// StatusCall means that the call is wrong, or asks for something that is not supported.
	StatusCall Status = C.TF_CALL
	// StatusLimit means that the file exceeds a limit, or memory ran out.
	StatusLimit Status = C.TF_LIMIT
	// StatusIO means that the system, a server, a reader or a writer reported an error.
	StatusIO Status = C.TF_IO
	// StatusCancelled means that a progress function or a context ended the call.
	StatusCancelled Status = C.TF_CANCELLED
	// StatusInternal means a mistake of the library. Please report it, with the message.
	StatusInternal Status = C.TF_INTERNAL
)

// String returns a word for the status, such as "file".
func (s Status) String() string {
	words := [...]string{"ok", "file", "mismatch", "call", "limit", "io", "cancelled", "internal"}
	if s < 0 || int(s) >= len(words) {
		return fmt.Sprintf("Status(%d)", int32(s))
	}
	return words[s]
}

// Error is the cause of a failed call. All functions of this package that fail return one; use [errors.As].
//
// It wraps the error that a callback returned, or else the number of the system's error. So
// errors.Is(err, fs.ErrNotExist) works as for package os.
type Error struct {
	// Status is the category.
	Status Status
	// Kind is the kind within the category, such as "truncated" or "missing".
	Kind string
	// Tensor is the name of the tensor; empty if the error is not about one.
	Tensor string
	// Offset is the offset in the file in bytes, or -1 if it is not known.
	Offset int64
	// Errno is the number of the system's error, or 0.
	Errno syscall.Errno
	// Err is the error that a callback or a context returned, or nil.
	Err error

	message string
}

// Error returns the message. It names the file, the tensor and the offset.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.message, e.Err)
	}
	return e.message
}

// Unwrap returns Err, or else Errno, or nil.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	if e.Errno != 0 {
		return e.Errno
	}
	return nil
}

func closedError(what string) *Error {
	return &Error{Status: StatusCall, Kind: "closed", Offset: -1, Err: fs.ErrClosed, message: "the " + what + " cannot be used"}
}

// takeError copies an error of C, and frees it.
func takeError(status C.tf_status, raw *C.tf_error) *Error {
	defer C.tf_error_free(raw)
	info := C.tf_error_info{size: C.sizeof_tf_error_info}
	if C.tf_error_get_info(raw, &info) != C.TF_OK {
		return &Error{Status: Status(status), Kind: "unknown", Offset: -1, message: "the library returned no cause"}
	}
	return &Error{
		Status:  Status(info.status),
		Kind:    goString(info.kind),
		Tensor:  goString(info.tensor),
		Offset:  offsetOf(info.offset),
		Errno:   syscall.Errno(info.os_error),
		message: goString(info.message),
	}
}
