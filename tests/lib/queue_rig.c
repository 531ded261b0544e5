#include "queue_rig.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[4096];
char run_dir[300], shm_dir[300], conf_dir[300], socket_path[400], log_path[400];

/* ---- the host ---- */

static struct {
	struct transport_client *client;
	const char *socket, *controller, *digest, *instance;
	uint32_t jail;
	uint64_t start, jail_start, incarnation;
} me;

static int jail_main(const char *parent)
{
	close(1), close(2); /* what the test says is not to be waited for until this ends, too */
	if (strcmp(parent, "0") == 0)
		alarm(600); /* it outlives its host, and must not outlive the test by much */
	else if (!process_die_with((pid_t)atoi(parent)))
		return 1;
	for (;;)
		pause();
}

static void host_send(const struct wire *m)
{
	_cleanup_(buf_done) struct buf out = {0};
	struct err err = {0};
	uint32_t request;
	int rc = wire_encode(m, &out, &err);
	if (rc == 0)
		rc = transport_send(me.client, buf_span(&out), &request);
	if (rc < 0)
		printf("NOTSENT %d %s\n", rc, err.text);
}

static void host_hello(const char *running)
{
	struct wire_loaded loaded = {span_of(me.controller), span_of(me.digest)};
	unsigned long long slot = 0, generation = 0;
	bool has = running && sscanf(running, "%llu %llu", &slot, &generation) == 2;
	host_send(&(struct wire){.type = WIRE_TYPE_HELLO,
				 .hello = {.version = WIRE_VERSION,
					   .role = WIRE_ROLE_HOST,
					   .pid = (uint32_t)getpid(),
					   .start_time = me.start,
					   .jail_pid = me.jail,
					   .jail_start_time = me.jail_start,
					   .incarnation = me.incarnation,
					   .running = has,
					   .slot = slot,
					   .generation = generation,
					   .instance = span_of(me.instance),
					   .loaded = {&loaded, 1}}});
}

/* hello [SLOT GENERATION] | poll | rest | pollat INCARNATION | done SLOT GENERATION OUTCOME AFTER_MS DRAIN | raw HEX
 * | again (a second connection; the first stays open, and is not listened to) | quit */
static bool host_command(char *line)
{
	unsigned long long slot, generation;
	unsigned outcome, drain;
	long long after;
	char *rest = strchr(line, ' ');
	if (strncmp(line, "hello", 5) == 0) {
		host_hello(rest);
	} else if (strcmp(line, "poll") == 0 || strcmp(line, "rest") == 0) {
		host_send(&(struct wire){.type = WIRE_TYPE_POLL, .poll = {me.incarnation, *line == 'r'}});
	} else if (sscanf(line, "pollat %llu", &slot) == 1) {
		host_send(&(struct wire){.type = WIRE_TYPE_POLL, .poll = {slot}});
	} else if (sscanf(line, "done %llu %llu %u %lld %u", &slot, &generation, &outcome, &after, &drain) ==
		   5) {
		host_send(&(struct wire){.type = WIRE_TYPE_DONE,
					 .done = {.incarnation = me.incarnation,
						  .slot = slot,
						  .generation = generation,
						  .outcome = outcome,
						  .requeue_after_ms = after,
						  .drain = drain,
						  .duration_us = 1234,
						  .reason = span_of("Reason"),
						  .message = span_of("the last line of stderr")}});
	} else if (strcmp(line, "again") == 0) {
		return transport_dial(me.socket, &me.client, NULL) == 0;
	} else if (strncmp(line, "raw ", 4) == 0) {
		char bytes[64];
		size_t n = 0;
		unsigned byte;
		for (const char *at = line + 4; sscanf(at, "%2x", &byte) == 1 && n < sizeof(bytes); at += 2)
			bytes[n++] = (char)byte;
		uint32_t request;
		transport_send(me.client, (struct span){bytes, n}, &request);
	} else {
		return false;
	}
	return true;
}

static void host_tell(const struct wire *m)
{
	switch ((int)m->type) {
	case WIRE_TYPE_HELLO_ACK:
		me.incarnation = m->hello_ack.incarnation;
		printf("ACK %d %llu\n", m->hello_ack.running_known, (unsigned long long)me.incarnation);
		break;
	case WIRE_TYPE_REFUSED:
		printf("REFUSED %s " SPAN_FMT "\n", wire_refusal_name(m->refused.code),
		       SPAN_ARG(m->refused.message));
		break;
	case WIRE_TYPE_GRANT:
		printf("GRANT %llu %llu " SPAN_FMT "/" SPAN_FMT " %u %s %d %zu %lld\n",
		       (unsigned long long)m->grant.slot, (unsigned long long)m->grant.generation,
		       SPAN_ARG(m->grant.namespace), SPAN_ARG(m->grant.name), m->grant.attempt,
		       wire_outcome_name(m->grant.last_outcome), m->grant.done_stale, m->grant.reasons.len,
		       (long long)m->grant.lease_end_ns);
		break;
	case WIRE_TYPE_SLEEP:
		printf("SLEEP %d\n", m->sleep.asleep);
		break;
	case WIRE_TYPE_DONE_ACK:
		printf("DONE_ACK %d\n", m->done_ack.stale);
		break;
	default:
		printf("%s\n", wire_type_name(m->type));
	}
}

static bool host_hear(void)
{
	struct transport_reply reply;
	for (;;) {
		switch (transport_client_next(me.client, &reply)) {
		case TRANSPORT_NOTHING:
			return true;
		case TRANSPORT_CONNECTED:
			printf("CONNECTED\n");
			break;
		case TRANSPORT_GONE:
			printf("GONE\n");
			break;
		case TRANSPORT_REFUSED: /* of a server */
			break;
		case TRANSPORT_REQUEST: {
			struct wire m = {0};
			struct err err = {0};
			if (wire_decode(reply.bytes, &m, &err) < 0)
				printf("UNDECODABLE %s\n", err.text);
			else
				host_tell(&m);
			wire_done(&m);
		}
		}
	}
}

/* host PARENT SOCKET CONTROLLER DIGEST INSTANCE JAIL(0|1) */
static int host_main(char **argv)
{
	if (!process_die_with((pid_t)atoi(argv[2])))
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.socket = argv[3];
	me.controller = argv[4];
	me.digest = argv[5];
	me.instance = argv[6];
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	pid_t jail = 0;
	extern char **environ;
	char *parent = argv[7][0] == '2' ? "0" : pid;
	if (argv[7][0] != '0' &&
	    posix_spawn(&jail, self, NULL, NULL, (char *[]){self, "jail", parent, NULL}, environ) != 0)
		return 1;
	me.jail = (uint32_t)jail;
	process_start_time(getpid(), &me.start);
	if (jail)
		process_start_time(jail, &me.jail_start);
	printf("JAIL %d\n", (int)jail);
	if (transport_dial(me.socket, &me.client, NULL) < 0)
		return 1;
	char line[256];
	size_t len = 0;
	for (;;) {
		struct pollfd fds[] = {{.fd = 0, .events = POLLIN},
				       {.fd = transport_client_fd(me.client), .events = POLLIN}};
		poll(fds, 2, -1);
		host_hear();
		if (!fds[0].revents)
			continue;
		ssize_t n = read(0, line + len, 1);
		if (n <= 0)
			_exit(0);
		if (line[len] != '\n') {
			len += len < sizeof(line) - 1;
			continue;
		}
		line[len] = '\0';
		len = 0;
		if (!host_command(line))
			_exit(0);
	}
}

/* ---- what the test holds of a host ---- */

bool host_line(struct host *h, int seconds)
{
	int64_t end = clock_boottime_ns() + seconds * NS_PER_S;
	for (;;) {
		char *nl = memchr(h->buf, '\n', h->len);
		if (nl) {
			size_t n = (size_t)(nl - h->buf);
			snprintf(h->text, sizeof(h->text), "%.*s", (int)n, h->buf);
			h->len -= n + 1;
			memmove(h->buf, nl + 1, h->len);
			return true;
		}
		/* What is there is read, too, if it is looked for late, or with 0 seconds. */
		int64_t left = MAX((end - clock_boottime_ns()) / NS_PER_MS, 0);
		struct pollfd p = {.fd = h->out, .events = POLLIN};
		if (poll(&p, 1, (int)left) <= 0)
			break;
		ssize_t n = read(h->out, h->buf + h->len, sizeof(h->buf) - h->len);
		if (n <= 0)
			break;
		h->len += (size_t)n;
	}
	snprintf(h->text, sizeof(h->text), "(silence)");
	return false;
}

void host_tell_it(struct host *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vdprintf(h->in, fmt, ap);
	va_end(ap);
	dprintf(h->in, "\n");
}

bool host_granted(struct host *h, int seconds)
{
	unsigned stale, reasons;
	return host_line(h, seconds) &&
	       sscanf(h->text, "GRANT %llu %llu %399s %u %31s %u %u %lld", &h->slot, &h->generation, h->key,
		      &h->attempt, h->last, &stale, &reasons, &h->lease_end) == 8;
}

void rig_file(const char *name, const char *text)
{
	char path[400];
	snprintf(path, sizeof(path), "%s/%s", conf_dir, name);
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

char *digest_of(const char *controller)
{
	static char digests[4][65];
	static unsigned next;
	struct config config;
	struct err err = {0};
	char *to = digests[next++ % 4];
	if (config_load(conf_dir, &config, &err) < 0 || !config_find(&config, controller)) {
		fprintf(stderr, "no digest of %s: %s\n", controller, err.text);
		exit(1);
	}
	memcpy(to, config_find(&config, controller)->digest, 65);
	config_done(&config);
	return to;
}

/* Started, not yet greeted. */
struct host host_start_as(const char *controller, const char *digest, const char *instance,
			  enum rig_jail jail_kind)
{
	struct host h = {0};
	int in[2], out[2];
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		exit(1);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	char *argv[] = {self,
			"host",
			pid,
			socket_path,
			(char *)(uintptr_t)controller,
			(char *)(uintptr_t)digest,
			(char *)(uintptr_t)instance,
			jail_kind == RIG_JAIL_LASTS ? "2"
			: jail_kind == RIG_JAIL	    ? "1"
						    : "0",
			NULL};
	extern char **environ;
	if (posix_spawn(&h.pid, self, &actions, NULL, argv, environ) != 0)
		exit(1);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	h.in = in[1];
	h.out = out[0];
	int jail;
	CHECK(host_line(&h, SOON) && sscanf(h.text, "JAIL %d", &jail) == 1);
	h.jail = jail;
	EXPECT(&h, "CONNECTED");
	return h;
}

struct host host_start(const char *controller, const char *instance)
{
	struct host h = host_start_as(controller, digest_of(controller), instance, RIG_JAIL);
	host_tell_it(&h, "hello");
	EXPECT(&h, "ACK 0");
	return h;
}

void host_end(struct host *h)
{
	kill(h->pid, SIGKILL);
	waitpid(h->pid, NULL, 0);
	close(h->in);
	close(h->out);
}

/* ---- the broker and the watcher ---- */

struct transport_client *watcher;
pid_t broker;
static unsigned starts;

char *log_text(void)
{
	return check_read(log_path);
}

bool log_has(const char *text)
{
	_cleanup_(free_ptr) char *log = log_text();
	return strstr(log, text) != NULL;
}

void broker_start_at(const char *config)
{
	snprintf(log_path, sizeof(log_path), "%s/broker-%u.log", check_folder(), ++starts);
	broker = check_start(log_path, (const char *[]){"reconciled-queue", "--config-dir", config,
							"--runtime-dir", run_dir, "--region-dir", shm_dir,
							"--log-level", "debug", NULL});
	CHECK(WAIT_FOR(SOON, log_has("listening")));
}

void broker_start(void)
{
	broker_start_at(conf_dir);
}

void broker_kill(void)
{
	kill(broker, SIGKILL);
	int status = check_wait(broker, SOON);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

struct wire answer;

/* After a broker's death the first call may still find the old connection: then it is asked again. */
static bool call_once(struct transport_client *c, struct span bytes, struct buf *in, int *ret_rc)
{
	struct err err = {0};
	buf_reset(in);
	*ret_rc = transport_call(c, bytes, SOON * 1000, in, &err);
	if (*ret_rc < 0 && *ret_rc != -ENOTCONN)
		fprintf(stderr, "%s\n", err.text);
	return *ret_rc != -ENOTCONN;
}

bool call(struct transport_client *c, const struct wire *m)
{
	static struct buf out, in;
	struct err err = {0};
	int rc = 0;
	buf_reset(&out);
	wire_done(&answer);
	answer = (struct wire){0};
	if (wire_encode(m, &out, &err) == 0 && WAIT_FOR(SOON, call_once(c, buf_span(&out), &in, &rc)) &&
	    rc == 0 && wire_decode(buf_span(&in), &answer, &err) == 0)
		return true;
	fprintf(stderr, "%s: %s\n", wire_type_name(m->type), err.text);
	return false;
}

const char *names[3] = {"web", "slow"};
size_t n_names = 2;

bool watcher_hello_as(const char *digest)
{
	uint64_t start;
	process_start_time(getpid(), &start);
	struct wire_loaded loaded[3];
	for (size_t i = 0; i < n_names; i++)
		loaded[i] = (struct wire_loaded){span_of(names[i]),
						 span_of(i == 0 && digest ? digest : digest_of(names[i]))};
	return call(watcher, &(struct wire){.type = WIRE_TYPE_HELLO,
					    .hello = {.version = WIRE_VERSION,
						      .role = WIRE_ROLE_WATCHER,
						      .pid = (uint32_t)getpid(),
						      .start_time = start,
						      .loaded = {loaded, n_names}}});
}

bool watcher_hello(void)
{
	return watcher_hello_as(NULL) && answer.type == WIRE_TYPE_HELLO_ACK;
}

bool add_key(const char *controller, const char *name, bool changed, unsigned cause)
{
	struct wire_add_key key = {.namespace = span_of("shop"),
				   .name = span_of(name),
				   .primary_changed = changed,
				   .cause = cause,
				   .cause_kind = span_of("ConfigMap.v1")};
	return call(watcher,
		    &(struct wire){.type = WIRE_TYPE_ADD, .add = {span_of(controller), {&key, 1}}}) &&
	       answer.type == WIRE_TYPE_ADD_ACK && answer.add_ack.accepted == 1;
}

bool add(const char *name)
{
	return add_key("web", name, false, WIRE_CAUSE_UPDATED);
}

bool status_has(const char *text)
{
	return call(watcher, &(struct wire){.type = WIRE_TYPE_STATUS, .status = {span_of("status")}}) &&
	       answer.type == WIRE_TYPE_STATUS_REPLY &&
	       memmem(answer.status_reply.json.at, answer.status_reply.json.len, text, strlen(text));
}

/* What the region says of a key of web, read as reconcilectl reads it. */
bool key_of(const char *name, struct queue_key *ret)
{
	struct queue_reader *q;
	if (queue_open(shm_dir, &q, NULL) < 0)
		return false;
	int rc = queue_find(q, span_of("web"), span_of("shop"), span_of(name), ret);
	queue_close(q);
	return rc == 0;
}

enum shm_state state_of(const char *name)
{
	struct queue_key k;
	return key_of(name, &k) ? k.state : SHM_STATE_NONE;
}

void queue_rig_init(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		exit(1);
	if (argc > 2 && strcmp(argv[1], "jail") == 0)
		exit(jail_main(argv[2]));
	if (argc > 7 && strcmp(argv[1], "host") == 0)
		exit(host_main(argv));
	signal(SIGPIPE, SIG_IGN);
	snprintf(run_dir, sizeof(run_dir), "%s/run", check_folder());
	snprintf(shm_dir, sizeof(shm_dir), "%s/shm", check_folder());
	snprintf(conf_dir, sizeof(conf_dir), "%s/conf", check_folder());
	snprintf(socket_path, sizeof(socket_path), "%s/queue.sock", run_dir);
	mkdir(conf_dir, 0700);
}
