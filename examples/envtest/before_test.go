package website

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What any test environment can show: what the operator writes.

func TestWritesPageAndDeployment(t *testing.T) {
	site := create(t, "pages", WebsiteSpec{Page: "hello", Replicas: 2})
	key := client.ObjectKeyFromObject(site)
	server := &appsv1.Deployment{}
	eventually(t, "the Deployment", func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, key, server)
		return err == nil, client.IgnoreNotFound(err)
	})
	page := &corev1.ConfigMap{}
	if err := api.Get(t.Context(), key, page); err != nil {
		t.Fatal(err)
	}
	if page.Data["index.html"] != "hello" || *server.Spec.Replicas != 2 {
		t.Fatalf("found %v and %v", page.Data, *server.Spec.Replicas)
	}
	// Nothing is collected there, so that a suite can only look at the reference by which it would be.
	for _, object := range []client.Object{page, server} {
		if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != site.UID {
			t.Fatalf("%T: found the owner %v", object, owner)
		}
	}
}

func TestRefusesAnEmptyPage(t *testing.T) {
	site := &Website{Spec: WebsiteSpec{}}
	site.Name, site.Namespace = "empty", "default"
	if err := api.Create(t.Context(), site); !apierrors.IsInvalid(err) {
		t.Fatalf("found %v, expected a refusal by the schema", err)
	}
}
