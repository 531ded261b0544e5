package main

import k8s "sigs.k8s.io/json"

func decode(text []byte, into *map[string]interface{}) error {
	return k8s.UnmarshalCaseSensitivePreserveInts(text, into)
}
