// Package website is a small operator: a Website becomes a ConfigMap with its page and a Deployment that serves it.
package website

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// GroupVersion is that of Website.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Website is a page on the web.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

// WebsiteSpec says what is served, and by how many pods.
type WebsiteSpec struct {
	Page     string `json:"page"`
	Replicas int32  `json:"replicas,omitempty"`
}

// WebsiteStatus says whether all of them are ready.
type WebsiteStatus struct {
	Ready bool `json:"ready,omitempty"`
}

// WebsiteList is a list of them.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopyObject copies a Website.
func (w *Website) DeepCopyObject() runtime.Object {
	out := &Website{TypeMeta: w.TypeMeta, Spec: w.Spec, Status: w.Status}
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject copies a list.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := &WebsiteList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Website))
	}
	return out
}

// AddToScheme makes the kinds known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Reconciler keeps ConfigMap and Deployment of each Website.
type Reconciler struct {
	client.Client
}

// SetupWithManager has it run by a manager.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	r.Client = manager.GetClient()
	return ctrl.NewControllerManagedBy(manager).
		For(&Website{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}).
		Complete(r)
}

// Reconcile brings one Website to what its spec says.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	own := metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}
	page := &corev1.ConfigMap{ObjectMeta: own}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": site.Spec.Page}
		return ctrl.SetControllerReference(site, page, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	server := &appsv1.Deployment{ObjectMeta: own}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, server, func() error {
		labels := map[string]string{"website": site.Name}
		server.Spec.Replicas = &site.Spec.Replicas
		server.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		server.Spec.Template.Labels = labels
		volume := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: page.Name},
		}}
		server.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "page", VolumeSource: volume}}
		if len(server.Spec.Template.Spec.Containers) == 0 {
			server.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nginx", Image: "nginx:1.29"}}
		}
		server.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "page", MountPath: "/usr/share/nginx/html"},
		}
		return ctrl.SetControllerReference(site, server, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	ready := server.Status.ReadyReplicas == site.Spec.Replicas && server.Status.ObservedGeneration == server.Generation
	if ready == site.Status.Ready {
		return ctrl.Result{}, nil
	}
	site.Status.Ready = ready
	return ctrl.Result{}, r.Status().Update(ctx, site)
}
