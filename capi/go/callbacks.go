package tensorfile

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"io"
	"runtime/cgo"
	"sync"
	"syscall"
	"unsafe"
)

// Progress is called as bytes are read or written: bytes so far, of total. An error ends the call, which returns an
// [*Error] that wraps it. Calls come one at a time, but may come from another thread.
type Progress func(bytes, total uint64) error

// calls keeps the failure of a callback until the call of C returns.
type calls struct {
	mutex   sync.Mutex
	active  int
	failure *failure
}

type failure struct {
	err      error
	panicked bool
	value    any
}

// run calls a function of C, and returns its error. It raises the panic of a callback again.
func run(callbacks []*calls, call func(raw **C.tf_error) C.tf_status) error {
	for _, each := range callbacks {
		each.enter()
	}
	var raw *C.tf_error
	status := call(&raw)
	var cause *failure
	for _, each := range callbacks {
		if found := each.leave(status); cause == nil {
			cause = found
		}
	}
	var err *Error
	if status != C.TF_OK {
		err = takeError(status, raw)
	}
	if cause != nil && cause.panicked {
		panic(cause.value)
	}
	if err == nil {
		return nil
	}
	if cause != nil {
		err.Err = cause.err
	}
	return err
}

func (c *calls) enter() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.active == 0 {
		// Several threads of the last call may have failed, and only one failure was its cause.
		c.failure = nil
	}
	c.active++
}

// leave returns the failure that is the cause of a status, or nil.
func (c *calls) leave(status C.tf_status) *failure {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.active--
	found := c.failure
	// Other errors do not come from a callback. A panic must not get lost, even if the library went on.
	panicked := found != nil && found.panicked && c.active == 0
	if status != C.TF_IO && status != C.TF_CANCELLED && !panicked {
		return nil
	}
	c.failure = nil
	return found
}

// guard calls a callback and returns 0, or a number of errno. No panic leaves it.
func (c *calls) guard(callback func() error) (errno C.int) {
	failed := failure{panicked: true}
	defer func() {
		if failed.panicked {
			failed.value = recover()
		} else if failed.err == nil {
			return
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if c.failure == nil || (failed.panicked && !c.failure.panicked) {
			c.failure = &failed
		}
		errno = C.int(syscall.EIO)
		var number syscall.Errno
		if errors.As(failed.err, &number) && number != 0 {
			errno = C.int(number)
		}
	}()
	failed.err = callback()
	failed.panicked = false
	return 0
}

// progress is what a handle for tfgoProgress stands for.
type progress struct {
	calls *calls
	call  Progress
	// ctx may be nil. Its owner sets it before each call.
	ctx context.Context
}

// source is what a handle for tfgoReadAt stands for.
type source struct {
	calls  *calls
	reader io.ReaderAt
}

// sink is what a handle for tfgoWrite stands for.
type sink struct {
	calls   *calls
	writer  io.Writer
	written int64
}

//export tfgoProgress
func tfgoProgress(handle C.uintptr_t, bytes, total C.uint64_t) C.int {
	p := cgo.Handle(handle).Value().(*progress)
	return p.calls.guard(func() error {
		if p.ctx != nil && p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if p.call == nil {
			return nil
		}
		return p.call(uint64(bytes), uint64(total))
	})
}

//export tfgoReadAt
func tfgoReadAt(handle C.uintptr_t, offset C.uint64_t, bytes unsafe.Pointer, length C.size_t) C.int {
	s := cgo.Handle(handle).Value().(*source)
	return s.calls.guard(func() error {
		if length == 0 {
			return nil
		}
		read, err := s.reader.ReadAt(unsafe.Slice((*byte)(bytes), int(length)), int64(offset))
		switch {
		case read == int(length):
			return nil
		case err == nil || err == io.EOF:
			return io.ErrUnexpectedEOF
		}
		return err
	})
}

//export tfgoWrite
func tfgoWrite(handle C.uintptr_t, bytes unsafe.Pointer, length C.size_t) C.int {
	s := cgo.Handle(handle).Value().(*sink)
	return s.calls.guard(func() error {
		if length == 0 {
			return nil
		}
		written, err := s.writer.Write(unsafe.Slice((*byte)(bytes), int(length)))
		s.written += int64(written)
		if err == nil && written != int(length) {
			err = io.ErrShortWrite
		}
		return err
	})
}

//export tfgoRelease
func tfgoRelease(handle C.uintptr_t) { cgo.Handle(handle).Delete() }
