package website

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// api is a client of the test environment.
var api client.Client

// TestMain starts one test environment, with the programs of KUBEBUILDER_ASSETS, and the operator beside it.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	begun := time.Now()
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"config"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		return 1, err
	}
	fmt.Printf("test environment after %v\n", time.Since(begun).Round(time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		cancel()
		if stopped := environment.Stop(); err == nil {
			err = stopped
		}
	}()
	if err := AddToScheme(scheme.Scheme); err != nil {
		return 1, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return 1, err
	}
	if err := (&Reconciler{}).SetupWithManager(manager); err != nil {
		return 1, err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			panic(err)
		}
	}()
	if api, err = client.New(config, client.Options{}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// eventually waits until it is so.
func eventually(t *testing.T, what string, so func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, so); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// create makes a Website that is removed when the test ends.
func create(t *testing.T, name string, spec WebsiteSpec) *Website {
	t.Helper()
	site := &Website{Spec: spec}
	site.Name, site.Namespace = name, "default"
	if err := api.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(api.Delete(context.Background(), site)); err != nil {
			t.Error(err)
		}
	})
	return site
}
