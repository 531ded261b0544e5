// replica: a manager written in Go, as small as one can be: client-go's leader election on a Lease, and while it leads it reconciles
// every ConfigMap of a namespace again and again, as tests/proc/recorder.c does: with the same locks, and the same lines with the times
// of begin and end. It ends when it stops leading, as managers do.
//
//	replica -identity NAME -records DIR -others NAME,... [-lease 15s -renew 10s -retry 2s]     KUBECONFIG names the API server
//
// SIGTERM: gives the Lease back and ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var (
	identity = flag.String("identity", "replica", "holderIdentity, and the name in the records")
	records  = flag.String("records", ".", "folder of the records")
	others   = flag.String("others", "", "whose reconciles must not go on meanwhile")
	lease    = flag.Duration("lease", 15*time.Second, "leaseDuration")
	renew    = flag.Duration("renew", 10*time.Second, "renewDeadline")
	retry    = flag.Duration("retry", 2*time.Second, "retryPeriod")
)

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "replica:", err)
		os.Exit(1)
	}
}

func boottime() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 7 /* CLOCK_BOOTTIME */, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func appendLine(file, format string, args ...interface{}) {
	f, err := os.OpenFile(filepath.Join(*records, file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0666)
	die(err)
	_, err = fmt.Fprintf(f, format+"\n", args...)
	die(err)
	f.Close()
}

func open(name string) *os.File {
	f, err := os.OpenFile(filepath.Join(*records, name), os.O_RDWR|os.O_CREATE, 0666)
	die(err)
	return f
}

// What package syscall has no name for: the locks of an open file, of which others can be looked at without taking them.
const ofdGet, ofdSet = 36, 37

func reconcile(name, counter string) {
	own, key := open("side-"+*identity+".lock"), open(name+".lock")
	defer own.Close()
	defer key.Close()
	die(syscall.FcntlFlock(own.Fd(), ofdSet, &syscall.Flock_t{Type: syscall.F_RDLCK}))
	if syscall.Flock(int(key.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		appendLine("refused", "%s %s", *identity, name)
		return
	}
	for _, other := range strings.Split(*others, ",") {
		f, theirs := open("side-"+other+".lock"), syscall.Flock_t{Type: syscall.F_WRLCK}
		die(syscall.FcntlFlock(f.Fd(), ofdGet, &theirs))
		f.Close()
		if theirs.Type != syscall.F_UNLCK {
			appendLine("refused", "%s %s while %s works", *identity, name, other)
			return
		}
	}
	appendLine("timeline", "%d %s begin %s", boottime(), *identity, name)
	time.Sleep(20 * time.Millisecond)
	next := filepath.Join(*records, name+".value."+*identity)
	die(os.WriteFile(next, []byte(counter+"\n"), 0666))
	die(os.Rename(next, filepath.Join(*records, name+".value")))
	appendLine("timeline", "%d %s end %s", boottime(), *identity, name)
}

func work(ctx context.Context, client kubernetes.Interface) {
	for ctx.Err() == nil {
		list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: "recorder=yes"})
		for i := 0; err == nil && i < len(list.Items) && ctx.Err() == nil; i++ {
			reconcile(list.Items[i].Name, list.Items[i].Data["counter"])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Who gives the Lease back must have stopped working before, be it asked to end or too late to renew: client-go's ReleaseOnCancel says so.
type lock struct {
	resourcelock.Interface
	stopped func()
}

func (l lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.stopped()
	}
	return l.Interface.Update(ctx, record)
}

func main() {
	flag.Parse()
	syscall.Umask(0) // the reconcilers of the other side run as another user
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	die(err)
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	die(err)
	electing, release := context.WithCancel(context.Background())
	working, stop := context.WithCancel(context.Background())
	idle := make(chan struct{}, 1)
	idle <- struct{}{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		release()
	}()
	leaderelection.RunOrDie(electing, leaderelection.LeaderElectionConfig{
		Lock: lock{&resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "lock"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		}, func() { stop(); <-idle }},
		LeaseDuration: *lease, RenewDeadline: *renew, RetryPeriod: *retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				<-idle
				work(working, client)
				idle <- struct{}{}
			},
			OnStoppedLeading: func() {
				if electing.Err() == nil {
					fmt.Fprintln(os.Stderr, "replica: leader election lost")
					os.Exit(1)
				}
			},
		},
	})
}
