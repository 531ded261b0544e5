/* hostile FOLDER SOCKET PORT HOST PROCESSES: a program that runs in a jail and tries to get out, to look
 * where it should not, and to leave something for the next one. One line for each attempt: "held NAME (why)"
 * or "BROKEN NAME (...)". Started by jail_test.
 *
 * FOLDER was prepared: wd/ (its working directory; with kubeconfig and keys/, hidden), open/ (mode 777, shown
 * read-only, with a mount open/sub below), secret/ (not shown). SOCKET: a UNIX socket of the host, by path
 * and as an abstract name; PORT: a TCP one on 127.0.0.1; HOST: a process of the host; PROCESSES: the
 * limit. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *folder, *socket_name;
static int port, host, process_limit;
static char room[64];

static void tell(bool held, const char *what, const char *why)
{
	printf("%s %s (%s)\n", held ? "held" : "BROKEN", what, why);
	fflush(stdout);
}

/* An attempt is an expression that is negative when it was refused. */
#define ATTEMPT(what, expression)                                                                            \
	do {                                                                                                 \
		errno = 0;                                                                                   \
		long result_ = (long)(expression);                                                           \
		tell(result_ < 0, what, result_ < 0 ? strerror(errno) : "possible");                         \
	} while (0)
#define RAW(name, ...) syscall(SYS_##name, __VA_ARGS__)

static const char *in_folder(const char *rest)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, rest);
	return path;
}

static int create(const char *path)
{
	return open(path, O_CREAT | O_WRONLY, 0600);
}

static int read_some(const char *path)
{
	int fd = open(path, O_RDONLY);
	return fd < 0 ? -1 : read(fd, room, sizeof room) > 0 ? 0 : -1;
}

/* ---- what is left of an earlier attempt, or of the host's rights ---- */

static bool status_has(const char *line)
{
	char text[8192];
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, line);
}

static int mode_differs(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && (st.st_mode & 07777) == 0755 ? -1 : 0;
}

static void inherited(void)
{
	ATTEMPT("inherited descriptors", close(3));
	ATTEMPT("find a file of an earlier attempt",
		access("/tmp/fill", F_OK) < 0 ? access("/tmp/deep", F_OK) : 0);
	ATTEMPT("find a file of an earlier attempt in /dev/shm", access("/dev/shm/left", F_OK));
	ATTEMPT("find the mode that an earlier attempt gave /tmp", mode_differs("/tmp"));
	ATTEMPT("find the ACL that an earlier attempt gave /home",
		getxattr("/home", "system.posix_acl_default", NULL, 0));
	ATTEMPT("a capability, or a way to one", status_has("CapPrm:\t0000000000000000") &&
							 status_has("CapBnd:\t0000000000000000") &&
							 status_has("NoNewPrivs:\t1")
						     ? -1
						     : 0);
	ATTEMPT("blocked signals", status_has("SigBlk:\t0000000000000000") ? -1 : 0);
	ATTEMPT("the session of init", getsid(0) == getpid() ? -1 : 0);
	ATTEMPT("regain root", setuid(0));
	ATTEMPT("change groups", setgid(0));
}

/* ---- files ---- */

static long fill(const char *path)
{
	static char block[1 << 20];
	int fd = create(path);
	long n = 0;
	for (ssize_t r; n < 512 << 20 && (r = write(fd, block, sizeof block)) > 0;)
		n += r;
	close(fd);
	return n >> 20;
}

static void files(void)
{
	char path[4096];
	ATTEMPT("read a file of a folder that is not shown", read_some(in_folder("secret/kubeconfig")));
	ATTEMPT(
	    "the same through /proc/1/root",
	    (snprintf(path, sizeof path, "/proc/1/root%s", in_folder("secret/kubeconfig")), read_some(path)));
	ATTEMPT("the same through .. of the work folder", read_some("../secret/kubeconfig"));
	ATTEMPT("read a hidden file in the work folder", read_some(in_folder("wd/kubeconfig")));
	ATTEMPT("read in a hidden folder", read_some(in_folder("wd/keys/key")));
	ATTEMPT("write into a hidden folder", create(in_folder("wd/keys/x")));
	ATTEMPT("read what lies beside a shown folder below a hidden one",
		read_some(in_folder("etc/kubeconfig")));
	tell(read_some(in_folder("etc/shown/file")) == 0, "a shown folder below a hidden one is there",
	     strerror(errno));
	ATTEMPT("read /root", open("/root/.bashrc", O_RDONLY));
	ATTEMPT("write into the work folder", create(in_folder("wd/x")));
	ATTEMPT("change a mode in the work folder", chmod(in_folder("wd/hostile"), 0777));
	ATTEMPT("write into a mode 777 folder of the host", create(in_folder("open/x")));
	ATTEMPT("write into a mount below it", create(in_folder("open/sub/x")));
	ATTEMPT("write into another mode 777 file system of the host", create("/media/x"));
	snprintf(path, sizeof path, "%.*s", (int)(strchrnul(folder + 5, '/') - folder), folder);
	ATTEMPT("rename away the folder that holds the mount points", rename(path, "/tmp/away"));
	ATTEMPT("create a file in /dev", create("/dev/x"));
	ATTEMPT("make a node of the disk", mknod("/tmp/disk", S_IFBLK | 0600, makedev(254, 0)));
	ATTEMPT("write /proc/sys", open("/proc/sys/kernel/core_pattern", O_WRONLY));
	ATTEMPT("write /proc/sysrq-trigger", open("/proc/sysrq-trigger", O_WRONLY));
	ATTEMPT("write /sys", open("/sys/kernel/mm/ksm/run", O_WRONLY));
	ATTEMPT("make a control group",
		mkdir("/sys/fs/cgroup/unified/x", 0700) == 0 ? 0 : mkdir("/sys/fs/cgroup/x", 0700));
	long n = fill("/tmp/fill");
	snprintf(path, sizeof path, "%ld MiB of 64", n);
	tell(n <= 64, "fill the disk through /tmp", path);
}

/* ---- sockets ---- */

static int reach(const char *name, int abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	memcpy(a.sun_path + abstract, name, n);
	return connect(s, (struct sockaddr *)&a,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + n));
}

static int reach_tcp(const char *ip, int to)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)to)};
	int s = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, ip, &a.sin_addr);
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){1, 0}, sizeof(struct timeval));
	return connect(s, (struct sockaddr *)&a, sizeof a);
}

static int own_loopback(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(s, (struct sockaddr *)&a, len) < 0 || listen(s, 1) < 0 ||
	    getsockname(s, (struct sockaddr *)&a, &len) < 0)
		return -1;
	return reach_tcp("127.0.0.1", ntohs(a.sin_port));
}

static int take_loopback_down(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	return ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &r);
}

static void sockets(void)
{
	tell(own_loopback() == 0, "the own 127.0.0.1 works", strerror(errno));
	ATTEMPT("connect to a socket of the host in a folder that is not shown", reach(socket_name, 0));
	ATTEMPT("connect to an abstract socket of the host", reach(socket_name, 1));
	ATTEMPT("connect to the host's 127.0.0.1", reach_tcp("127.0.0.1", port));
	ATTEMPT("connect to the network", reach_tcp("192.0.2.1", 80));
	ATTEMPT("take the interface down", take_loopback_down());
	ATTEMPT("raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	ATTEMPT("packet socket", socket(AF_PACKET, SOCK_RAW, 0));
	ATTEMPT("vsock, which knows no network namespace", socket(AF_VSOCK, SOCK_STREAM, 0));
	ATTEMPT("vsock with bit 32 set", RAW(socket, AF_VSOCK | 1UL << 32, SOCK_STREAM, 0));
	ATTEMPT("AF_ALG socket", socket(AF_ALG, SOCK_SEQPACKET, 0));
}

/* ---- init and the host's processes ---- */

static int disturb_init(void)
{
	kill(1, SIGKILL);
	kill(1, SIGSTOP);
	kill(1, SIGTERM);
	kill(1, SIGSEGV);
	usleep(20000);
	return kill(1, 0) == 0 ? -1 : 0;
}

static void processes(void)
{
	struct rlimit zero = {0, 0};
	struct iovec mine = {room, 8}, theirs = {(void *)processes, 8};
	cpu_set_t cpus;
	char path[64];
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	ATTEMPT("signal a process of the host", kill(host, 0));
	ATTEMPT("disturb init by signals", disturb_init());
	ATTEMPT("ptrace init", ptrace(PTRACE_ATTACH, 1, 0, 0));
	ATTEMPT("be ptraced", ptrace(PTRACE_TRACEME, 0, 0, 0));
	ATTEMPT("process_vm_readv of init", process_vm_readv(1, &mine, 1, &theirs, 1, 0));
	ATTEMPT("/proc/1/mem", open("/proc/1/mem", O_RDWR));
	ATTEMPT("/proc/1/environ", read_some("/proc/1/environ"));
	ATTEMPT("/proc/1/fd", readlink("/proc/1/fd/3", path, sizeof path));
	ATTEMPT("/proc/1/oom_score_adj", open("/proc/1/oom_score_adj", O_WRONLY));
	ATTEMPT("pidfd_getfd of the control socket", RAW(pidfd_getfd, RAW(pidfd_open, 1, 0), 3, 0));
	ATTEMPT("limits of init", prlimit(1, RLIMIT_NPROC, &zero, NULL));
	ATTEMPT("limits of init with bit 32 set", RAW(prlimit64, 1 | 1UL << 32, RLIMIT_NPROC, &zero, NULL));
	ATTEMPT("priority of init", setpriority(PRIO_PROCESS, 1, 19));
	ATTEMPT("priority of the user's processes", setpriority(PRIO_USER, 0, 19));
	ATTEMPT("processors of init", sched_setaffinity(1, sizeof cpus, &cpus));
	ATTEMPT("scheduler of init", sched_setscheduler(1, SCHED_IDLE, &(struct sched_param){0}));
	ATTEMPT("I/O priority of init", RAW(ioprio_set, 1, 1, 3 << 13));
	ATTEMPT("more files than the limit", setrlimit(RLIMIT_NOFILE, &(struct rlimit){1 << 19, 1 << 19}));
}

/* ---- the kernel ---- */

static int call_of_32_bits(void) /* another table: another filter? */
{
#ifdef __x86_64__
	int status = 0;
	pid_t p = fork();
	if (p == 0) {
		long r;
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
		_exit(0);
	}
	waitpid(p, &status, 0);
	/* SIGSEGV: this kernel has no such entry at all (CONFIG_IA32_EMULATION, ia32_emulation=off). */
	return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV) ? -1 : 0;
#else
	return -1;
#endif
}

static int typing(unsigned long bits)
{
	RAW(ioctl, 0, TIOCSTI | bits, "x");
	return errno == EPERM ? -1 : 0; /* anything else: the kernel has looked at it */
}

static void kernel(void)
{
	struct io_uring_params ring = {0};
	struct clone_args own_user = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY};
	struct perf_event_attr event = {
	    .type = PERF_TYPE_SOFTWARE, .size = sizeof event, .exclude_kernel = 1};
	ATTEMPT("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
	ATTEMPT("remount / writable", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
	ATTEMPT("uncover what is hidden", umount2("/tmp", MNT_DETACH));
	ATTEMPT("fsopen", fsopen("tmpfs", 0));
	ATTEMPT("open_tree", open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE));
	ATTEMPT("open_tree_attr", syscall(467, AT_FDCWD, "/", OPEN_TREE_CLONE, NULL, 0));
	ATTEMPT("pivot_root", RAW(pivot_root, ".", "."));
	ATTEMPT("chroot", chroot("/tmp"));
	ATTEMPT("own user namespace by unshare", unshare(CLONE_NEWUSER));
	ATTEMPT("own mount namespace by unshare", unshare(CLONE_NEWNS));
	ATTEMPT("own user namespace by clone", RAW(clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	ATTEMPT("own user namespace by clone3", RAW(clone3, &own_user, sizeof own_user));
	ATTEMPT("setns", setns(open("/proc/self/ns/user", O_RDONLY), 0));
	ATTEMPT("io_uring", RAW(io_uring_setup, 4, &ring));
	ATTEMPT("bpf", RAW(bpf, BPF_MAP_CREATE, &map, sizeof map));
	ATTEMPT("perf_event_open", RAW(perf_event_open, &event, 0, -1, -1, 0));
	ATTEMPT("userfaultfd", RAW(userfaultfd, 1));
	ATTEMPT("keyctl", RAW(keyctl, 0, -3, 1));
	ATTEMPT("typing into the terminal", typing(0));
	ATTEMPT("typing with bit 32 set", typing(1UL << 32));
	ATTEMPT("system call of 32 bits", call_of_32_bits());
	ATTEMPT("System V memory, which outlives the attempt", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
	ATTEMPT("POSIX queue, which outlives the attempt", mq_open("/q", O_CREAT | O_RDWR, 0600, NULL));
}

/* ---- what is left for the jail to remove ---- */

/* setsid, double fork, every signal ignored, a stopped one. */
static void leave_survivors(void)
{
	char byte;
	int up[2];
	if (pipe(up) < 0)
		return;
	if (fork() != 0) {
		if (read(up[0], &byte, 1) != 1)
			tell(false, "survivors", "did not start");
		close(up[0]);
		close(up[1]);
		return;
	}
	setsid();
	if (fork() == 0) {
		for (int s = 1; s < NSIG; s++)
			signal(s, SIG_IGN);
		prctl(PR_SET_NAME, "survivor");
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		if (fork() == 0)
			raise(SIGSTOP);
		if (write(up[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	_exit(0);
}

static void leave_bomb(void)
{
	char why[64];
	int n = 0;
	for (; n < 4 * process_limit; n++) {
		pid_t p = fork();
		if (p < 0)
			break;
		if (p == 0)
			for (;;)
				if (fork() < 0)
					usleep(1000);
	}
	snprintf(why, sizeof why, "%d forks of limit %d", n, process_limit);
	tell(n <= process_limit, "fork bomb", why);
}

static void leave_files(void)
{
	/* version 2; user, group, other rwx: a default ACL in the kernel's own form */
	static const uint32_t acl[] = {2, 7u << 16 | 0x01, ~0u, 7u << 16 | 0x04, ~0u, 7u << 16 | 0x20, ~0u};
	tell(setxattr("/home", "system.posix_acl_default", acl, sizeof acl, 0) == 0,
	     "an ACL is left for the next attempt", strerror(errno));
	create("/dev/shm/left");
	mkdir("/run/many", 0700);
	for (int i = 0; i < 3000; i++) {
		char path[64];
		snprintf(path, sizeof path, "/run/many/%d", i);
		close(create(path));
	}
	mkdir("/tmp/deep", 0700);
	for (int n = 0; n < 500 && chdir(n ? "d" : "/tmp/deep") == 0; n++) {
		mkdir("d", 0700);
		if (n > 1)
			chmod("..", 0);
	}
	chmod("/tmp", 0);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	folder = argv[1];
	socket_name = argv[2];
	port = atoi(argv[3]);
	host = atoi(argv[4]);
	process_limit = atoi(argv[5]);
	inherited();
	files();
	sockets();
	processes();
	kernel();
	leave_survivors();
	leave_bomb();
	leave_files();
	return 0;
}
