package website

import (
	"context"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a test environment shows that has controllers: what comes of what the operator writes.

// needs skips a test that the environment does not ask controllers for.
func needs(t *testing.T, controllers string) {
	t.Helper()
	if !strings.Contains(os.Getenv("MUSTER_ENVTEST"), controllers) {
		t.Skipf("MUSTER_ENVTEST asks for no %s", controllers)
	}
}

func TestIsReadyWhenItsPodsAre(t *testing.T) {
	needs(t, "deployments")
	site := create(t, "ready", WebsiteSpec{Page: "hello", Replicas: 3})
	eventually(t, "a Website that is ready", func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(site), site)
		return site.Status.Ready, err
	})
}

func TestLeavesNothingBehind(t *testing.T) {
	needs(t, "gc")
	site := create(t, "going", WebsiteSpec{Page: "hello"})
	key := client.ObjectKeyFromObject(site)
	eventually(t, "the Deployment", func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, key, &appsv1.Deployment{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err := api.Delete(t.Context(), site, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}, &Website{}} {
		eventually(t, "that it is gone", func(ctx context.Context) (bool, error) {
			err := api.Get(ctx, key, object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
}
