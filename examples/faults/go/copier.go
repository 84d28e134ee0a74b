// Package copier keeps a copy of each ConfigMap with the label copy=yes: NAME-copy, with the same data.
package copier

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const namespace = "default"

// Run works until the context ends.
func Run(ctx context.Context, api kubernetes.Interface) {
	labelled := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "copy=yes" })
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(namespace), labelled)
	sources := factory.Core().V1().ConfigMaps()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Second)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	add := func(object any) { queue.Add(object.(*corev1.ConfigMap).Name) }
	sources.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, changed any) { add(changed) },
	})
	factory.Start(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		name, ended := queue.Get()
		if ended {
			return
		}
		source, err := sources.Lister().ConfigMaps(namespace).Get(name)
		if err == nil {
			err = reconcile(ctx, api.CoreV1().ConfigMaps(namespace), source)
		}
		if err == nil || apierrors.IsNotFound(err) {
			queue.Forget(name)
		} else {
			queue.AddRateLimited(name)
		}
		queue.Done(name)
	}
}

func reconcile(ctx context.Context, api corev1client.ConfigMapInterface, source *corev1.ConfigMap) error {
	name := source.Name + "-copy"
	copied, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		copied = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: source.Data}
		_, err = api.Create(ctx, copied, metav1.CreateOptions{})
		return err
	}
	if err != nil || maps.Equal(copied.Data, source.Data) {
		return err
	}
	copied.Data = source.Data
	_, err = api.Update(ctx, copied, metav1.UpdateOptions{})
	return err
}
