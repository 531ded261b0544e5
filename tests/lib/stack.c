#include "stack.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder_of(const char *parent, const char *name, mode_t mode)
{
	char *path = xasprintf("%s/%s", parent, name);
	if (mkdir(path, mode) < 0 || chmod(path, mode) < 0) {
		perror(path);
		exit(1);
	}
	return path;
}

void stack_init(struct stack *s)
{
	static int n;
	_cleanup_(free_ptr) char *name = xasprintf("stack-%d", n);
	chmod(check_folder(), 0755);
	*s = (struct stack){.folder = folder_of(check_folder(), name, 0755)};
	s->config = folder_of(s->folder, "config", 0755);
	s->records = folder_of(s->folder, "records", 01777);
	s->runtime = folder_of(s->folder, "run", 0700);
	s->log = xasprintf("%s/up.log", s->folder);
	s->kubeconfig = xasprintf("%s/kubeconfig", s->runtime);
	s->region = xasprintf("/dev/shm%s-%d", strrchr(check_folder(), '/'), n++);
	stack_file(s, "reconciled.yaml",
		   "budgets: {queue: 32Mi, cache: 32Mi}\n"); /* beside those of other tests */
}

void stack_file(struct stack *s, const char *name, const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf text = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	_cleanup_(free_ptr) char *path = xasprintf("%s/%s", s->config, name);
	_cleanup_(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool script = text.len > 2 && memcmp(text.data, "#!", 2) == 0;
	if (fd < 0 || write(fd, buf_str(&text), text.len) != (ssize_t)text.len ||
	    fchmod(fd, script ? 0755 : 0644) < 0) {
		perror(path);
		exit(1);
	}
}

void stack_program(struct stack *s, const char *name)
{
	_cleanup_(free_ptr) char *from = xasprintf("%s/%s", getenv("BIN"), name);
	_cleanup_(free_ptr) char *to = xasprintf("%s/%s", s->config, name);
	_cleanup_(close_fd) int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_(close_fd) int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t n = 1;
	while (in >= 0 && out >= 0 && (n = sendfile(out, in, NULL, 1 << 20)) > 0)
		;
	if (in < 0 || out < 0 || n < 0 || fchmod(out, 0755) < 0) {
		perror(from);
		exit(1);
	}
}

int stack_api(struct stack *s, const char *method, const char *content_type, const char *body,
	      struct buf *answer, const char *path_fmt, ...)
{
	_cleanup_(buf_done) struct buf path = {0}, dropped = {0};
	va_list ap;
	va_start(ap, path_fmt);
	buf_vprintf(&path, path_fmt, ap);
	va_end(ap);
	struct http_request r = {.method = method,
				 .path = buf_str(&path),
				 .content_type = content_type,
				 .body = span_of(body),
				 .timeout_ms = SOON * 1000};
	struct http_result h = {0};
	struct err err = {0};
	if (http_do(s->http, &r, &h, answer ? answer : &dropped, &err) < 0)
		return 0;
	return h.status;
}

static bool api_ready(struct stack *s, const char *kubeconfig)
{
	struct err err = {0};
	if (!s->http) {
		struct kubeconfig k = {0};
		if (kubeconfig_load(kubeconfig, NULL, &k, &err) < 0)
			return false;
		http_client_new(&k, "test", &s->http, &err);
		kubeconfig_done(&k);
	}
	return s->http && stack_api(s, "GET", NULL, NULL, NULL, "/readyz") == 200;
}

bool stack_connect(struct stack *s, const char *kubeconfig)
{
	return WAIT_FOR(SOON, api_ready(s, kubeconfig));
}

void stack_start_on(struct stack *s, const char *kubeconfig)
{
	s->up = check_start(s->log, (const char *const[]){"reconcilectl", "up", "-f", s->config,
							  "--runtime-dir", s->runtime, "--region-dir",
							  s->region, "--kubeconfig", kubeconfig, NULL});
}

void stack_start(struct stack *s)
{
	s->up =
	    check_start(s->log, (const char *const[]){"reconcilectl", "up", "-f", s->config, "--runtime-dir",
						      s->runtime, "--region-dir", s->region, NULL});
	if (stack_connect(s, s->kubeconfig))
		return;
	_cleanup_(free_ptr) char *log = check_read(s->log);
	fprintf(stderr, "the API server did not start:\n%s\n", log);
	CHECK_MSG(false, "the API server did not start");
	exit(check_result());
}

int stack_stop(struct stack *s)
{
	kill(s->up, SIGTERM);
	int status = check_wait(s->up, SOON);
	_cleanup_(free_ptr) char *command = xasprintf("rm -rf %s", s->region);
	if (system(command) != 0)
		perror(command);
	http_client_free(s->http);
	s->http = NULL;
	return status;
}

void stack_done(struct stack *s)
{
	char *texts[] = {s->folder, s->config, s->records, s->runtime, s->log, s->kubeconfig, s->region};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]);
	*s = (struct stack){0};
}

const char *stack_role_name(enum stack_role r)
{
	static const char *const names[] = {"broker", "watcher", "host", "launcher", "init", "child"};
	return names[r];
}

/* ---- /proc ---- */

struct process {
	pid_t pid, parent;
	char comm[16];
};

static size_t processes(struct process *at, size_t max)
{
	size_t n = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && n < max && (e = readdir(d));) {
		char path[300], line[512] = "";
		if (*e->d_name < '1' || *e->d_name > '9')
			continue;
		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		char *open = fgets(line, sizeof line, f) ? strchr(line, '(') : NULL,
		     *close = open ? strrchr(line, ')') : NULL;
		fclose(f);
		char state;
		if (!close || sscanf(close + 1, " %c %d", &state, &at[n].parent) != 2 || state == 'Z')
			continue;
		at[n].pid = atoi(e->d_name);
		snprintf(at[n].comm, sizeof at[n].comm, "%.*s", (int)(close - open - 1), open + 1);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

static const struct process *find(const struct process *all, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].pid == pid)
			return &all[i];
	return NULL;
}

/* The role of a process below `up`, by its name (15 bytes of it) and by who its parent is; -1: none. */
static int role_of(const struct stack *s, const struct process *all, size_t n, const struct process *p)
{
	const struct process *parent = find(all, n, p->parent),
			     *grand = parent ? find(all, n, parent->parent) : NULL;
	bool ours = p->parent == s->up;
	if (ours && strcmp(p->comm, "reconciled-queu") == 0)
		return ROLE_BROKER;
	if (ours && strcmp(p->comm, "reconciled-watc") == 0)
		return ROLE_WATCHER;
	if (ours && strcmp(p->comm, "reconciled-work") == 0)
		return ROLE_HOST;
	if (!parent || !grand)
		return -1;
	if (parent->parent == s->up && strcmp(p->comm, "reconciled-jail") == 0)
		return ROLE_LAUNCHER;
	if (grand->parent == s->up && strcmp(p->comm, "reconciled-jail") == 0)
		return ROLE_INIT;
	const struct process *great = find(all, n, grand->parent);
	return great && great->parent == s->up && strcmp(parent->comm, "reconciled-jail") == 0 ? ROLE_CHILD
											       : -1;
}

size_t stack_pids(const struct stack *s, enum stack_role r, pid_t *pids, size_t max)
{
	static struct process all[8192];
	size_t n = processes(all, ARRAY_SIZE(all)), found = 0;
	for (size_t i = 0; i < n && found < max; i++)
		if (role_of(s, all, n, &all[i]) == (int)r)
			pids[found++] = all[i].pid;
	return found;
}

char *stack_status(const struct stack *s, const char *options)
{
	_cleanup_(free_ptr) char *command = xasprintf(
	    "reconcilectl status %s --runtime-dir %s --region-dir %s 2>&1", options, s->runtime, s->region);
	FILE *f = popen(command, "re");
	struct buf out = {0};
	char chunk[4096];
	for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
		buf_add(&out, chunk, n);
	if (f)
		pclose(f);
	buf_putc(&out, 0);
	return buf_steal(&out);
}

bool stack_logged(const struct stack *s, const char *text)
{
	_cleanup_(free_ptr) char *log = check_read(s->log);
	return strstr(log, text) != NULL;
}
