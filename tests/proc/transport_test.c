/* common/transport.h between real processes. Run with arguments this program is one of the processes: an
 * echoing broker, a client. */
#include "check.h"
#include "transport.h"
#include "wire.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096];
static bool opened_before[256]; /* descriptors that came with the process */

static bool wait_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, timeout_ms) > 0;
}

/* The other side in this process, which hands over what waits while one is waited for: both are one thread here. */
static struct transport_client *pumped;
static struct transport_server *served;

/* The next event of a type, soon; others on the way are thrown away. */
static bool server_expect(struct transport_server *s, enum transport_event_type type,
			  struct transport_event *ret)
{
	int64_t end = clock_boottime_ns() + SOON * NS_PER_S;
	while (clock_boottime_ns() < end) {
		enum transport_event_type t = transport_server_next(s, ret);
		if (t == type)
			return true;
		if (t == TRANSPORT_REQUEST)
			transport_drop(s, ret->token);
		if (t == TRANSPORT_NOTHING)
			wait_readable(transport_server_fd(s), pumped ? 1 : 100);
		struct transport_reply reply;
		if (pumped && transport_client_next(pumped, &reply) != TRANSPORT_NOTHING)
			CHECK_MSG(false, "an event that nobody caused");
	}
	CHECK_MSG(false, "the server waited in vain for event %d", type);
	exit(check_result());
}

static bool client_expect(struct transport_client *c, enum transport_event_type type,
			  struct transport_reply *ret)
{
	int64_t end = clock_boottime_ns() + SOON * NS_PER_S;
	while (clock_boottime_ns() < end) {
		enum transport_event_type t = transport_client_next(c, ret);
		if (t == type)
			return true;
		if (t == TRANSPORT_NOTHING)
			wait_readable(transport_client_fd(c), served ? 1 : 100);
		struct transport_event e;
		if (served && transport_server_next(served, &e) != TRANSPORT_NOTHING)
			CHECK_MSG(false, "an event that nobody caused");
	}
	CHECK_MSG(false, "the client waited in vain for event %d", type);
	exit(check_result());
}

/* A client and a server of this one thread; the server's CONNECTED. */
static struct transport_event meet(struct transport_server *s, struct transport_client *c)
{
	struct transport_reply reply;
	struct transport_event e;
	CHECK(server_expect(s, TRANSPORT_CONNECTED, &e));
	CHECK(client_expect(c, TRANSPORT_CONNECTED, &reply));
	return e;
}

static char *socket_path(const char *name)
{
	return xasprintf("%s/%s", check_folder(), name);
}

static struct transport_server *listen_at(const char *path)
{
	struct transport_server *s = NULL;
	struct err err = {0};
	CHECK_MSG(transport_listen(path, &s, &err) == 0, "listen: %s", err.text);
	if (!s)
		exit(check_result());
	return s;
}

static struct transport_client *dial_at(const char *path)
{
	struct transport_client *c = NULL;
	struct err err = {0};
	CHECK_MSG(transport_dial(path, &c, &err) == 0, "dial: %s", err.text);
	if (!c)
		exit(check_result());
	return c;
}

static int raw_connect(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strncpy(a.sun_path, path, sizeof a.sun_path - 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_MSG(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "connect: %s",
		  strerror(errno));
	return fd;
}

/* ---- what this program is when it is started by a test ---- */

static int role_broker(const char *path)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct transport_server *s;
	struct err err;
	if (transport_listen(path, &s, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (struct transport_event e;;) {
		switch (transport_server_next(s, &e)) {
		case TRANSPORT_REQUEST:
			if (span_is(e.bytes, "park"))
				break; /* no answer, ever */
			transport_answer(s, e.token, e.bytes);
			break;
		case TRANSPORT_NOTHING:
			wait_readable(transport_server_fd(s), -1);
			break;
		case TRANSPORT_CONNECTED:
		case TRANSPORT_GONE:
		case TRANSPORT_REFUSED:
			break;
		}
	}
}

static int role_client(const char *path)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct transport_client *c;
	struct err err;
	if (transport_dial(path, &c, &err))
		return 1;
	for (struct transport_reply r;;) {
		enum transport_event_type t = transport_client_next(c, &r);
		uint32_t id;
		if (t == TRANSPORT_CONNECTED)
			transport_send(c, span_of("park"), &id);
		if (t == TRANSPORT_NOTHING)
			wait_readable(transport_client_fd(c), -1);
	}
}

/* As another user: says CONNECTED if it ever is, within a second. */
static int role_stranger(const char *path)
{
	struct transport_client *c;
	struct err err;
	if (setgid(65534) || setuid(65534) || transport_dial(path, &c, &err))
		return 2;
	struct buf answer = {0};
	int r = transport_call(c, span_of("hello"), 1000, &answer, &err);
	printf("%s\n", r ? err.text : "answered");
	fflush(stdout);
	_exit(r == -ENOTCONN ? 0 : 1);
}

/* ---- tests ---- */

static void test_round_trips(void)
{
	_cleanup_(free_ptr) char *path = socket_path("round.sock");
	struct transport_server *s = listen_at(path);
	struct stat st;
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	struct transport_client *c = dial_at(path);
	uint32_t id = 0;
	CHECK(transport_send(c, span_of("early"), &id) == -ENOTCONN);
	struct transport_reply reply;
	struct transport_event e = meet(s, c);
	CHECK(e.peer.pid == getpid() && e.peer.uid == geteuid() && e.peer.pipe != 0);
	uint32_t pipe = e.peer.pipe;
	pumped = c;
	for (int i = 0; i < 1000; i++) {
		char text[32];
		snprintf(text, sizeof text, "message %d", i);
		CHECK(transport_send(c, span_of(text), &id) == 0 && id != 0);
		CHECK(server_expect(s, TRANSPORT_REQUEST, &e) && span_is(e.bytes, text) &&
		      e.peer.pipe == pipe);
		CHECK(transport_answer(s, e.token, e.bytes) == 0);
		CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) && reply.request == id &&
		      span_is(reply.bytes, text));
	}
	/* A program that either side starts inherits nothing. */
	for (int fd = 3; fd < 256; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (!opened_before[fd])
			CHECK_MSG(flags < 0 || (flags & FD_CLOEXEC), "descriptor %d would be inherited", fd);
	}
	/* Nothing is left: neither descriptor is readable. */
	CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING && !wait_readable(transport_server_fd(s), 0));
	CHECK(transport_client_next(c, &reply) == TRANSPORT_NOTHING &&
	      !wait_readable(transport_client_fd(c), 0));
	pumped = NULL;
	transport_client_free(c);
	CHECK(server_expect(s, TRANSPORT_GONE, &e) && e.peer.pipe == pipe);
	transport_server_free(s);
	CHECK(access(path, F_OK) != 0);
}

/* Many in flight, answered from the last to the first, some dropped; then the limit of requests in flight. */
static void test_out_of_order(void)
{
	_cleanup_(free_ptr) char *path = socket_path("order.sock");
	struct transport_server *s = listen_at(path);
	struct transport_client *c = dial_at(path);
	struct transport_reply reply;
	struct transport_event e = meet(s, c);
	for (int round = 0; round < 3; round++) {
		uint32_t ids[TRANSPORT_IN_FLIGHT_MAX], id;
		void *tokens[TRANSPORT_IN_FLIGHT_MAX];
		for (uint32_t i = 0; i < TRANSPORT_IN_FLIGHT_MAX; i++)
			CHECK(transport_send(c, (struct span){(char *)&i, sizeof i}, &ids[i]) == 0);
		CHECK(transport_send(c, span_of("x"), &id) == -EAGAIN);
		pumped = c;
		for (uint32_t i = 0; i < TRANSPORT_IN_FLIGHT_MAX; i++) {
			CHECK(server_expect(s, TRANSPORT_REQUEST, &e));
			tokens[i] = e.token;
			CHECK(e.bytes.len == sizeof i && memcmp(e.bytes.at, &i, sizeof i) == 0);
		}
		pumped = NULL;
		for (uint32_t i = TRANSPORT_IN_FLIGHT_MAX; i-- > 0;)
			if (i % 8 == 3)
				transport_drop(s, tokens[i]);
			else
				CHECK(transport_answer(s, tokens[i], (struct span){(char *)&i, sizeof i}) ==
				      0);
		for (uint32_t i = TRANSPORT_IN_FLIGHT_MAX; i-- > 0;)
			if (i % 8 != 3)
				CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) &&
				      reply.request == ids[i] && memcmp(reply.bytes.at, &i, sizeof i) == 0);
	}
	transport_client_free(c);
	transport_server_free(s);
}

/* Peers that leave before the handshake: a worker that is killed in the wrong moment, or the look of a second broker whether
 * anybody listens. (nng's own listener of 1.5.2 died of them: issue 1518.) */
static void test_connect_and_close(void)
{
	_cleanup_(free_ptr) char *path = socket_path("probe.sock");
	struct transport_server *s = listen_at(path);
	struct transport_event e;
	for (int i = 0; i < 200; i++) {
		close(raw_connect(path));
		if (i % 50 == 49)
			CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
	}
	struct transport_client *c = dial_at(path);
	meet(s, c);
	transport_client_free(c);
	transport_server_free(s);
}

static void test_killed_peer(void)
{
	_cleanup_(free_ptr) char *path = socket_path("killed.sock");
	struct transport_server *s = listen_at(path);
	const char *argv[] = {self, "client", path, NULL};
	pid_t pid = check_start(NULL, argv);
	struct transport_event e;
	CHECK(server_expect(s, TRANSPORT_CONNECTED, &e) && e.peer.pid == pid);
	uint32_t pipe = e.peer.pipe;
	CHECK(server_expect(s, TRANSPORT_REQUEST, &e) && span_is(e.bytes, "park"));
	void *token = e.token;
	kill(pid, SIGKILL);
	CHECK(server_expect(s, TRANSPORT_GONE, &e) && e.peer.pipe == pipe && e.peer.pid == pid);
	CHECK(transport_answer(s, token, span_of("too late")) == 0);
	check_wait(pid, SOON);
	transport_server_free(s);
}

/* What was written for the first broker, sent or not, must not reach the second. */
static void test_broker_restarted(void)
{
	_cleanup_(free_ptr) char *path = socket_path("restart.sock");
	const char *argv[] = {self, "broker", path, NULL};
	struct transport_client *c = dial_at(path);
	struct transport_reply reply;
	for (int round = 0; round < 5; round++) {
		pid_t pid = check_start(NULL, argv);
		CHECK(client_expect(c, TRANSPORT_CONNECTED, &reply));
		uint32_t id = 0;
		CHECK(transport_send(c, span_of("hello"), &id) == 0);
		CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) && reply.request == id &&
		      span_is(reply.bytes, "hello"));
		CHECK(transport_send(c, span_of("park"), &id) == 0);
		kill(pid, SIGKILL);
		check_wait(pid, SOON);
		/* The loss may not be known yet: these are taken, and lost. */
		for (int i = 0; i < 20; i++)
			if (transport_send(c, span_of("stale"), &id))
				break;
		/* The next broker is up before the loss is read. */
		if (round % 2) {
			unlink(path);
			pid = check_start(NULL, argv);
			CHECK(WAIT_FOR(SOON, access(path, F_OK) == 0));
		}
		CHECK(client_expect(c, TRANSPORT_GONE, &reply));
		CHECK(transport_send(c, span_of("nobody"), &id) == -ENOTCONN);
		if (round % 2) {
			CHECK(client_expect(c, TRANSPORT_CONNECTED, &reply));
			CHECK(transport_send(c, span_of("fresh"), &id) == 0);
			CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) && span_is(reply.bytes, "fresh"));
			kill(pid, SIGKILL);
			check_wait(pid, SOON);
			CHECK(client_expect(c, TRANSPORT_GONE, &reply));
		}
	}
	transport_client_free(c);
}

static void test_sizes(void)
{
	_cleanup_(free_ptr) char *path = socket_path("sizes.sock");
	struct transport_server *s = listen_at(path);
	struct transport_client *c = dial_at(path);
	struct transport_reply reply;
	struct transport_event e = meet(s, c);
	pumped = c;
	_cleanup_(free_ptr) char *big = xcalloc(1, WIRE_MAX_BYTES + 1);
	struct span largest = {big, WIRE_MAX_BYTES}, too_large = {big, WIRE_MAX_BYTES + 1};
	uint32_t id = 0;
	CHECK(transport_send(c, too_large, &id) == -EMSGSIZE);
	CHECK(transport_send(c, (struct span){"", 0}, &id) == -EINVAL);
	CHECK(transport_send(c, largest, &id) == 0);
	CHECK(server_expect(s, TRANSPORT_REQUEST, &e) && e.bytes.len == WIRE_MAX_BYTES);
	CHECK(transport_answer(s, e.token, largest) == 0);
	served = s;
	CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) && reply.bytes.len == WIRE_MAX_BYTES);
	served = NULL;
	CHECK(transport_send(c, span_of("ask"), &id) == 0);
	CHECK(server_expect(s, TRANSPORT_REQUEST, &e));
	CHECK(transport_answer(s, e.token, too_large) == -EMSGSIZE);
	CHECK(transport_send(c, span_of("again"), &id) == 0);
	CHECK(server_expect(s, TRANSPORT_REQUEST, &e) && span_is(e.bytes, "again"));
	CHECK(transport_answer(s, e.token, span_of("fine")) == 0);
	CHECK(client_expect(c, TRANSPORT_REQUEST, &reply) && reply.request == id &&
	      span_is(reply.bytes, "fine"));
	pumped = NULL;
	transport_client_free(c);
	transport_server_free(s);
}

static void test_other_user(void)
{
	if (geteuid() != 0) {
		fprintf(stderr, "not root: the other user's process is not played\n");
		return;
	}
	_cleanup_(free_ptr) char *folder = socket_path("open");
	_cleanup_(free_ptr) char *path = xasprintf("%s/user.sock", folder);
	_cleanup_(free_ptr) char *log = socket_path("stranger.log");
	CHECK(mkdir(folder, 0755) == 0 && chmod(check_folder(), 0755) == 0);
	struct transport_server *s = listen_at(path);
	/* The folder's and the socket's modes would keep it out: let it come as far as the credentials. */
	CHECK(chmod(path, 0666) == 0);
	const char *argv[] = {self, "stranger", path, NULL};
	pid_t pid = check_start(log, argv);
	int status = check_wait(pid, SOON);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	_cleanup_(free_ptr) char *said = check_read(log);
	CHECK_MSG(strstr(said, "another user"), "it said: %s", said);
	struct transport_event e;
	CHECK(server_expect(s, TRANSPORT_REFUSED, &e) && e.peer.uid == 65534 &&
	      strstr(e.why, "another user"));
	CHECK(transport_server_next(s, &e) == TRANSPORT_NOTHING);
	transport_server_free(s);
}

static void test_many_parked(void)
{
	enum { CLIENTS = 64 };
	_cleanup_(free_ptr) char *path = socket_path("parked.sock");
	struct transport_server *s = listen_at(path);
	struct transport_client *clients[CLIENTS];
	uint32_t ids[CLIENTS];
	void *tokens[CLIENTS];
	struct transport_reply reply;
	struct transport_event e;
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = dial_at(path);
		meet(s, clients[i]);
		uint8_t byte = (uint8_t)i;
		CHECK(transport_send(clients[i], (struct span){(char *)&byte, 1}, &ids[i]) == 0);
		pumped = clients[i];
		CHECK(server_expect(s, TRANSPORT_REQUEST, &e) && e.bytes.at[0] == (char)i);
		tokens[i] = e.token;
	}
	pumped = NULL;
	CHECK(!wait_readable(transport_server_fd(s), 50) ||
	      transport_server_next(s, &e) != TRANSPORT_REQUEST);
	for (int i = CLIENTS; i-- > 0;) {
		uint8_t byte = (uint8_t)(i + 100);
		CHECK(transport_answer(s, tokens[i], (struct span){(char *)&byte, 1}) == 0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		CHECK(client_expect(clients[i], TRANSPORT_REQUEST, &reply) && reply.request == ids[i] &&
		      reply.bytes.at[0] == (char)(i + 100));
		transport_client_free(clients[i]);
	}
	transport_server_free(s);
}

static void test_call(void)
{
	_cleanup_(free_ptr) char *path = socket_path("call.sock");
	struct err err = {0};
	struct buf answer = {0};
	struct transport_client *c = dial_at(path);
	CHECK(transport_call(c, span_of("hello"), 100, &answer, &err) == -ENOTCONN);
	CHECK_MSG(strstr(err.text, "is the broker running"), "it said: %s", err.text);
	const char *argv[] = {self, "broker", path, NULL};
	pid_t pid = check_start(NULL, argv);
	CHECK_MSG(transport_call(c, span_of("hello"), SOON * 1000, &answer, &err) == 0, "call: %s", err.text);
	CHECK(span_is(buf_span(&answer), "hello"));
	CHECK(transport_call(c, span_of("park"), 100, &answer, &err) == -ETIMEDOUT);
	kill(pid, SIGKILL);
	check_wait(pid, SOON);
	buf_done(&answer);
	transport_client_free(c);
}

static void test_bad_paths(void)
{
	char path[200];
	memset(path, 'x', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = 0;
	struct err err = {0};
	struct transport_server *s = NULL;
	CHECK(transport_listen(path, &s, &err) == -ENAMETOOLONG && strstr(err.text, "too long"));
	CHECK(transport_listen("/nonexistent/folder/x.sock", &s, &err) < 0 &&
	      strstr(err.text, "/nonexistent/folder/x.sock"));
	_cleanup_(free_ptr) char *taken = socket_path("taken.sock");
	struct transport_server *first = listen_at(taken);
	CHECK(transport_listen(taken, &s, &err) == -EADDRINUSE && strstr(err.text, "another process"));
	transport_server_free(first);
}

int main(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0)
		return 1;
	if (argc == 3 && strcmp(argv[1], "broker") == 0)
		return role_broker(argv[2]);
	if (argc == 3 && strcmp(argv[1], "client") == 0)
		return role_client(argv[2]);
	if (argc == 3 && strcmp(argv[1], "stranger") == 0)
		return role_stranger(argv[2]);
	for (int fd = 0; fd < 256; fd++)
		opened_before[fd] = fcntl(fd, F_GETFD) >= 0;
	test_round_trips();
	test_out_of_order();
	test_connect_and_close();
	test_killed_peer();
	test_broker_restarted();
	test_sizes();
	test_other_user();
	test_many_parked();
	test_call();
	test_bad_paths();
	return check_result();
}
