#include "jail_parts.h"
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void jail_loopback_up(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &r) < 0)
		jail_fail("loopback interface of the own network: %s", strerror(errno));
	close(s);
}

/* ---- limits ---- */

/* Launcher and init live in the user namespace too, and count. */
enum { OWN_PROCESSES = 2 };

/* RLIMIT_NPROC counts a user namespace's processes, so a jail's for itself; without one it would count all
 * that the user runs. */
static bool processes_limited(void)
{
	return jail.processes && !jail.without[PART_USER];
}

void jail_check_limits(void)
{
	const struct {
		const char *name, *unit;
		__rlimit_resource_t resource;
		uint64_t want;
	} limits[] = {
	    {"limits.cpu (seconds)", "LimitCPU=", RLIMIT_CPU, jail.cpu_s ? jail.cpu_s + 1 : 0},
	    {"limits.files", "LimitNOFILE=", RLIMIT_NOFILE, jail.files},
	    {"limits.processes", "LimitNPROC=", RLIMIT_NPROC,
	     processes_limited() ? jail.processes + OWN_PROCESSES : 0},
	    {"maxMemory", "LimitDATA=", RLIMIT_DATA, jail.data_bytes},
	};
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit l;
		if (getrlimit(limits[i].resource, &l) == 0 && limits[i].want > l.rlim_max)
			jail_fail("%s: %llu is above the worker's own hard limit %llu; lower it, or raise %s "
				  "of the unit (or ulimit -H)",
				  limits[i].name, (unsigned long long)limits[i].want,
				  (unsigned long long)l.rlim_max, limits[i].unit);
	}
}

static void limit(__rlimit_resource_t resource, uint64_t soft, uint64_t hard)
{
	struct rlimit l = {soft, hard};
	setrlimit(resource, &l);
}

void jail_child_limits(void)
{
	if (jail.cpu_s) /* SIGXCPU first: it names its reason */
		limit(RLIMIT_CPU, jail.cpu_s, jail.cpu_s + 1);
	if (jail.files)
		limit(RLIMIT_NOFILE, jail.files, jail.files);
	if (processes_limited())
		limit(RLIMIT_NPROC, jail.processes + OWN_PROCESSES, jail.processes + OWN_PROCESSES);
	if (jail.data_bytes)
		limit(RLIMIT_DATA, jail.data_bytes, jail.data_bytes);
	limit(RLIMIT_CORE, 0, 0);
	limit(RLIMIT_MSGQUEUE, 0,
	      0); /* POSIX queues outlive processes: they would carry state to the next attempt */
}

/* ---- system calls ---- */

/* A list of what is refused, not of what is allowed: any language's runtime must start, and the namespaces
 * hold without it. What is refused is what would leave state behind, reach init, which has the same uid, or
 * add much kernel to attack. A call of another architecture (int 0x80, x32) is killed: libseccomp's
 * default. */
static const char *const refused[] = {
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp", /* other processes */
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "move_mount", /* the view */
    "open_tree",
    "mount_setattr",
    "open_by_handle_at",
    "unshare",
    "setns", /* and around it */
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "kexec_load",
    "syslog",
    NULL, /* the kernel */
};

/* Answered with ENOSYS, so that libraries fall back. clone3: its flags lie in memory, where no filter can
 * look; with EPERM threads of Node and Python fail. System V IPC: its objects outlive every process. */
static const char *const absent[] = {
    "clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "shmget", "semget", "msgget", NULL,
};

static const uint64_t namespaces[] = {
    CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP,
};

/* Newer than libseccomp 2.5.4 knows: open_tree_attr (Linux 6.15). The same number on every architecture. */
enum { SYS_OPEN_TREE_ATTR = 467 };
#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif
#define LOW_32_BITS 0xffffffff

/* Same uid: without these a program changes the limits, priority or processors of init, and every later
 * attempt inherits them. */
static const struct {
	int call;
	unsigned argument;
	uint64_t value;
} on_init[] = {
    {SCMP_SYS(prlimit64), 0, 1},
    {SCMP_SYS(sched_setaffinity), 0, 1},
    {SCMP_SYS(sched_setscheduler), 0, 1},
    {SCMP_SYS(sched_setparam), 0, 1},
    {SCMP_SYS(sched_setattr), 0, 1},
    {SCMP_SYS(setpriority), 1, 1},
    {SCMP_SYS(setpriority), 0, PRIO_USER},
    {SCMP_SYS(ioprio_set), 1, 1},
    {SCMP_SYS(ioprio_set), 0, IOPRIO_WHO_USER},
};

static int rules(scmp_filter_ctx f)
{
	const uint32_t no = SCMP_ACT_ERRNO(EPERM), family = SCMP_ACT_ERRNO(EAFNOSUPPORT);
	int r = 0;
	for (const char *const *name = refused; *name; name++)
		r |= seccomp_rule_add(f, no, seccomp_syscall_resolve_name(*name), 0);
	for (const char *const *name = absent; *name; name++)
		r |= seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), seccomp_syscall_resolve_name(*name), 0);
	r |= seccomp_rule_add(f, no, SYS_OPEN_TREE_ATTR, 0);
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		r |= seccomp_rule_add(f, no, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
	/* The kernel looks at 32 bits of these arguments; a filter that compares 64 is walked around by
	 * setting bit 32. */
	r |= seccomp_rule_add(f, no, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32_BITS, TIOCSTI));
	r |= seccomp_rule_add(f, no, SCMP_SYS(ioctl), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32_BITS, TIOCLINUX));
	for (size_t i = 0; i < ARRAY_SIZE(on_init); i++)
		r |= seccomp_rule_add(
		    f, no, on_init[i].call, 1,
		    SCMP_CMP(on_init[i].argument, SCMP_CMP_MASKED_EQ, LOW_32_BITS, on_init[i].value));
	/* Only UNIX, INET, INET6 and NETLINK: vsock and others know no network namespace. The family is an
	 * int, too. */
	for (uint64_t a = 0; a < AF_NETLINK; a++)
		if (a != AF_UNIX && a != AF_INET && a != AF_INET6)
			r |= seccomp_rule_add(f, family, SCMP_SYS(socket), 1,
					      SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32_BITS, a));
	r |= seccomp_rule_add(f, family, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_NETLINK, 0));
	return r;
}

static void filter(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r = f ? rules(f) : -ENOMEM;
	if (r == 0)
		r = seccomp_load(f);
	if (r)
		jail_fail("system call filter: %s; look at SystemCallFilter= of the unit (it must allow "
			  "seccomp), or name it in "
			  "sandbox.without: [seccomp]",
			  strerror(r < 0 ? -r : EINVAL));
	seccomp_release(f);
}

/* ---- rights ---- */

static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		jail_fail("capabilities cannot be dropped: %s", strerror(errno));
}

/* Needs CAP_SETPCAP, which the first process of a user namespace has. Without one an ordinary user keeps his
 * bounding set; no new privileges makes it void. */
static void empty_bounding_set(void)
{
	if (jail.without[PART_USER] && geteuid() != 0)
		return;
	for (int c = 0; prctl(PR_CAPBSET_READ, c) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c) < 0)
			jail_fail("bounding set of capabilities: %s", strerror(errno));
}

void jail_drop_rights(void)
{
	empty_bounding_set();
	if (geteuid() != jail.uid && setresuid(jail.uid, jail.uid, jail.uid) < 0)
		jail_fail("cannot become user %s: %s", jail.user, strerror(errno));
	drop_capabilities();
	/* Same uid again: without this /proc/1/mem and /proc/1/fd would be the program's to write. Not before
	 * the uid_map is written, which of a non-dumpable process belongs to root. exec makes the program
	 * dumpable again. */
	prctl(PR_SET_DUMPABLE, 0);
	if (!jail.without[PART_SECCOMP])
		filter();
}
