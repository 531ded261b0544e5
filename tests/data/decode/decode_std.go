package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
)

// As apimachinery's util/json did it before sigs.k8s.io/json: integers of 64 bits stay, all else is a double.
func decode(text []byte, into *map[string]interface{}) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return strconv.ErrSyntax
	}
	for key, value := range *into {
		n, is := value.(json.Number)
		if !is {
			continue
		}
		if i, err := n.Int64(); err == nil {
			(*into)[key] = i
		} else if f, err := n.Float64(); err == nil {
			(*into)[key] = f
		} else {
			return err
		}
	}
	return nil
}
