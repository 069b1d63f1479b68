// Copyright Contributors to the Open Cluster Management project

// Command hello is the program of a user's Service: the program answers each request with TARGET and the name of the pod. With query
// sleep=500ms the answer takes that long.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if pause, err := time.ParseDuration(r.URL.Query().Get("sleep")); err == nil {
			time.Sleep(pause)
		}
		fmt.Fprintf(w, "hello %s from %s\n", os.Getenv("TARGET"), os.Getenv("HOSTNAME"))
	})
	server := &http.Server{Addr: ":" + os.Getenv("PORT"), ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
