// Copyright Contributors to the Open Cluster Management project

// Command sink receives CloudEvents over HTTP, and answers GET with one line for each event: type and ID of the event, in the order of
// arrival.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// record has the events that have arrived.
type record struct {
	mu     sync.Mutex
	events []string
}

func (r *record) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Method == http.MethodPost {
		r.events = append(r.events, request.Header.Get("Ce-Type")+" "+request.Header.Get("Ce-Id"))
		w.WriteHeader(http.StatusAccepted)
		return
	}
	for _, event := range r.events {
		fmt.Fprintln(w, event)
	}
}

func main() {
	server := &http.Server{Addr: ":8080", Handler: &record{}, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
