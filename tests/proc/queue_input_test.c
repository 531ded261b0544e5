/* What strangers, broken peers and damaged files do to reconciled-queue: each is refused or made anew with a message that says
 * which, and the broker serves its own as before. See queue_rig.h. */
#include "queue_rig.h"
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 10000, SPARE_FILES = 200 };

#define A_LINE_EVERY (10 * NS_PER_S) /* about connections that are turned away, whatever they do */

/* The lines of the log that are about connections: those of one kind are rare. */
static void lines_are_rare(int64_t since)
{
	struct {
		char text[120];
		size_t n;
	} kinds[16] = {0};
	_cleanup_(free_ptr) char *log = log_text();
	size_t most = 1 + (size_t)((clock_boottime_ns() - since) / A_LINE_EVERY);
	for (char *line = log, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		char text[120];
		/* time, level, program, then the words before the first NAME=VALUE */
		if (sscanf(line, "%*s %*s %*s %119[^=\n]", text) != 1 || !strstr(text, "connection"))
			continue;
		char *last = strrchr(text, ' ');
		if (last)
			*last = '\0';
		size_t k = 0;
		while (k < ARRAY_SIZE(kinds) - 1 && kinds[k].n && strcmp(kinds[k].text, text) != 0)
			k++;
		memcpy(kinds[k].text, text, sizeof(text));
		kinds[k].n++;
	}
	CHECK_MSG(kinds[0].n, "nothing is said about the connections");
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		CHECK_MSG(kinds[k].n <= most, "%zu times \"%s\", at most %zu", kinds[k].n, kinds[k].text,
			  most);
}

static int connect_raw(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(a.sun_path, socket_path, MIN(strlen(socket_path), sizeof(a.sun_path) - 1));
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* One key goes all the way: the broker does what it is there for. */
static void it_works(const char *name)
{
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	CHECK(add(name));
	_cleanup_(free_ptr) char *key = xasprintf("shop/%s", name);
	EXPECT_GRANT(&h, key);
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_end(&h);
}

/* ---- peers ---- */

/* As another user: connected, and closed without a word. */
static int stranger(const char *socket)
{
	char c;
	snprintf(socket_path, sizeof(socket_path), "%s", socket);
	if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
		return 3;
	int fd = connect_raw();
	if (fd < 0)
		return 4;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = 1;
	for (int i = 0; i < 100 && n > 0 && poll(&p, 1, 10000) == 1;
	     i++) /* the transport's greeting may come first */
		n = read(fd, &c, 1);
	return n <= 0 ? 0 : 5;
}

static void another_user_is_turned_away(void)
{
	if (geteuid() != 0) {
		printf("left out, because it needs root: another user\n");
		return;
	}
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	CHECK(n > 0);
	self[MAX(n, (ssize_t)0)] = '\0';
	/* The folder keeps strangers out; here it does not. */
	CHECK(chmod(check_folder(), 0711) == 0 && chmod(run_dir, 0711) == 0 && chmod(socket_path, 0666) == 0);
	int status = check_wait(check_start(NULL, (const char *[]){self, "stranger", socket_path, NULL}), 30);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
	CHECK_MSG(WAIT_FOR(SOON, log_has("uid=65534")), "the log does not say who it was");
	CHECK(chmod(run_dir, 0700) == 0 && chmod(socket_path, 0600) == 0 && chmod(check_folder(), 0700) == 0);
	it_works("after-a-stranger");
}

static void another_version_is_refused_with_both(void)
{
	static const uint32_t versions[] = {0, WIRE_VERSION - 1, WIRE_VERSION + 1, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		char theirs[40], ours[40];
		CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_HELLO,
						   .hello = {.version = versions[i],
							     .role = WIRE_ROLE_WATCHER,
							     .pid = (uint32_t)getpid()}}));
		CHECK(answer.type == WIRE_TYPE_REFUSED && answer.refused.code == WIRE_REFUSAL_VERSION);
		snprintf(theirs, sizeof(theirs), "version %u of", versions[i]);
		snprintf(ours, sizeof(ours), "the broker version %u", WIRE_VERSION);
		struct span says = answer.type == WIRE_TYPE_REFUSED ? answer.refused.message : span_of("");
		CHECK(memmem(says.at, says.len, theirs, strlen(theirs)) &&
		      memmem(says.at, says.len, ours, strlen(ours)));
		CHECK(!add("from-another-version") && answer.type == WIRE_TYPE_REFUSED &&
		      answer.refused.code == WIRE_REFUSAL_NO_HELLO);
	}
	CHECK(watcher_hello());
}

/* ---- keys ---- */

static bool refused(const char *field)
{
	return answer.type == WIRE_TYPE_REFUSED && answer.refused.code == WIRE_REFUSAL_MALFORMED &&
	       memmem(answer.refused.message.at, answer.refused.message.len, field, strlen(field));
}

static void names_that_no_object_can_have_are_refused(void)
{
	static const struct {
		struct span namespace, name;
		const char *field;
	} bad[] = {
#define SPAN(text) {text, sizeof(text) - 1}
	    {SPAN("shop"), SPAN(""), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN("\xff\xfe"), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN("cut\xc3"), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN("a\0b"), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN("a/b"), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN("line\nbreak"), "ADD.keys[1].name"},
	    {SPAN("shop"), SPAN(".."), "ADD.keys[1].name"},
	    {SPAN("\xc0\xaf"), SPAN("a"), "ADD.keys[1].namespace"},
	    {SPAN("a/b"), SPAN("a"), "ADD.keys[1].namespace"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct wire_add_key keys[] = {{.namespace = span_of("shop"), .name = span_of("good")},
						    {.namespace = bad[i].namespace, .name = bad[i].name}};
		CHECK(
		    call(watcher, &(struct wire){.type = WIRE_TYPE_ADD,
						 .add = {.controller = span_of("web"), .keys = {keys, 2}}}));
		CHECK_MSG(refused(bad[i].field), "%zu is not refused with %s", i, bad[i].field);
	}
	CHECK_MSG(state_of("good") == SHM_STATE_NONE, "a part of a refused message was taken");
}

/* An ADD whose name has so many bytes, past what our own encoder lets through. */
static bool add_name_of(size_t bytes)
{
	char name[NAME_MAX_LEN + 1];
	memset(name, 'n', NAME_MAX_LEN);
	name[NAME_MAX_LEN] = '\0';
	struct wire_add_key key = {.namespace = span_of("shop"), .name = span_of(name)};
	_cleanup_(buf_done) struct buf out = {0}, longer = {0}, in = {0};
	struct err err = {0};
	CHECK(wire_encode(&(struct wire){.type = WIRE_TYPE_ADD,
					 .add = {.controller = span_of("web"), .keys = {&key, 1}}},
			  &out, &err) == 0);
	char *at = memmem(out.data, out.len, name, NAME_MAX_LEN); /* behind d9 fd: a text of 253 bytes */
	const char head[] = {(char)0xda, (char)(bytes >> 8), (char)(bytes & 0xff)};
	buf_add(&longer, out.data, (size_t)(at - 2 - out.data));
	buf_add(&longer, head, sizeof(head));
	for (size_t i = 0; i < bytes; i++)
		buf_putc(&longer, 'n');
	buf_add(&longer, at + NAME_MAX_LEN, out.len - (size_t)(at - out.data) - NAME_MAX_LEN);
	wire_done(&answer);
	answer = (struct wire){0};
	return transport_call(watcher, buf_span(&longer), 10000, &in, &err) == 0 &&
	       wire_decode(buf_span(&in), &answer, &err) == 0;
}

static void keys_of_any_length(void)
{
	char namespace[NAMESPACE_MAX_LEN + 1], name[NAME_MAX_LEN + 1];
	memset(namespace, 's', NAMESPACE_MAX_LEN);
	memset(name, 'n', NAME_MAX_LEN);
	namespace[NAMESPACE_MAX_LEN] = name[NAME_MAX_LEN] = '\0';
	struct wire_add_key key = {.namespace = span_of(namespace), .name = span_of(name)}; /* 316 bytes */
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	CHECK(call(watcher, &(struct wire){.type = WIRE_TYPE_ADD,
					   .add = {.controller = span_of("web"), .keys = {&key, 1}}}) &&
	      answer.type == WIRE_TYPE_ADD_ACK && answer.add_ack.accepted == 1);
	_cleanup_(free_ptr) char *want = xasprintf("%s/%s", namespace, name);
	EXPECT_GRANT(&h, want);
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	host_end(&h);
	static const size_t lengths[] = {NAME_MAX_LEN + 1, 10000, 65535};
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		CHECK_MSG(add_name_of(lengths[i]) && refused("keys[0].name"),
			  "a name of %zu bytes is not refused", lengths[i]);
}

static void priorities_and_delays_at_their_limits(void)
{
	static const struct {
		int64_t priority;
		int32_t kept;
	} cases[] = {{INT64_MAX, 1000000}, {1000001, 1000000}, {INT64_MIN, -1000000}, {-1000001, -1000000}};
	struct host h = host_start("web", "web.1");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct wire_add_key key = {
		    .namespace = span_of("shop"), .name = span_of("limit"), .priority = cases[i].priority};
		struct queue_key k;
		CHECK(
		    call(watcher, &(struct wire){.type = WIRE_TYPE_ADD,
						 .add = {.controller = span_of("web"), .keys = {&key, 1}}}) &&
		    answer.type == WIRE_TYPE_ADD_ACK);
		CHECK_MSG(key_of("limit", &k) && k.priority == cases[i].kept, "%zu: %d", i, k.priority);
		host_tell_it(&h, "poll");
		EXPECT_GRANT(&h, "shop/limit");
		host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
		EXPECT(&h, "DONE_ACK 0");
	}
	static const unsigned outcomes[] = {WIRE_OUTCOME_OK, WIRE_OUTCOME_TRANSIENT, WIRE_OUTCOME_THROTTLED,
					    WIRE_OUTCOME_NOT_READY};
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		struct queue_key k;
		CHECK(add("later"));
		host_tell_it(&h, "poll");
		EXPECT_GRANT(&h, "shop/later");
		host_tell_it(&h, "done %llu %llu %u %lld 1", h.slot, h.generation, outcomes[i],
			     (long long)INT64_MAX);
		EXPECT(&h, "DONE_ACK 0");
		CHECK_MSG(key_of("later", &k) && k.state == SHM_STATE_WAITING &&
			      k.ready_at > clock_boottime_ns(),
			  "outcome %u: %s", outcomes[i], shm_state_name(state_of("later")));
		CHECK(add_key("web", "later", false, WIRE_CAUSE_OPERATOR) &&
		      state_of("later") == SHM_STATE_READY);
		host_tell_it(&h, "poll");
		EXPECT_GRANT(&h, "shop/later");
		host_tell_it(&h, "done %llu %llu 0 %lld 1", h.slot, h.generation, (long long)INT64_MIN);
		EXPECT(&h, "DONE_ACK 0");
		CHECK(state_of("later") == SHM_STATE_NONE);
	}
	host_end(&h);
}

/* ---- ten thousand connections ---- */

static void many_connections_keep_nobody_out_for_long(int64_t started)
{
	struct rlimit files;
	CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
	rlim_t before = files.rlim_cur;
	files.rlim_cur = MIN(files.rlim_max, (rlim_t)CONNECTIONS + SPARE_FILES);
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	size_t most = MIN((size_t)files.rlim_cur - SPARE_FILES, (size_t)CONNECTIONS), n = 0;
	if (most < CONNECTIONS)
		printf("only %zu connections: more descriptors are not allowed here\n", most);
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	int *fds = xcalloc(most, sizeof(*fds));
	while (n < most && (fds[n] = connect_raw()) >= 0)
		n++;
	CHECK_MSG(n == most, "%zu of %zu connections: %s", n, most, strerror(errno));
	/* Who was there is served. */
	CHECK(add("among-thousands"));
	EXPECT_GRANT(&h, "shop/among-thousands");
	host_tell_it(&h, "done %llu %llu 0 -1 1", h.slot, h.generation);
	EXPECT(&h, "DONE_ACK 0");
	CHECK_MSG(waitpid(broker, NULL, WNOHANG) == 0, "the broker ended");
	while (n)
		close(fds[--n]);
	free(fds);
	files.rlim_cur = before;
	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	host_end(&h);
	it_works("after-thousands");
	lines_are_rare(started);
}

/* A unit that ends with 78 stays down: that is for files that are wrong, not for those that cannot be read at this moment. */
static void too_few_descriptors_are_no_wrong_configuration(void)
{
	broker_kill();
	for (int most = 4; most < 16; most++) {
		_cleanup_(free_ptr) char *command =
		    xasprintf("ulimit -n %d; exec timeout -s KILL 1 reconciled-queue --config-dir \"$0\" "
			      "--runtime-dir \"$1\" --region-dir \"$2\"",
			      most);
		_cleanup_(free_ptr) char *log = xasprintf("%s/few.log", check_folder());
		int status = check_wait(
		    check_start(log, (const char *[]){"sh", "-c", command, conf_dir, run_dir, shm_dir, NULL}),
		    30);
		_cleanup_(free_ptr) char *text = check_read(log);
		CHECK_MSG(!WIFEXITED(status) || WEXITSTATUS(status) != 78, "%d descriptors: status %x: %s",
			  most, (unsigned)status, text);
	}
	broker_start();
	CHECK(watcher_hello());
}

/* ---- the region's file ---- */

static char *region_path(void)
{
	return xasprintf("%s/" SHM_QUEUE_FILE, shm_dir);
}

static void made_anew_after(const char *what, const char *says)
{
	broker_start();
	CHECK_MSG(log_has(says), "%s: the log does not say \"%s\"", what, says);
	CHECK_MSG(log_has("every key is enqueued again"), "%s: it was not made anew", what);
	CHECK_MSG(watcher_hello() && answer.hello_ack.want_all.len == 2, "%s: the keys are not asked for",
		  what);
	it_works("after-a-new-region");
}

static void a_file_that_was_cut_before_the_start(void)
{
	static const struct {
		off_t length;
		const char *says;
	} cuts[] = {{100, "shorter than a header"},
		    {REGION_PAGE, "its header is damaged (size)"},
		    {3 * SHM_BLOCK, "its header is damaged (size)"}};
	_cleanup_(free_ptr) char *path = region_path();
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		broker_kill();
		CHECK(truncate(path, cuts[i].length) == 0);
		made_anew_after("a cut file", cuts[i].says);
	}
}

static void bytes_of_another(const char *what, off_t at, const void *bytes, size_t n, const char *says)
{
	_cleanup_(free_ptr) char *path = region_path();
	broker_kill();
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && pwrite(fd, bytes, n, at) == (ssize_t)n);
	close(fd);
	made_anew_after(what, says);
}

static void a_file_of_another_version_or_boot(void)
{
	struct region_header h;
	_cleanup_(free_ptr) char *path = region_path();
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h));
	close(fd);
	uint32_t version = h.layout_version + 1;
	bytes_of_another("another version", offsetof(struct region_header, layout_version), &version,
			 sizeof(version), "it has the layout of another version");
	uint8_t boot[16];
	memcpy(boot, h.boot_id, sizeof(boot));
	boot[0] ^= 1;
	bytes_of_another("another boot", offsetof(struct region_header, boot_id), boot, sizeof(boot),
			 "it is from before the host's last boot");
	uint64_t magic = 1;
	bytes_of_another("another magic", 0, &magic, sizeof(magic), "it has no valid magic number");
	bytes_of_another("a wrong bit in the directory", SHM_DIRECTORY_AT + 1, "\x01", 1,
			 "the directory is damaged");
}

/* A start that fails, with these words in its log. */
static void does_not_start(const char *what, const char *says)
{
	_cleanup_(free_ptr) char *log = xasprintf("%s/fails.log", check_folder());
	int status = check_wait(
	    check_start(log, (const char *[]){"reconciled-queue", "--config-dir", conf_dir, "--runtime-dir",
					      run_dir, "--region-dir", shm_dir, NULL}),
	    30);
	_cleanup_(free_ptr) char *text = check_read(log);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1 && strstr(text, says), "%s: status %x: %s",
		  what, (unsigned)status, text);
}

static bool make_folder(const char *path)
{
	return mkdir(path, 0700) == 0;
}
static bool make_fifo(const char *path)
{
	return mkfifo(path, 0600) == 0;
}
static bool make_link(const char *path)
{
	return symlink("/dev/null", path) == 0;
}

/* Nobody waits for what is no file, and nobody follows a link. */
static void what_is_no_file_in_the_place_of_one(void)
{
	static const struct {
		const char *name;
		bool (*make)(const char *path);
	} kinds[] = {{"a folder", make_folder}, {"a FIFO", make_fifo}, {"a link", make_link}};
	_cleanup_(free_ptr) char *region = region_path(), *hosts = xasprintf("%s/queue.hosts", run_dir),
				 *next = xasprintf("%s.new", hosts);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct queue_reader *q;
		struct err err = {0};
		broker_kill();
		CHECK(unlink(region) == 0 && kinds[i].make(region));
		does_not_start(kinds[i].name, "is not a regular file: remove it");
		CHECK_MSG(queue_open(shm_dir, &q, &err) < 0 && strstr(err.text, "is not a regular file"),
			  "%s: '%s'", kinds[i].name, err.text);
		unlink(next); /* the broker may have been killed while it wrote it */
		CHECK(remove(region) == 0 && unlink(hosts) == 0 && kinds[i].make(hosts) &&
		      kinds[i].make(next));
		broker_start();
		CHECK(watcher_hello());
		CHECK(remove(next) == 0 && remove(hosts) == 0);
		it_works("after-no-file");
	}
	broker_kill();
	CHECK(unlink(socket_path) == 0 && make_folder(socket_path));
	does_not_start("a folder", "what is there is no socket: remove it");
	CHECK(rmdir(socket_path) == 0);
	broker_start();
	CHECK(watcher_hello());
	it_works("after-no-socket");
}

/* Cut under it: it ends with a message, and the next one is no loop. */
static void a_file_that_is_cut_while_it_is_in_use(void)
{
	static const off_t lengths[] = {0, SHM_BLOCK};
	_cleanup_(free_ptr) char *path = region_path();
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		CHECK(truncate(path, lengths[i]) == 0);
		/* Whatever it touches next; at the latest it looks by itself. */
		_cleanup_(buf_done) struct buf out = {0};
		struct err err = {0};
		struct wire_add_key key = {.namespace = span_of("shop"), .name = span_of("touch")};
		uint32_t request;
		CHECK(wire_encode(&(struct wire){.type = WIRE_TYPE_ADD,
						 .add = {.controller = span_of("web"), .keys = {&key, 1}}},
				  &out, &err) == 0);
		if (transport_send(watcher, buf_span(&out), &request) < 0)
			printf("it ended before it was asked\n");
		int status = check_wait(broker, SOON);
		CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", (unsigned)status);
		CHECK_MSG(log_has("while it is in use"), "the log does not say what was wrong");
		broker_start();
		CHECK(WAIT_FOR(SOON, log_has("the queue begins empty")));
		CHECK(watcher_hello() && answer.hello_ack.want_all.len == 2);
		it_works("after-a-cut");
	}
}

/* ---- in a mount namespace of our own ---- */

/* /proc/PID is covered, as hidepid= does it: that is no proof that the process has ended. */
static void a_process_that_proc_hides(void)
{
	broker_kill();
	broker_start();
	CHECK(watcher_hello());
	char folder[40];
	struct host h = host_start("web", "web.1");
	host_tell_it(&h, "poll");
	CHECK(add("hidden"));
	EXPECT_GRANT(&h, "shop/hidden");
	for (int jail = 0; jail < 2; jail++) {
		snprintf(folder, sizeof(folder), "/proc/%d", (int)(jail ? h.jail : h.pid));
		CHECK(mount("tmpfs", folder, "tmpfs", 0, NULL) == 0);
		/* Its lease is not given to another one. */
		broker_kill();
		does_not_start("a hidden process", "/proc hides it");
		CHECK(umount(folder) == 0);
		broker_start();
		CHECK(watcher_hello() && state_of("hidden") == SHM_STATE_RUNNING);
	}
	host_end(&h);
	CHECK(WAIT_FOR(SOON, state_of("hidden") == SHM_STATE_READY));
	struct host other = host_start_as("web", digest_of("web"), "web.2", RIG_JAIL);
	snprintf(folder, sizeof(folder), "/proc/%d", (int)other.jail);
	CHECK(mount("tmpfs", folder, "tmpfs", 0, NULL) == 0);
	host_tell_it(&other, "hello");
	EXPECT(&other, "REFUSED malformed cannot watch process");
	CHECK(status_has("/proc hides it"));
	CHECK(umount(folder) == 0);
	host_tell_it(&other, "hello");
	EXPECT(&other, "ACK");
	CHECK(!status_has("/proc hides it"));
	host_tell_it(&other, "poll");
	EXPECT_GRANT(&other, "shop/hidden");
	host_tell_it(&other, "done %llu %llu 0 -1 1", other.slot, other.generation);
	EXPECT(&other, "DONE_ACK 0");
	host_end(&other);
}

static void a_file_system_without_room(void)
{
	broker_kill();
	CHECK(mount("tmpfs", shm_dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0700") == 0);
	does_not_start("a full tmpfs", "budgets.queue");
	CHECK(umount(shm_dir) == 0);
	/* Room at the start, and none later: another file takes it. */
	CHECK(mount("tmpfs", shm_dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=9m,mode=0700") == 0);
	broker_start();
	CHECK(watcher_hello());
	_cleanup_(free_ptr) char *fill = xasprintf("%s/fill", shm_dir);
	int fd = open(fill, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (off_t at = 0; posix_fallocate(fd, at, 65536) == 0; at += 65536)
		;
	uint32_t accepted = 1;
	char name[200];
	for (unsigned i = 0; i < 50000 && accepted; i++) {
		snprintf(name, sizeof(name), "a-name-that-needs-a-cell-of-text-beside-its-slot-%0100u", i);
		if (!add(name))
			accepted = answer.type == WIRE_TYPE_ADD_ACK ? answer.add_ack.accepted : 1;
	}
	CHECK_MSG(accepted == 0, "a full file system refuses nothing");
	CHECK(WAIT_FOR(SOON, log_has("the region is full")));
	CHECK_MSG(waitpid(broker, NULL, WNOHANG) == 0, "the broker ended");
	close(fd);
	CHECK(unlink(fill) == 0);
	CHECK_MSG(WAIT_FOR(SOON, add("room-again")), "there is room again, and it is not taken");
	broker_kill();
	broker_start();
	CHECK(WAIT_FOR(SOON, log_has("recovered")) && state_of("room-again") == SHM_STATE_READY);
}

#define CONTROLLER(name, kind)                                                                               \
	"apiVersion: reconciled.dev/v1alpha1\nkind: Controller\nmetadata: {name: " name "}\nspec:\n"         \
	"  for: {apiVersion: v1, kind: " kind "}\n  reconciler: {exec: {command: [/bin/true]}}\n"            \
	"  reconciliationTimeout: 300s\n"

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "stranger") == 0)
		return stranger(argv[2]);
	queue_rig_init(argc, argv);
	setenv("RECONCILED_TEST_WRITE_TIMEOUT_MS", "1000", 1);
	rig_file("reconciled.yaml", "budgets: {queue: 8Mi}\n");
	rig_file("web.yaml", CONTROLLER("web", "ConfigMap"));
	rig_file("slow.yaml", CONTROLLER("slow", "Secret"));
	int64_t started = clock_boottime_ns();
	broker_start();
	struct err err = {0};
	CHECK_MSG(transport_dial(socket_path, &watcher, &err) == 0, "%s", err.text);
	CHECK(watcher_hello());
	another_user_is_turned_away();
	another_version_is_refused_with_both();
	names_that_no_object_can_have_are_refused();
	keys_of_any_length();
	priorities_and_delays_at_their_limits();
	many_connections_keep_nobody_out_for_long(started);
	too_few_descriptors_are_no_wrong_configuration();
	a_file_that_was_cut_before_the_start();
	a_file_of_another_version_or_boot();
	what_is_no_file_in_the_place_of_one();
	a_file_that_is_cut_while_it_is_in_use();
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
		a_process_that_proc_hides();
		a_file_system_without_room();
	} else {
		printf("left out, because it needs root and a mount namespace: /proc, a full tmpfs\n");
	}
	int rc = check_result();
	fflush(stdout);
	exit(rc);
}
