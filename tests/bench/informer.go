// informer KUBECONFIG pods|databases keep|work: the object cache as a controller written with client-go has it: a SharedIndexInformer
// (Pods typed, the custom resource as unstructured) with the index by namespace, whose handlers add keys to a workqueue. managedFields
// are taken out before objects reach its store: this version has no transform, so the lists and watches are wrapped. GOGC and GOMAXPROCS
// are Go's defaults. keep: nobody takes the keys, as with a host that has no worker. work: one goroutine does, reads the object from
// the store and says "granted NAMESPACE NAME RESOURCEVERSION CLOCK_BOOTTIME".
//
// Says "synced" once the list is in its store and every key is in the queue; then answers what stands on its stdin: "collect" with
// "collected" after a garbage collection, "await NAMESPACE NAME RESOURCEVERSION" with "seen" once its store has the object as new.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "informer: "+format+"\n", args...)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func boottime() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 7 /* CLOCK_BOOTTIME */, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func strip(o kruntime.Object) error {
	if a, err := meta.Accessor(o); err == nil {
		a.SetManagedFields(nil)
	}
	return nil
}

// The two calls of a client, stripped.
func stripped(list func(metav1.ListOptions) (kruntime.Object, error), start func(metav1.ListOptions) (watch.Interface, error)) *cache.ListWatch {
	return &cache.ListWatch{
		ListFunc: func(o metav1.ListOptions) (kruntime.Object, error) {
			l, err := list(o)
			if err == nil {
				err = meta.EachListItem(l, strip)
			}
			return l, err
		},
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
			w, err := start(o)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { strip(e.Object); return e, true }), nil
		},
	}
}

func newInformer(kubeconfig, kind string) cache.SharedIndexInformer {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(err)
	ctx := context.Background()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	switch kind {
	case "pods":
		client, err := kubernetes.NewForConfig(config)
		check(err)
		pods := client.CoreV1().Pods("")
		return cache.NewSharedIndexInformer(stripped(
			func(o metav1.ListOptions) (kruntime.Object, error) { return pods.List(ctx, o) },
			func(o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) }), &v1.Pod{}, 0, indexers)
	case "databases":
		client, err := dynamic.NewForConfig(config)
		check(err)
		of := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "databases"})
		return cache.NewSharedIndexInformer(stripped(
			func(o metav1.ListOptions) (kruntime.Object, error) { return of.List(ctx, o) },
			func(o metav1.ListOptions) (watch.Interface, error) { return of.Watch(ctx, o) }), &unstructured.Unstructured{}, 0, indexers)
	}
	fail("'%s' is neither pods nor databases", kind)
	return nil
}

func version(store cache.Store, key string) uint64 {
	o, there, err := store.GetByKey(key)
	check(err)
	if !there {
		return 0
	}
	a, err := meta.Accessor(o)
	check(err)
	v, err := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	check(err)
	return v
}

func work(queue workqueue.Interface, store cache.Store) {
	out := bufio.NewWriter(os.Stdout)
	for {
		key, _ := queue.Get()
		v, at := version(store, key.(string)), boottime()
		namespace, name, err := cache.SplitMetaNamespaceKey(key.(string))
		check(err)
		fmt.Fprintf(out, "granted %s %s %d %d\n", namespace, name, v, at)
		check(out.Flush())
		queue.Done(key)
	}
}

func main() {
	if len(os.Args) != 4 || os.Args[3] != "keep" && os.Args[3] != "work" {
		fail("usage: informer KUBECONFIG pods|databases keep|work")
	}
	var added int64
	queue, informer := workqueue.New(), newInformer(os.Args[1], os.Args[2])
	add := func(o interface{}) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
		check(err)
		queue.Add(key)
		atomic.AddInt64(&added, 1)
	}
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o interface{}) { add(o) },
		DeleteFunc: add,
	})
	if os.Args[3] == "work" {
		go work(queue, informer.GetStore())
	}
	go informer.Run(make(chan struct{}))
	for !informer.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	for n := int64(len(informer.GetStore().ListKeys())); atomic.LoadInt64(&added) < n; {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("synced")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch w := strings.Fields(in.Text()); {
		case len(w) == 1 && w[0] == "collect":
			runtime.GC()
			debug.FreeOSMemory()
			fmt.Println("collected")
		case len(w) == 4 && w[0] == "await":
			want, err := strconv.ParseUint(w[3], 10, 64)
			check(err)
			for version(informer.GetStore(), w[1]+"/"+w[2]) < want {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("seen")
		default:
			fail("'%s' is not understood", in.Text())
		}
	}
}
