// peer NAME N: what bench_core measures, with client-go's classic workqueue in one process: the same keys, the same
// order of operations, the same lines of output. Its fastest form: no name, so no metrics; keys are strings that were
// made into interface values before the clock starts. GOGC and GOMAXPROCS are Go's defaults, and garbage collection
// counts. See bench.h for the keys.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
)

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "peer: "+format+"\n", args...)
	os.Exit(1)
}

func report(name string, value float64) { fmt.Printf("%s %.2f\n", name, value) }

// Wall time, and CPU time of all threads of this process: garbage collection works on others beside the one that measures.
type clock struct{ wall, cpu time.Duration }

var start = time.Now()

func now() clock {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return clock{time.Since(start), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

func reportTimes(name string, from, to clock, n int) {
	report(name, float64(to.wall-from.wall)/float64(n))
	report(name+"/cpu", float64(to.cpu-from.cpu)/float64(n))
}

func makeKeys(n int) []interface{} {
	keys := make([]interface{}, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%02d/configmap-%08d", i%50, i)
	}
	return keys
}

func settle() {
	runtime.GC()
	debug.FreeOSMemory()
}

// Anonymous memory of this process.
func memory() float64 {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		fail("%v", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Anonymous:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib * 1024
		}
	}
	fail("no Anonymous in /proc/self/smaps_rollup")
	return 0
}

func addAll(q workqueue.Interface, keys []interface{}) {
	for _, k := range keys {
		q.Add(k)
	}
}

func runAll(q workqueue.Interface, keys []interface{}) {
	for i, k := range keys {
		got, _ := q.Get()
		if got != k {
			fail("key %d was got as %v", i, got)
		}
		q.Done(got)
	}
	if q.Len() != 0 {
		fail("%d keys are left", q.Len())
	}
}

func cycle(n int) {
	keys := makeKeys(n)
	settle()
	q := workqueue.New()
	for _, pass := range []string{"", "warm-"} {
		begin := now()
		addAll(q, keys)
		middle := now()
		runAll(q, keys)
		end := now()
		reportTimes(pass+"add", begin, middle, n)
		reportTimes(pass+"grant-done", middle, end, n)
		reportTimes(pass+"cycle", begin, end, n)
	}
}

func cycle1(n int) {
	keys := makeKeys(n)
	settle()
	q := workqueue.New()
	begin := now()
	for _, k := range keys {
		q.Add(k)
		got, _ := q.Get()
		if got != k {
			fail("%v was got for %v", got, k)
		}
		q.Done(got)
	}
	reportTimes("cycle", begin, now(), n)
}

func duplicate(n int) {
	most := 1000
	if n < most {
		most = n
	}
	keys := makeKeys(most)
	settle()
	q := workqueue.New()
	addAll(q, keys)
	begin := now()
	for i, k := 0, 0; i < n; i++ {
		q.Add(keys[k])
		if k++; k == most {
			k = 0
		}
	}
	reportTimes("add", begin, now(), n)
	runAll(q, keys)
}

func delayOf(i int) time.Duration {
	return time.Hour + time.Duration(uint64(i)*7919%1000000*3)*time.Millisecond
}

// AddAfter hands the key to another goroutine; at most 1,000 are still on their way when the last call returns.
func delay(n int) {
	keys := makeKeys(n)
	settle()
	q := workqueue.NewDelayingQueue()
	begin := now()
	for i, k := range keys {
		q.AddAfter(k, delayOf(i))
	}
	reportTimes("set", begin, now(), n)
	if q.Len() != 0 {
		fail("%d keys are ready that wait", q.Len())
	}
}

// The strings are counted, the slice that this program keeps them in is not. "bytes": as the process stands after a
// collection; "heap": what is alive in it.
func bytes(n int, fill func(keys []interface{}) interface{}) {
	keys := make([]interface{}, n)
	for i := range keys {
		keys[i] = i & 1 // touched
	}
	settle()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	empty := memory()
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%02d/configmap-%08d", i%50, i)
	}
	q := fill(keys)
	runtime.GC()
	runtime.ReadMemStats(&after)
	report("bytes", (memory()-empty)/float64(n))
	report("heap", (float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(n))
	runtime.KeepAlive(q)
	runtime.KeepAlive(keys)
}

func ready(keys []interface{}) interface{} {
	q := workqueue.New()
	addAll(q, keys)
	return q
}

func running(keys []interface{}) interface{} {
	q := workqueue.New()
	addAll(q, keys)
	for range keys {
		q.Get()
	}
	return q
}

func waiting(keys []interface{}) interface{} {
	q := workqueue.NewDelayingQueue()
	for i, k := range keys {
		q.AddAfter(k, delayOf(i))
	}
	time.Sleep(time.Second) // the last 1,000
	return q
}

func failing(keys []interface{}) interface{} {
	q := workqueue.NewRateLimitingQueue(workqueue.NewItemExponentialFailureRateLimiter(time.Hour, 1000*time.Hour))
	for _, k := range keys {
		q.AddRateLimited(k)
	}
	time.Sleep(time.Second)
	return q
}

func main() {
	if len(os.Args) != 3 {
		fail("usage: peer NAME N")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil || n < 1 {
		fail("'%s' is no number of keys", os.Args[2])
	}
	switch os.Args[1] {
	case "cycle":
		cycle(n)
	case "cycle.1":
		cycle1(n)
	case "duplicate":
		duplicate(n)
	case "delay":
		delay(n)
	case "bytes":
		bytes(n, ready)
	case "bytes.waiting":
		bytes(n, waiting)
	case "bytes.failing":
		bytes(n, failing)
	case "bytes.running":
		bytes(n, running)
	default:
		fail("no benchmark is named %s", os.Args[1])
	}
}
