// Copyright Contributors to the Open Cluster Management project

package faultproxy

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// startProxied starts a Proxy in front of a server that counts requests with the token.
func startProxied(t *testing.T) (proxy *Proxy, client *http.Client, served *atomic.Int32) {
	t.Helper()
	served = &atomic.Int32{}
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		served.Add(1)
	}))
	t.Cleanup(upstream.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})
	proxy, err := Start(upstream.URL, ca)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client, err = rest.HTTPClientFor(&rest.Config{Host: proxy.URL, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{CAData: proxy.CA}})
	if err != nil {
		t.Fatal(err)
	}
	return proxy, client, served
}

// request posts to the Proxy and returns the status code, or 0 when there is no answer.
func request(t *testing.T, p *Proxy, client *http.Client) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/api", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestForward(t *testing.T) {
	proxy, client, served := startProxied(t)
	if code := request(t, proxy, client); code != http.StatusOK || served.Load() != 1 {
		t.Errorf("code %d, %d requests served, want 200 and 1", code, served.Load())
	}
}

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  Fault
		code   int
		served int32
	}{
		"refused":    {refuse(http.StatusServiceUnavailable), http.StatusServiceUnavailable, 0},
		"reset":      {reset, 0, 0},
		"lostAnswer": {LoseAnswer, 0, 1},
		"no share":   {Random(1, 0), http.StatusOK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, client, served := startProxied(t)
			proxy.Inject(tc.fault)
			if code := request(t, proxy, client); code != tc.code || served.Load() != tc.served {
				t.Errorf("code %d, %d requests served, want %d and %d", code, served.Load(), tc.code, tc.served)
			}
			proxy.Inject(nil)
			if code := request(t, proxy, client); code != http.StatusOK {
				t.Errorf("code %d after the fault", code)
			}
		})
	}
}

// TestRandom holds that every request of a share of 1 has a fault, and that a seed repeats its faults.
func TestRandom(t *testing.T) {
	proxy, client, _ := startProxied(t)
	draw := func() (codes [30]int) {
		proxy.Inject(Random(7, 1))
		for i := range codes {
			codes[i] = request(t, proxy, client)
		}
		return codes
	}
	first, second := draw(), draw()
	if first != second {
		t.Errorf("the same seed gives %v and %v", first, second)
	}
	kinds := map[int]bool{}
	for _, code := range first {
		kinds[code] = true
	}
	for _, code := range []int{0, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		if !kinds[code] {
			t.Errorf("code %d is never drawn: %v", code, first)
		}
	}
}
