/* reconciled-apiserver: a Kubernetes API server in memory, for trying, tests and the edge. */
#include "access.h"
#include "api.h"
#include "collector.h"
#include "kubeconfig_write.h"
#include "program.h"
#include "seed.h"
#include "server.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOOK_NS (5 * NS_PER_S) /* between two looks whether the kubeconfig is in place */
enum { SPARE_DESCRIPTORS = 64, DRAIN_SECONDS = 30, FIRST_VERSION_NS = 100000 /* see storage.h */ };

static struct {
	const char *listen, *write_kubeconfig;
	struct access_files files;
	const char *history, *storage_limit, *max_connections, *bookmark_interval;
	bool no_watch_list;
} arg = {.listen = "127.0.0.1:8901",
	 .history = "10000",
	 .storage_limit = "1024",
	 .max_connections = "1024",
	 .bookmark_interval = "60"};

static const struct program_option options[] = {
    {"listen", 0, "ADDRESS:PORT", "where to listen (127.0.0.1:8901); port 0: a free one", &arg.listen, NULL,
     NULL},
    {"token-file", 0, "FILE", "clients must send the bearer token in its first line", &arg.files.token, NULL,
     NULL},
    {"tls-cert", 0, "FILE", "PEM certificate: serve HTTPS", &arg.files.cert, NULL, NULL},
    {"tls-key", 0, "FILE", "PEM key of the certificate", &arg.files.key, NULL, NULL},
    {"self-signed", 0, "FILE",
     "serve HTTPS on the loopback with a certificate of its own, made and kept in FILE",
     &arg.files.self_signed, NULL, NULL},
    {"client-ca", 0, "FILE", "accept clients with a certificate of this authority", &arg.files.client_ca,
     NULL, NULL},
    {"write-kubeconfig", 0, "FILE", "write a kubeconfig for this server when it listens",
     &arg.write_kubeconfig, NULL, NULL},
    {"history", 0, "N", "events kept for each kind (10000); what is older is answered with 410", &arg.history,
     NULL, NULL},
    {"storage-limit", 0, "MIB", "how much the objects may take (1024)", &arg.storage_limit, NULL, NULL},
    {"max-connections", 0, "N", "connections at a time, watches included (1024)", &arg.max_connections, NULL,
     NULL},
    {"bookmark-interval", 0, "SECONDS", "how often a watch gets a bookmark (60)", &arg.bookmark_interval,
     NULL, NULL},
    {"no-watch-list", 0, NULL, "refuse sendInitialEvents, as servers without the feature WatchList do", NULL,
     &arg.no_watch_list, NULL},
    {0},
};

static unsigned number(const char *option, const char *text, unsigned long max)
{
	char *end;
	errno = 0;
	unsigned long n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > max) {
		fprintf(stderr, "reconciled-apiserver: --%s %s: give a number from 1 to %lu\n", option, text,
			max);
		exit(EXIT_USAGE);
	}
	return (unsigned)n;
}

static int refuse(int status, const struct err *err)
{
	log_error("cannot start", LOG_S("cause", err->text));
	return status;
}

/* Who may reach the server must have been decided by somebody. */
static int check_exposure(bool loopback, const struct access *a, struct err *err)
{
	if (loopback || (a->cert && (a->token || a->client_ca)))
		return 0;
	return err_set(err, -EINVAL,
		       "--listen %s is reachable from other machines: give --tls-cert and --tls-key, and "
		       "--token-file or --client-ca, "
		       "or listen on 127.0.0.1",
		       arg.listen);
}

static int announce(const struct access *a, unsigned port, struct err *err)
{
	size_t n = (size_t)(strrchr(arg.listen, ':') - arg.listen);
	bool any = !strncmp(arg.listen, "0.0.0.0:", 8), any6 = !strncmp(arg.listen, "[::]:", 5);
	_cleanup_(free_ptr) char *url = xasprintf("%s://" SPAN_FMT ":%u", a->cert ? "https" : "http",
						  any	 ? 9
						  : any6 ? 5
							 : (int)n,
						  any	 ? "127.0.0.1"
						  : any6 ? "[::1]"
							 : arg.listen,
						  port);
	int r =
	    arg.write_kubeconfig ? kubeconfig_write(arg.write_kubeconfig, url, a->token, a->cert, err) : 0;
	if (r == 0)
		log_info("listening", LOG_S("url", url));
	return r;
}

static void reload(struct access *a)
{
	struct err err = {0};
	program_notify("RELOADING=1");
	if (access_reload(a, &err) < 0)
		log_error("the old token stays", LOG_S("cause", err.text));
	else
		log_info("reloaded");
	program_notify("READY=1");
}

/* Somebody deleted the kubeconfig, perhaps with its folder: whoever starts next needs it. */
static void keep_kubeconfig(const struct access *a, unsigned port)
{
	struct err err;
	if (!arg.write_kubeconfig || access(arg.write_kubeconfig, F_OK) == 0)
		return;
	if (announce(a, port, &err) == 0)
		log_warning("the kubeconfig was deleted: it is written again",
			    LOG_S("path", arg.write_kubeconfig));
}

/* Until a signal asks for the end. */
static void serve(int signals, struct access *a, unsigned port)
{
	int64_t watchdog = program_watchdog_ns(), look = watchdog ? MIN(watchdog, LOOK_NS) : LOOK_NS;
	for (;;) {
		struct pollfd p = {.fd = signals, .events = POLLIN};
		struct signalfd_siginfo info;
		int n = poll(&p, 1, (int)(look / NS_PER_MS));
		if (watchdog)
			program_notify("WATCHDOG=1");
		keep_kubeconfig(a, port);
		if (n <= 0 || read(signals, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo != SIGHUP)
			return;
		reload(a);
	}
}

/* From here on a second signal, or the end of the drain, ends the process at once. */
static void drain(void)
{
	sigset_t set;
	program_notify("STOPPING=1");
	log_info("stopping");
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	alarm(DRAIN_SECONDS);
}

/* One descriptor for each connection; the soft limit is often lower. */
static void raise_descriptors(unsigned connections)
{
	struct rlimit limit;
	rlim_t wanted = connections + SPARE_DESCRIPTORS;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = MIN(wanted, limit.rlim_max);
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < wanted)
		log_warning("fewer connections than --max-connections are possible",
			    LOG_I("descriptors", limit.rlim_cur));
}

static int run(struct access *a, int fd, unsigned port, int signals)
{
	struct err err = {0};
	struct server *server;
	pthread_t collector;
	struct server_options o = {
	    .fd = fd,
	    .max_connections = number("max-connections", arg.max_connections, 100000),
	    .bookmark_interval_ns = number("bookmark-interval", arg.bookmark_interval, 86400) * NS_PER_S,
	    .no_watch_list = arg.no_watch_list,
	};
	unsigned history = number("history", arg.history, 10000000),
		 limit = number("storage-limit", arg.storage_limit, 1 << 20);
	raise_descriptors(o.max_connections);
	struct storage *s =
	    storage_new(history, (uint64_t)limit << 20, (uint64_t)clock_realtime_ns() / FIRST_VERSION_NS);
	seed_namespaces(s, clock_realtime_ns() / NS_PER_S);
	if (collector_start(s, &collector) < 0 || server_start(s, a, &o, &server, &err) < 0)
		return refuse(EXIT_FAILURE, &err);
	if (announce(a, port, &err) < 0)
		return refuse(EXIT_FAILURE, &err);
	program_notify("READY=1\nSTATUS=Serving on port %u", port);
	serve(signals, a, port);
	drain();
	storage_stop(s);
	server_stop(server);
	pthread_join(collector, NULL);
	storage_free(s);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct program p;
	struct access access;
	struct err err = {0};
	unsigned port;
	bool loopback;
	int fd;
	int next = program_options(&p, "reconciled-apiserver", "reconciled-apiserver [OPTION]...",
				   "Serves the Kubernetes API from memory, for trying, tests and the edge.",
				   options, argc, argv);
	if (next < argc) {
		fprintf(stderr, "reconciled-apiserver: unexpected argument: %s\n", argv[next]);
		return EXIT_USAGE;
	}
	int signals = program_signals(false);
	if (signals < 0)
		return EXIT_FAILURE;
	if (access_init(&access, &arg.files, &err) < 0)
		return refuse(EXIT_CONFIG, &err);
	int status = EXIT_FAILURE;
	if (server_listen(arg.listen, &fd, &port, &loopback, &err) < 0)
		status = refuse(EXIT_FAILURE, &err);
	else if (check_exposure(loopback, &access, &err) < 0)
		status = refuse(EXIT_CONFIG, &err);
	else
		status = run(&access, fd, port, signals);
	access_done(&access);
	return status;
}
