package tensorfile_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"tensorfile"
)

func Example() {
	folder, err := os.MkdirTemp("", "tensorfile")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")

	writer := tensorfile.NewWriter()
	if err := tensorfile.Add(writer, "weight", []float32{1, 2, 3, 4, 5, 6}, 2, 3); err != nil {
		log.Fatal(err)
	}
	writer.SetMetadata("author", "me")
	if err := writer.Save(path); err != nil {
		log.Fatal(err)
	}

	file, err := tensorfile.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	weight, err := file.Find("weight")
	if err != nil {
		log.Fatal(err)
	}
	defer weight.Close()
	fmt.Println(file.Format(), weight.Name(), weight.DType(), weight.Shape())

	// The elements in the file, without a copy. They are valid until weight.Close.
	view, err := tensorfile.ViewAll[float32](weight)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(view)

	// The second row as float64.
	row, err := tensorfile.ReadSlice[float64](weight, tensorfile.Range{Start: 1, End: 2}, tensorfile.Range{Start: 0, End: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row)

	// Output:
	// safetensors weight f32 [2 3]
	// [1 2 3 4 5 6]
	// [4 5 6]
}
