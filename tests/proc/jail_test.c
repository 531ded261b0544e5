/* The jail from inside: nothing gets out, nothing is left for the next program, what is shown is there,
 * limits hold, and what cannot be set up is said. As root, then once more as an ordinary user. What happens
 * when its processes die: jail_death_test.c. */
#include "jail_run.h"
#include "program.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 64 };
static const char *folder; /* of this run */

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define IN(rest)  in_folder(rest)

static const char *in_folder(const char *rest)
{
	static char *kept[256];
	static size_t n;
	if (n == ARRAY_SIZE(kept))
		abort();
	return kept[n++] = xasprintf("%s/%s", folder, rest);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	close(fd);
}

static void make(const char *path, mode_t mode)
{
	CHECK(mkdir(path, 0700) == 0 && chmod(path, mode) == 0);
}

/* ---- escapes ---- */

static void listen_on(const char *path, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(a.sun_path + abstract, path, n);
	mode_t before = umask(0);
	CHECK(bind(s, (struct sockaddr *)&a,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + n)) == 0 &&
	      listen(s, 9) == 0);
	umask(before);
}

static int listen_tcp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(s, (struct sockaddr *)&a, len) == 0 && listen(s, 9) == 0 &&
	      getsockname(s, (struct sockaddr *)&a, &len) == 0);
	return ntohs(a.sin_port);
}

/* What hostile.c describes. */
static void prepare(void)
{
	static const char *const folders[] = {"wd", "wd/keys", "secret", "etc", "etc/shown", "open"};
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		make(IN(folders[i]), strcmp(folders[i], "open") == 0 ? 0777 : 0755);
	put(IN("wd/kubeconfig"), "secret", 0644);
	put(IN("wd/keys/key"), "secret", 0644);
	put(IN("secret/kubeconfig"), "secret", 0644);
	put(IN("etc/kubeconfig"), "secret", 0644);
	put(IN("etc/shown/file"), "shown", 0644);
	if (getuid() != 0)
		return;
	make(IN("open/sub"), 0777);
	CHECK(mount("none", IN("open/sub"), "tmpfs", 0, "mode=777") == 0);
	CHECK(mount("none", "/media", "tmpfs", 0, "mode=777") == 0);
}

static void report(const char *output)
{
	size_t held = 0;
	for (const char *line = output; *line; line = strchrnul(line, '\n'), line += *line == '\n') {
		CHECK_MSG(strncmp(line, "held ", 5) == 0, "as %u: %.*s", getuid(),
			  (int)(strchrnul(line, '\n') - line), line);
		held += strncmp(line, "held ", 5) == 0;
	}
	CHECK_MSG(held >= 80, "only %zu attempts were made", held);
}

static void escapes(void)
{
	char port[16], host[16], processes[16];
	prepare();
	const char *socket_path = IN("sock");
	listen_on(socket_path, false);
	listen_on(socket_path, true);
	snprintf(port, sizeof port, "%d", listen_tcp());
	snprintf(host, sizeof host, "%d", getpid());
	snprintf(processes, sizeof processes, "%d", PROCESSES);
	_cleanup_(free_ptr) char *program =
	    program_beside("hostile"); /* the user's copy, when the user runs this */
	CHECK(check_wait(check_start(NULL, ARGV("cp", program, IN("wd"))), 60) == 0);

	struct jail *j = jail_up(&(struct jail_options){
	    .work = IN("wd"),
	    .read_only = ARGV(IN("open"), IN("etc/shown")),
	    .hidden = ARGV(IN("wd/kubeconfig"), IN("wd/keys"), IN("etc"), IN("absent")),
	    .processes = PROCESSES,
	    .files = 1024});
	for (int attempt = 0; j && attempt < 2; attempt++) { /* does the second see the first? */
		struct run run = jail_run(j, ARGV("./hostile", folder, socket_path, port, host, processes));
		CHECK(run.started && run.status == 0);
		report(run.output);
		CHECK_MSG(run.left >= PROCESSES / 2 && has(run.text, "survivor("), "left %u: %s", run.left,
			  run.text);
		CHECK_MSG(processes_with(socket_path) == 0, "%zu of them are on the machine",
			  processes_with(socket_path));
		free(run.output);
	}
	jail_free(j);
}

/* ---- programs ---- */

static void check_output(char *output, const char *wanted)
{
	CHECK_MSG(has(output, wanted), "\"%s\" is not in: %s", wanted, output);
	free(output);
}

static void languages(void)
{
	static const struct jail_options limited = {
	    .processes = PROCESSES, .files = 1024, .data_bytes = 256 << 20};
	check_output(jail_shell(NULL, "bash -c 'diff <(echo a) <(echo a) && echo $(echo {} | jq -c .)same'"),
		     "{}same");
	check_output(
	    jail_shell(&limited,
		       "python3 -c 'import threading, subprocess, multiprocessing as m, tempfile\n"
		       "t = threading.Thread(target=lambda: print(\"thread\")); t.start(); t.join()\n"
		       "print(m.Pool(2).map(abs, [-7])); tempfile.mkstemp(); "
		       "print(subprocess.check_output(\"id\"))'"),
	    "uid=");
	check_output(jail_shell(&limited, "python3 -c 'bytearray(400 << 20)'"), "MemoryError");
	if (access("/usr/bin/node", X_OK) == 0 || access("/usr/local/bin/node", X_OK) == 0)
		check_output(jail_shell(&limited,
					"node -e 'const w = new (require(\"worker_threads\").Worker)"
					"(\"console.log(`worker`)\", {eval: true});"
					"w.on(\"exit\", () => require(\"child_process\").execFile(\"id\", "
					"(e, o) => console.log(o)))'"),
			     "uid=");
	else
		printf("node is not installed: not tried\n");
}

static void starting(void)
{
	struct jail *j = jail_up(&(struct jail_options){.work = IN("wd")});
	struct err err = {{0}};
	if (!j)
		return;
	struct run run = jail_run(j, ARGV("nosuch"));
	CHECK(!run.started && run.error == ENOENT);
	free(run.output);
	run = jail_run(j, ARGV("./kubeconfig"));
	CHECK(!run.started && run.error == EACCES);
	free(run.output);
	_cleanup_(free_ptr) char *large = xmalloc(200000);
	memset(large, 'x', 199999);
	large[199999] = 0;
	CHECK(jail_spawn(j, ARGV("echo", large), ARGV("A=b"), (int[]){0, 1, 2}, &err) == -E2BIG &&
	      has(err.text, "131072"));
	run = jail_run(j, ARGV("sh", "-c", "pwd; exit 3"));
	CHECK(run.started && WEXITSTATUS(run.status) == 3 && strcmp(run.output, IN("wd\n")) == 0);
	free(run.output);
	jail_free(j);
}

/* A coprocess: one program, many requests. */
static void long_lived(void)
{
	struct jail *j = jail_up(&(struct jail_options){.processes = PROCESSES});
	struct jail_event e;
	int in[2], out[2];
	char line[16];
	if (!j || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return;
	jail_begin(j, ARGV("sh", "-c", "while read -r x; do echo $x$x; done"), (int[]){in[0], out[1], 2});
	CHECK(jail_await(j, 30, &e) && e.type == JAIL_EVENT_STARTED && e.error == 0 && jail_busy(j));
	for (int i = 0; i < 100; i++) {
		CHECK(write(in[1], "ab\n", 3) == 3);
		CHECK(read(out[0], line, sizeof line) == 5 && memcmp(line, "abab\n", 5) == 0);
	}
	CHECK(jail_next(j, &e) == 0);
	CHECK(jail_spawn(j, ARGV("true"), ARGV("A=b"), (int[]){0, 1, 2}, NULL) == -EBUSY);
	CHECK(jail_kill(j, SIGTERM) == 0);
	CHECK(jail_await(j, 30, &e) && e.type == JAIL_EVENT_ENDED && WIFSIGNALED(e.status) &&
	      WTERMSIG(e.status) == SIGTERM);
	CHECK(!jail_busy(j));
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
	jail_free(j);
}

/* Some of them cannot be told from inside by what is refused: the filter refuses it before. */
static void own_namespaces(void)
{
	static const char *const names[] = {"user", "pid", "mnt", "ipc", "net"};
	char *output = jail_shell(NULL, "readlink /proc/self/ns/*");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64], host[64] = "", *name = xasprintf("%s:[", names[i]);
		snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
		CHECK(readlink(path, host, sizeof host - 1) > 0);
		CHECK_MSG(has(output, name) && !has(output, host), "%s namespace: %s, ours is %s", names[i],
			  output, host);
		free(name);
	}
	free(output);
}

/* ---- limits ---- */

static void limits(void)
{
	char *o = jail_shell(
	    &(struct jail_options){.cpu_s = 7, .files = 99, .processes = 50, .data_bytes = 100 << 20},
	    "bash -c 'ulimit -St; ulimit -n; ulimit -d; ulimit -c; ulimit -u'");
	check_output(o, "7\n99\n102400\n0\n52\n"); /* launcher and init are counted, and allowed for */
	o = jail_shell(&(struct jail_options){.cpu_s = 1}, "sh -c 'while :; do :; done'; echo status $?");
	check_output(o, "status 152"); /* 128 + SIGXCPU */
	struct rlimit before, low = {200, 200};
	getrlimit(RLIMIT_NOFILE, &before);
	if (getuid() != 0) {
		CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0); /* for good: it is the last user of it */
		const char *text = jail_refusal(&(struct jail_options){.files = 1000});
		CHECK_MSG(has(text, "limits.files: 1000") && has(text, "200") && has(text, "LimitNOFILE="),
			  "%s", text);
	}
}

/* Two jails of one user, which have together more processes than one may have. */
static void limit_is_a_jails_own(void)
{
	static const struct jail_options o = {.processes = PROCESSES};
	struct jail *a = jail_up(&o), *b = jail_up(&o);
	int out[2];
	char c;
	if (!a || !b || pipe2(out, O_CLOEXEC) < 0)
		return;
	jail_begin(a, ARGV("bash", "-c", "for i in {1..50}; do sleep 600 & done; echo; wait"),
		   (int[]){0, out[1], 2});
	CHECK(read(out[0], &c, 1) == 1);
	struct run run = jail_run(b, ARGV("bash", "-c", "for i in {1..50}; do sleep 0.1 & done; wait"));
	CHECK_MSG(run.status == 0 && !*run.output, "%s", run.output);
	free(run.output);
	close(out[0]);
	close(out[1]);
	jail_free(a);
	jail_free(b);
}

static void deadline_ends_a_fork_bomb(void)
{
	struct jail *j = jail_up(&(struct jail_options){.processes = PROCESSES});
	struct jail_event e;
	int out[2];
	char c;
	if (!j || pipe2(out, O_CLOEXEC) < 0)
		return;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	jail_begin(j, ARGV("bash", "-c", "trap '' TERM; b() { b | b & b; }; b"), (int[]){null, null, out[1]});
	CHECK(read(out[0], &c, 1) == 1); /* "fork: retry": the limit is reached */
	CHECK(jail_await(j, 30, &e) && e.type == JAIL_EVENT_STARTED);
	int64_t start = clock_boottime_ns();
	CHECK(jail_kill(j, SIGKILL) == 0);
	CHECK(jail_await(j, 30, &e) && e.type == JAIL_EVENT_ENDED && WTERMSIG(e.status) == SIGKILL);
	printf("as %u: a fork bomb (%u left after its first process) is gone %.1f ms after the deadline\n",
	       getuid(), e.left, (double)(clock_boottime_ns() - start) / NS_PER_MS);
	struct run run = jail_run(j, ARGV("echo", "next"));
	CHECK(run.status == 0 && strcmp(run.output, "next\n") == 0);
	free(run.output);
	close(null);
	close(out[0]);
	close(out[1]);
	jail_free(j);
}

/* ---- what is shown, and what is refused ---- */

static void shown(void)
{
	make(IN("rw"), 0777);
	struct jail_options o = {
	    .work = IN("wd"), .read_write = ARGV(IN("rw")), .read_only = ARGV(IN("rw/below"), IN("wd"))};
	make(IN("rw/below"), 0777);
	char text[2000];
	snprintf(text, sizeof text, "echo x >%s/rw/f; echo y >%s/rw/below/f; echo z >/tmp/z && cat /tmp/z",
		 folder, folder);
	char *output = jail_shell(&o, text);
	CHECK_MSG(has(output, "Read-only file system") && has(output, "z\n"), "%s", output);
	CHECK(access(IN("rw/f"), F_OK) == 0 && access(IN("rw/below/f"), F_OK) < 0);
	free(output);

	/* A link below a folder that is replaced: the path works as it was given. */
	CHECK(symlink(IN("etc/shown"), IN("link")) == 0);
	snprintf(text, sizeof text, "cat %s/link/file", folder);
	check_output(jail_shell(&(struct jail_options){.work = IN("link")}, text), "shown");
}

static void refused(void)
{
	char user[32];
	make(IN("closed"), 0700);
	make(IN("closed/inner"), 0755);
	if (getuid() != 0)
		chmod(IN("closed"), 0);
	snprintf(user, sizeof user, "user %s", getuid() == 0 ? "" : "12345");
	const char *text = jail_refusal(&(struct jail_options){.work = IN("closed")});
	CHECK_MSG(has(text, IN("closed: not accessible to")) && has(text, user), "%s", text);
	text = jail_refusal(&(struct jail_options){.read_only = ARGV(IN("closed/inner"))});
	CHECK_MSG(has(text, IN("closed/inner: not")) && has(text, IN("closed cannot be entered")), "%s",
		  text);
	text = jail_refusal(&(struct jail_options){.read_write = ARGV(IN("wd"))});
	CHECK_MSG(getuid() != 0 || (has(text, IN("wd: not")) && has(text, "cannot be written")), "%s", text);
	text = jail_refusal(&(struct jail_options){.read_only = ARGV(IN("absent"))});
	CHECK_MSG(has(text, "No such file"), "%s", text);
	text = jail_refusal(&(struct jail_options){.work = IN("wd"), .hidden = ARGV(IN("wd"))});
	CHECK_MSG(has(text, IN("wd: is to be shown")), "%s", text);
	text = jail_refusal(&(struct jail_options){.read_only = ARGV("/var")});
	CHECK_MSG(has(text, "would cover the jail's own /var/tmp"), "%s", text);
	text = jail_refusal(&(struct jail_options){.without = ARGV("everything")});
	CHECK_MSG(has(text, "unknown; one of user pid"), "%s", text);
	text = jail_refusal(&(struct jail_options){.without = ARGV("pid")});
	CHECK_MSG(has(text, "pid needs proc"), "%s", text);
	text = jail_refusal(&(struct jail_options){.without = ARGV("user")});
	CHECK_MSG(getuid() == 0 ? !*text : has(text, "only root"), "%s", text);
}

/* Parts that are left out on purpose; whatever they are, what a program leaves running ends with it. */
static void without(void)
{
	static const char *const sets[][7] = {
	    {"seccomp"},
	    {"network"},
	    {"ipc"},
	    {"proc"},
	    {"pid", "proc"},
	    {"mount", "proc"},
	    {"user", "pid", "mount", "network", "ipc", "proc"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		const char *marker = IN("without");
		struct jail *j = jail_up(&(struct jail_options){.without = sets[i], .processes = PROCESSES});
		if (!j)
			continue;
		struct run run = jail_run(
		    j, ARGV("bash", "-c",
			    "(exec setsid sh -c 'sleep 600 & trap : TERM INT; sleep 600; :' $0) & id -u",
			    marker));
		char uid[32];
		snprintf(uid, sizeof uid, "%u\n", getuid());
		CHECK_MSG(run.status == 0 && run.left >= 1 &&
			      (getuid() == 0 || strncmp(run.output, uid, strlen(uid)) == 0),
			  "without %s: left %u, %s", sets[i][0], run.left, run.output);
		CHECK_MSG(processes_with(marker) == 0, "without %s: %zu are left", sets[i][0],
			  processes_with(marker));
		free(run.output);
		jail_free(j);
	}
}

/* Root can make the other parts without a user namespace; the program is an ordinary user all the same. */
static void without_user_namespace(void)
{
	char *output =
	    jail_shell(&(struct jail_options){.work = IN("wd"),
					      .read_only = ARGV(IN("etc/shown")),
					      .hidden = ARGV(IN("etc")),
					      .without = ARGV("user")},
		       "id -u; grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs' /proc/self/status | tr -d '\t\n'; echo;"
		       "for d in /home /root /run /tmp /var/tmp /dev/shm; do echo x >$d/f || echo $d; done; "
		       "cat ../etc/shown/file;"
		       "cat /proc/1/environ; echo x >f; echo x >../etc/shown/f");
	CHECK_MSG(strncmp(output, "0\n", 2) != 0, "%s", output);
	CHECK_MSG(
	    has(output,
		"CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1\nshown"),
	    "%s", output);
	CHECK_MSG(has(output, "/proc/1/environ: Permission denied") &&
		      has(output, "cannot create f: Read-only"),
		  "%s", output);
	free(output);
}

/* A file of the own folders that somebody outside holds on to: the jail says so and is replaced, for the next
 * program shall not find it. */
static void held_from_outside(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = (size_t)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "jail-test-%d", getpid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(s, (struct sockaddr *)&a, len) == 0); /* never received: the file waits in the socket */
	struct jail *j = jail_up(&(struct jail_options){.network_host = true});
	char text[400];
	snprintf(
	    text, sizeof text,
	    "import socket, os\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect('\\0%s')\n"
	    "socket.send_fds(s, [b'x'], [os.open('/tmp/f', os.O_CREAT | os.O_RDWR)])",
	    a.sun_path + 1);
	if (!j)
		return;
	struct run run = jail_run(j, ARGV("python3", "-c", text));
	CHECK_MSG(run.gone && has(run.text, "1 inodes"), "%d %s %s", run.gone, run.text, run.output);
	free(run.output);
	jail_free(j);
	close(s);
}

#ifdef RECONCILED_FAULTS
/* What the jail is for: without it a helper in a session of its own outlives the attempt. */
static void bare_group(void)
{
	const char *marker = IN("bare");
	setenv("RECONCILED_FAULT", "bare-group", 1);
	/* No limit of processes: without a user namespace it would count all that this user runs. */
	struct jail *j = jail_up(&(struct jail_options){.work = "/"});
	unsetenv("RECONCILED_FAULT");
	if (!j)
		return;
	struct run run = jail_run(
	    j, ARGV("bash", "-c",
		    "read -r p < <(exec setsid sh -c 'echo $$; exec sleep 601 >&-' $0); echo $p", marker));
	int pid = atoi(run.output);
	CHECK_MSG(run.status == 0 && pid > 0 && kill(pid, 0) == 0, "the helper is gone: %s", run.output);
	if (pid > 0)
		kill(pid, SIGKILL);
	free(run.output);
	jail_free(j);
}
#endif

/* ---- mounts that the test makes first: in a mount namespace of its own, by root ---- */

static char *shell(const char *script, const char *mode)
{
	const char *log = IN("shell");
	unlink(log);
	check_wait(check_start(log, ARGV("unshare", "-m", "sh", "-c", script, own_copy(), mode, folder)), 60);
	return check_read(log);
}

/* Run by the above: says what jail_start() says, or what a program prints. */
static int probe(const char *mode)
{
	struct jail_options o = {.network_host = strcmp(mode, "resolv") == 0};
	const char *refusal = jail_refusal(&o);
	char *output = *refusal ? NULL : jail_shell(&o, "cat /etc/resolv.conf");
	printf("%s\n", output ? output : refusal);
	free(output);
	return 0;
}

static void mounts(void)
{
	static const char as_user[] =
	    "exec setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps=-all \"$0\" \"$1\"";
	for (int user = 0; user < 2; user++) {
		char script[1000];
		const char *run = user ? as_user : "exec \"$0\" \"$1\"";
		snprintf(script, sizeof script, "mount --bind /proc/sys /proc/sys && %s", run);
		char *o = shell(script, "probe");
		CHECK_MSG(has(o, "own /proc refused to user") && has(o, "covered by a mount: /proc/sys.") &&
			      has(o, "ProtectKernelTunables="),
			  "%s", o);
		free(o);
		snprintf(script, sizeof script, "mount -t tmpfs none /proc/sys/fs/binfmt_misc && %s", run);
		o = shell(script, "probe");
		CHECK_MSG(!has(o, "refused"), "%s", o);
		free(o);
		snprintf(script, sizeof script,
			 "cp -a /etc $2/etc$1%d && mount --bind $2/etc$1%d /etc && mount -t tmpfs none /run "
			 "&& mkdir /run/r && chmod 755 /run /run/r && "
			 "echo nameserver 192.0.2.9 >/run/r/stub && umount /etc/resolv.conf 2>/dev/null; ln "
			 "-sf /run/r/stub /etc/resolv.conf && %s",
			 user, user, run);
		check_output(shell(script, "resolv"), "192.0.2.9");
	}
}

/* Somebody's chroot may have a whole /proc of its own; the kernel would then let the jail have one, whatever covers ours. */
static void other_procs_away(void)
{
	char line[4096], at[4096];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, " - proc ") && sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 &&
		    strcmp(at, "/proc") != 0)
			umount2(at, MNT_DETACH);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "probe") == 0 || strcmp(argv[1], "resolv") == 0))
		return probe(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_DUMPABLE, 1);
	folder = check_folder();
	CHECK(chmod(folder, 0755) == 0);
	if (getuid() == 0) { /* our mounts are nobody else's */
		CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		other_procs_away();
	}
	escapes();
	languages();
	starting();
	long_lived();
	own_namespaces();
	limit_is_a_jails_own();
	deadline_ends_a_fork_bomb();
	shown();
	refused();
	without();
	held_from_outside();
#ifdef RECONCILED_FAULTS
	bare_group();
#endif
	if (getuid() == 0) {
		without_user_namespace();
		mounts();
		CHECK(again_as_user("again"));
		umount(IN("open/sub"));
	}
	limits();
	return check_result();
}
