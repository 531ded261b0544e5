/* What common/transport.h does with peers that do not keep to its frames, do not read, or come by the thousand. They are bare
 * sockets here: the protocol is the one of common/transport_private.h. */
#include "check.h"
#include "transport.h"
#include "wire.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096];
static const char greeting[8] = "reconq\0\1";

static bool wait_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, timeout_ms) > 0;
}

static int closed; /* GONE with a reason that expect() passed over */

/* The next event of a type, soon; requests on the way get no answer, others are passed over. */
static struct transport_event expect(struct transport_server *s, enum transport_event_type type)
{
	struct transport_event e;
	int64_t end = clock_boottime_ns() + SOON * NS_PER_S;
	while (clock_boottime_ns() < end) {
		enum transport_event_type t = transport_server_next(s, &e);
		if (t == type)
			return e;
		closed += t == TRANSPORT_GONE && e.why;
		if (t == TRANSPORT_REQUEST)
			transport_drop(s, e.token);
		if (t == TRANSPORT_NOTHING)
			wait_readable(transport_server_fd(s), 100);
	}
	CHECK_MSG(false, "waited in vain for event %d", type);
	exit(check_result());
}

static struct transport_server *listen_at(const char *name, char **ret_path)
{
	struct transport_server *s = NULL;
	struct err err = {0};
	*ret_path = xasprintf("%s/%s", check_folder(), name);
	CHECK_MSG(transport_listen(*ret_path, &s, &err) == 0, "listen: %s", err.text);
	if (!s)
		exit(check_result());
	return s;
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strncpy(a.sun_path, path, sizeof a.sun_path - 1);
	return a;
}

static int raw_connect(const char *path)
{
	struct sockaddr_un a = address_of(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_MSG(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect: %s",
		  strerror(errno));
	return fd;
}

static bool put(int fd, const void *bytes, size_t n)
{
	return send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool get(int fd, void *bytes, size_t n)
{
	return wait_readable(fd, SOON * 1000) && recv(fd, bytes, n, MSG_WAITALL) == (ssize_t)n;
}

static void put_header(char header[8], uint32_t length, uint32_t id)
{
	const uint32_t words[2] = {htonl(length), htonl(id)};
	memcpy(header, words, sizeof words);
}

/* A connection that has greeted and was greeted. */
static int raw_meet(struct transport_server *s, const char *path, uint32_t *ret_pipe)
{
	char answer[8];
	int fd = raw_connect(path);
	CHECK(put(fd, greeting, sizeof greeting));
	struct transport_event e = expect(s, TRANSPORT_CONNECTED);
	CHECK(get(fd, answer, sizeof answer) && memcmp(answer, greeting, sizeof answer) == 0);
	*ret_pipe = e.peer.pipe;
	return fd;
}

static void test_byte_by_byte(void)
{
	char *path, message[8 + 300], answer[sizeof message];
	struct transport_server *s = listen_at("bytes.sock", &path);
	int fd = raw_connect(path);
	put_header(message, 300, 7);
	memset(message + 8, 'x', 300);
	struct transport_event e;
	for (size_t i = 0; i < sizeof greeting; i++) {
		CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
		CHECK(put(fd, greeting + i, 1));
	}
	expect(s, TRANSPORT_CONNECTED);
	CHECK(get(fd, answer, 8));
	for (size_t i = 0; i < sizeof message; i++) {
		CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
		CHECK(put(fd, message + i, 1));
	}
	e = expect(s, TRANSPORT_REQUEST);
	CHECK(e.bytes.len == 300 && memcmp(e.bytes.at, message + 8, 300) == 0);
	CHECK(transport_answer(s, e.token, e.bytes) == 0);
	CHECK(get(fd, answer, sizeof answer) && memcmp(answer, message, sizeof answer) == 0);
	/* Two and a half in one piece. */
	char three[3 * sizeof message];
	for (size_t i = 0; i < 3; i++)
		memcpy(three + i * sizeof message, message, sizeof message);
	CHECK(put(fd, three, sizeof three - 150));
	for (int i = 0; i < 2; i++) {
		e = expect(s, TRANSPORT_REQUEST);
		CHECK(e.bytes.len == 300 && memcmp(e.bytes.at, message + 8, 300) == 0);
		transport_drop(s, e.token);
		CHECK(get(fd, answer, 8) && memcmp(answer, "\0\0\0\0\0\0\0\7", 8) == 0);
	}
	CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
	CHECK(put(fd, three, 150));
	e = expect(s, TRANSPORT_REQUEST);
	CHECK(e.bytes.len == 300 && e.bytes.at[299] == message[149]);
	close(fd);
	transport_server_free(s);
	free(path);
}

static void test_cut_in_a_frame(void)
{
	char *path, header[8];
	struct transport_server *s = listen_at("cut.sock", &path);
	for (size_t sent = 1; sent < 40; sent++) {
		uint32_t pipe;
		int fd = raw_meet(s, path, &pipe);
		char message[40] = {0};
		put_header(header, 100, 1);
		memcpy(message, header, sizeof header);
		CHECK(put(fd, message, sent));
		close(fd);
		struct transport_event e;
		enum transport_event_type t;
		while ((t = transport_server_next(s, &e)) == TRANSPORT_NOTHING)
			CHECK(wait_readable(transport_server_fd(s), SOON * 1000));
		CHECK_MSG(t == TRANSPORT_GONE && e.peer.pipe == pipe && !e.why, "after %zu bytes: event %d",
			  sent, t);
	}
	transport_server_free(s);
	free(path);
}

/* What ends a connection, and what is said of it. */
static void test_malformed(void)
{
	static const struct {
		uint32_t length;
		const char *why;
	} rows[] = {{0xffffffff, "a message of 4294967295 bytes: at most 8388608"},
		    {WIRE_MAX_BYTES + 1, "a message of 8388609 bytes"},
		    {0, "an empty message"}};
	char *path, header[8];
	struct transport_server *s = listen_at("malformed.sock", &path);
	uint32_t pipe, other_pipe;
	int other = raw_meet(s, path, &other_pipe);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) { /* in one piece, and in two */
		int fd = raw_meet(s, path, &pipe);
		put_header(header, rows[i / 2].length, 1);
		struct transport_event e;
		if (i % 2) {
			CHECK(put(fd, header, 5));
			CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
			CHECK(put(fd, header + 5, 3));
		} else {
			CHECK(put(fd, header, 8));
		}
		e = expect(s, TRANSPORT_GONE);
		CHECK_MSG(e.peer.pipe == pipe && e.why && strstr(e.why, rows[i / 2].why), "it said: %s",
			  e.why);
		CHECK(wait_readable(fd, SOON * 1000) && read(fd, header, 1) == 0);
		close(fd);
	}
	/* Nobody else was touched. */
	put_header(header, 1, 9);
	CHECK(put(other, header, 8) && put(other, "x", 1));
	struct transport_event e = expect(s, TRANSPORT_REQUEST);
	CHECK(e.peer.pipe == other_pipe && span_is(e.bytes, "x"));
	close(other);
	transport_server_free(s);
	free(path);
}

static void test_greetings(void)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *why;
	} rows[] = {{"\0SP\0\0\x31\0\0", 8, "does not speak"}, /* nng's own */
		    {"GET / HTTP/1.1\r\n\r\n", 18, "does not speak"},
		    {"reconq\0\2", 8, "as version 2 does, this program as version 1"},
		    {"reconq\0\1more", 12, "before it was greeted"}};
	char *path;
	struct transport_server *s = listen_at("greetings.sock", &path);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = raw_connect(path);
		CHECK(put(fd, rows[i].bytes, rows[i].n));
		struct transport_event e = expect(s, TRANSPORT_REFUSED);
		CHECK_MSG(e.refused == 1 && e.peer.pid == getpid() && strstr(e.why, rows[i].why),
			  "it said: %s", e.why);
		char byte;
		CHECK(wait_readable(fd, SOON * 1000) && read(fd, &byte, 1) <= 0);
		close(fd);
	}
	transport_server_free(s);
	free(path);
}

static void test_too_many_requests(void)
{
	char *path, message[9];
	struct transport_server *s = listen_at("requests.sock", &path);
	uint32_t pipe;
	int fd = raw_meet(s, path, &pipe);
	put_header(message, 1, 1);
	message[8] = 'x';
	for (int i = 0; i <= TRANSPORT_IN_FLIGHT_MAX; i++)
		CHECK(put(fd, message, sizeof message));
	void *tokens[TRANSPORT_IN_FLIGHT_MAX];
	for (int i = 0; i < TRANSPORT_IN_FLIGHT_MAX; i++)
		tokens[i] = expect(s, TRANSPORT_REQUEST).token;
	struct transport_event e = expect(s, TRANSPORT_GONE);
	CHECK_MSG(e.peer.pipe == pipe && e.why && strstr(e.why, "more than 64 requests"), "it said: %s",
		  e.why);
	for (int i = 0; i < TRANSPORT_IN_FLIGHT_MAX; i++)
		CHECK(transport_answer(s, tokens[i], span_of("too late")) == 0);
	close(fd);
	transport_server_free(s);
	free(path);
}

static void test_peer_that_does_not_read(void)
{
	char *path, message[9];
	struct transport_server *s = listen_at("unread.sock", &path);
	uint32_t pipe;
	int fd = raw_meet(s, path, &pipe);
	_cleanup_(free_ptr) char *large = xcalloc(1, 1 << 20);
	put_header(message, 1, 1);
	message[8] = 'x';
	int answered = 0;
	struct transport_event e = {0};
	for (bool gone = false; !gone && answered < 40; answered++) {
		put(fd, message, sizeof message);
		enum transport_event_type t;
		while ((t = transport_server_next(s, &e)) == TRANSPORT_NOTHING)
			CHECK(wait_readable(transport_server_fd(s), SOON * 1000));
		gone = t == TRANSPORT_GONE;
		if (t == TRANSPORT_REQUEST)
			CHECK(transport_answer(s, e.token, (struct span){large, 1 << 20}) == 0);
	}
	CHECK_MSG(e.type == TRANSPORT_GONE && e.why && strstr(e.why, "does not read"),
		  "after %d: event %d, %s", answered, e.type, e.why);
	/* As documented: 16 MiB, and what the kernel took. */
	CHECK_MSG(answered >= TRANSPORT_UNREAD_MAX >> 20 && answered <= (TRANSPORT_UNREAD_MAX >> 20) + 3,
		  "%d MiB were kept", answered);
	close(fd);
	transport_server_free(s);
	free(path);
}

/* The sum of what is held for peers is bounded, too. */
static void test_unfinished_requests(void)
{
	enum { PEERS = TRANSPORT_KEPT_MAX / WIRE_MAX_BYTES + 4 };
	char *path, header[8];
	struct transport_server *s = listen_at("unfinished.sock", &path);
	_cleanup_(free_ptr) char *large = xcalloc(1, WIRE_MAX_BYTES);
	struct transport_event e = {0};
	int fds[PEERS];
	closed = 0;
	for (int i = 0; i < PEERS; i++) {
		uint32_t pipe;
		fds[i] = raw_meet(s, path, &pipe);
		put_header(header, WIRE_MAX_BYTES, 1);
		CHECK(put(fds[i], header, sizeof header));
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
		for (size_t sent = 0; sent < WIRE_MAX_BYTES - 1;) {
			ssize_t n = send(fds[i], large, WIRE_MAX_BYTES - 1 - sent, MSG_NOSIGNAL);
			if (n > 0)
				sent += (size_t)n;
			else if (n < 0 && errno != EAGAIN)
				break;
			if (transport_server_next(s, &e) != TRANSPORT_GONE)
				continue;
			closed++;
			CHECK_MSG(e.peer.pipe == pipe && e.why && strstr(e.why, "no memory is left"),
				  "it said: %s", e.why);
		}
	}
	CHECK_MSG(closed >= 1 && closed < PEERS / 2, "%d of %d were closed", closed, (int)PEERS);
	for (int i = 0; i < PEERS; i++)
		close(fds[i]);
	uint32_t pipe;
	int fd = raw_meet(s, path, &pipe);
	put_header(header, 1, 9);
	CHECK(put(fd, header, 8) && put(fd, "x", 1));
	CHECK(span_is(expect(s, TRANSPORT_REQUEST).bytes, "x"));
	close(fd);
	transport_server_free(s);
	free(path);
}

/* ---- thousands ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROWTH_KIB = 32768 }; /* freed memory is kept for a while, and shadowed */
#else
enum { GROWTH_KIB = 8192 };
#endif

/* Opens connections, greets or not, says nothing, holds what is left of them until it is killed. */
static int role_crowd(const char *path, const char *count, const char *greets)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct rlimit most;
	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	struct sockaddr_un a = address_of(path);
	for (int i = 0; i < atoi(count); i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a))
			return 1;
		if (*greets == 'y')
			put(fd, greeting, sizeof greeting);
	}
	printf("all are open\n");
	fflush(stdout);
	pause();
	return 0;
}

/* Answers everything, with so many descriptors. */
static int role_broker(const char *path, const char *descriptors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	const rlim_t n = (rlim_t)atoi(descriptors);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){n, n});
	struct transport_server *s;
	struct err err;
	if (transport_listen(path, &s, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (struct transport_event e;;) {
		enum transport_event_type t = transport_server_next(s, &e);
		if (t == TRANSPORT_REQUEST)
			transport_answer(s, e.token, e.bytes);
		else if (t == TRANSPORT_NOTHING)
			wait_readable(transport_server_fd(s), -1);
	}
}

static size_t resident_kib(pid_t pid)
{
	_cleanup_(free_ptr) char *path = xasprintf("/proc/%d/status", pid), *text = check_read(path);
	const char *at = strstr(text, "VmRSS:");
	return at ? strtoul(at + 6, NULL, 10) : 0;
}

/* Somebody who asks at once gets through, at the latest when he comes again: among thousands that greet he may be the one that
 * was silent longest. */
static void call(const char *path, const char *when)
{
	struct err err = {0};
	struct buf answer = {0};
	int r = -ENOTCONN;
	for (int i = 0; i < 100 && r == -ENOTCONN; i++) {
		struct transport_client *c = NULL;
		CHECK_MSG(transport_dial(path, &c, &err) == 0, "dial: %s", err.text);
		r = transport_call(c, span_of("hello"), SOON * 1000, &answer, &err);
		transport_client_free(c);
	}
	CHECK_MSG(r == 0 && span_is(buf_span(&answer), "hello"), "%s: %s", when, err.text);
	buf_done(&answer);
}

static size_t descriptors_of(pid_t pid)
{
	_cleanup_(free_ptr) char *path = xasprintf("/proc/%d/fd", pid);
	size_t n = 0;
	DIR *d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static bool has_said(const char *log, const char *text)
{
	_cleanup_(free_ptr) char *said = check_read(log);
	return strstr(said, text) != NULL;
}

static void crowd(const char *name, const char *descriptors, const char *count, const char *greets)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s.sock", check_folder(), name);
	_cleanup_(free_ptr) char *log = xasprintf("%s/%s.log", check_folder(), name);
	const char *broker[] = {self, "broker", path, descriptors, NULL};
	const char *others[] = {self, "crowd", path, count, greets, NULL};
	pid_t server = check_start(NULL, broker);
	CHECK(WAIT_FOR(SOON, access(path, F_OK) == 0));
	call(path, "before the crowd");
	size_t before = resident_kib(server);
	pid_t peers = check_start(log, others);
	CHECK_MSG(WAIT_FOR(2 * SOON, (call(path, name), has_said(log, "all are open"))), /* while they come */
		  "%s: not all could connect", name);
	call(path, name);
	size_t after = resident_kib(server);
	CHECK_MSG(after < before + GROWTH_KIB, "%s: the server grew from %zu to %zu KiB", name, before,
		  after);
	CHECK_MSG(WAIT_FOR(SOON, descriptors_of(server) <= TRANSPORT_PEERS_MAX + 64), "%s: %zu descriptors",
		  name, descriptors_of(server));
	CHECK(kill(server, 0) == 0 && waitpid(server, NULL, WNOHANG) == 0);
	kill(peers, SIGKILL);
	check_wait(peers, SOON);
	call(path, "after the crowd");
	kill(server, SIGKILL);
	check_wait(server, SOON);
}

static void test_10000_connections(void)
{
	struct rlimit most;
	getrlimit(RLIMIT_NOFILE, &most);
	const char *count = most.rlim_max > 10100 ? "10000" : "900";
	if (most.rlim_max <= 10100)
		fprintf(stderr, "only %s connections: the hard limit of descriptors is low\n", count);
	crowd("silent", "4096", count, "no");
	crowd("greeted", "4096", count, "yes");
	crowd("descriptors", "64", "900", "no");
}

/* ---- a server that does not keep to it ---- */

static int raw_listen(const char *path)
{
	struct sockaddr_un a = address_of(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 16) == 0);
	return fd;
}

static enum transport_event_type client_event(struct transport_client *c, int seconds)
{
	int64_t end = clock_boottime_ns() + seconds * NS_PER_S;
	struct transport_reply r;
	enum transport_event_type t;
	while ((t = transport_client_next(c, &r)) == TRANSPORT_NOTHING && clock_boottime_ns() < end)
		wait_readable(transport_client_fd(c), 20);
	return t;
}

static int raw_accept(int listener, struct transport_client *c)
{
	char got[8];
	while (!wait_readable(listener, 1)) {
		struct transport_reply r;
		transport_client_next(c, &r);
	}
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(get(fd, got, sizeof got) && memcmp(got, greeting, sizeof got) == 0);
	return fd;
}

static void test_bad_server(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/bad.sock", check_folder());
	int listener = raw_listen(path);
	struct transport_client *c;
	struct err err;
	CHECK(transport_dial(path, &c, &err) == 0);
	int fd = raw_accept(listener, c);
	CHECK(put(fd, "220 smtp", 8)); /* never CONNECTED */
	close(fd);
	static const char *const bad[] = {"\xff\xff\xff\xff\0\0\0\1", /* a length that nobody may have */
					  "\0\0\0\1\0\0\0\1x" /* an answer that nobody asked for */};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		fd = raw_accept(listener, c);
		CHECK(put(fd, greeting, sizeof greeting));
		CHECK(client_event(c, SOON) == TRANSPORT_CONNECTED);
		CHECK(put(fd, bad[i], 8 + i));
		CHECK(client_event(c, SOON) == TRANSPORT_GONE);
		close(fd);
	}
	transport_client_free(c);
	close(listener);
}

/* A broker that takes connections and drops them is not dialled faster and faster. */
static void test_backoff(void)
{
	_cleanup_(free_ptr) char *path = xasprintf("%s/backoff.sock", check_folder());
	int listener = raw_listen(path), attempts = 0;
	struct transport_client *c;
	struct err err;
	int64_t start = clock_boottime_ns();
	CHECK(transport_dial(path, &c, &err) == 0);
	for (; attempts < 10; attempts++) {
		int fd = raw_accept(listener, c);
		CHECK(put(fd, greeting, sizeof greeting));
		close(fd);
	}
	/* 10, 20, ... 1000 ms: half of each at least. */
	CHECK(clock_boottime_ns() - start > 1500 * (int64_t)NS_PER_MS);
	transport_client_free(c);
	close(listener);
}

int main(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0)
		return 1;
	if (argc == 5 && strcmp(argv[1], "crowd") == 0)
		return role_crowd(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "broker") == 0)
		return role_broker(argv[2], argv[3]);
	test_byte_by_byte();
	test_cut_in_a_frame();
	test_malformed();
	test_greetings();
	test_too_many_requests();
	test_peer_that_does_not_read();
	test_unfinished_requests();
	test_10000_connections();
	test_bad_server();
	test_backoff();
	return check_result();
}
