/* The reconciler of DatabaseCluster, with libreconcile.
 *
 * What is looked at each time, in this order: the settings it names, its password, what of it runs. What is
 * said each time: the full set of its children, its conditions, its primary. Nothing is remembered between
 * two requests; what has to last stands in the object's status (bootstrapped, primary) or in a child (the
 * password). */
#include <reconcile.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { PORT = 5432, PASSWORD_BYTES = 18, BOOTSTRAP_MS = 10000 };

/* What one request is about. */
struct cluster {
	struct reconcile_value object, settings,
	    set; /* settings: the data of its ConfigMap; set: its StatefulSet */
	const char *name;
	int64_t replicas, ready;
	bool current; /* the StatefulSet is as we want it, and whoever runs it has seen that */
	char password[PASSWORD_BYTES / 3 * 4 + 1]; /* base64, as a Secret has it */
	char config[17];			   /* a digest: pods restart when it changes */
};

/* ---- the settings ---- */

static int find_settings(struct reconcile_request *req, struct reconcile_response *res, struct cluster *c)
{
	const char *name = reconcile_text(c->object, "spec.configMapName", "");
	struct reconcile_value map;
	if (!*name)
		return 0;
	if (reconcile_read(req, "v1", "ConfigMap", NULL, name, RECONCILE_CACHED, &map) < 0)
		return reconcile_error(res, RECONCILE_TRANSIENT, "ReadFailed", "ConfigMap %s: %s", name,
				       reconcile_read_error(req));
	if (!reconcile_exists(map)) { /* no failure: its creation is an event that brings us back */
		reconcile_condition(res, "Ready", RECONCILE_FALSE, "SettingsMissing",
				    "there is no ConfigMap %s", name);
		return reconcile_error(res, RECONCILE_NOT_READY, "SettingsMissing",
				       "there is no ConfigMap %s", name);
	}
	c->settings = reconcile_get(map, "data");
	return 0;
}

/* FNV-1a of the text: enough to see a change. */
static void digest(const char *text, char out[17])
{
	uint64_t h = UINT64_C(14695981039346656037);
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
	snprintf(out, 17, "%016llx", (unsigned long long)h);
}

/* ---- the password ---- */

static int new_password(char out[PASSWORD_BYTES / 3 * 4 + 1])
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char raw[PASSWORD_BYTES];
	if (getrandom(raw, sizeof raw, 0) != sizeof raw)
		return -1;
	for (size_t i = 0; i < PASSWORD_BYTES; i += 3) {
		unsigned n = (unsigned)raw[i] << 16 | (unsigned)raw[i + 1] << 8 | raw[i + 2];
		for (int k = 0; k < 4; k++)
			*out++ = digits[n >> (18 - 6 * k) & 63];
	}
	*out = 0;
	return 0;
}

/* Generated once. The cache may not know yet what an earlier attempt wrote: so before a new one is made the
 * API server itself is asked. */
static int find_password(struct reconcile_request *req, struct reconcile_response *res, struct cluster *c)
{
	char name[300];
	snprintf(name, sizeof name, "%s-password", c->name);
	struct reconcile_value secret = reconcile_child(req, "Secret.v1", name);
	if (!reconcile_exists(secret) &&
	    reconcile_read(req, "v1", "Secret", NULL, name, RECONCILE_LIVE, &secret) < 0)
		return reconcile_error(res, RECONCILE_TRANSIENT, "ReadFailed", "Secret %s: %s", name,
				       reconcile_read_error(req));
	const char *known = reconcile_text(secret, "data.password", "");
	if (strlen(known) == sizeof c->password - 1) {
		strcpy(c->password, known);
		return 0;
	}
	if (new_password(c->password) < 0)
		return reconcile_error(res, RECONCILE_TRANSIENT, "NoRandom",
				       "the system gives no random bytes");
	reconcile_event(res, "Normal", "PasswordGenerated", "a password was generated into Secret %s", name);
	return 0;
}

/* ---- children ---- */

#define LABELS                                                                                               \
	"'app.kubernetes.io/name': 'database', 'app.kubernetes.io/instance': %s, "                           \
	"'app.kubernetes.io/managed-by': 'database-example'"

static void add_children(struct reconcile_response *res, struct cluster *c)
{
	reconcile_child_add(
	    res,
	    "{'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': '%s-password', 'labels': {" LABELS
	    "}},"
	    " 'type': 'Opaque', 'data': {'password': %s}}",
	    c->name, c->name, c->password);
	reconcile_child_add(
	    res,
	    "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': '%s-config', 'labels': {" LABELS
	    "}},"
	    " 'data': {'port': '%d', 'settings.json': '%s'}}",
	    c->name, c->name, PORT, reconcile_json(c->settings));
	reconcile_child_add(
	    res,
	    "{'apiVersion': 'apps/v1', 'kind': 'StatefulSet', 'metadata': {'name': %s, 'labels': {" LABELS
	    "}},"
	    " 'spec': {'serviceName': %s, 'replicas': %lld, 'selector': {'matchLabels': "
	    "{'app.kubernetes.io/instance': %s}},"
	    "  'template': {"
	    "   'metadata': {'labels': {" LABELS "}, 'annotations': {'database.example.com/config': %s}},"
	    "   'spec': {'containers': [{'name': 'database', 'image': 'postgres:16', 'ports': "
	    "[{'containerPort': %d, 'protocol': 'TCP'}],"
	    "    'env': [{'name': 'POSTGRES_PASSWORD', 'valueFrom': {'secretKeyRef': {'name': '%s-password', "
	    "'key': 'password'}}}],"
	    "    'envFrom': [{'configMapRef': {'name': '%s-config'}}]}]}}}}",
	    c->name, c->name, c->name, (long long)c->replicas, c->name, c->name, c->config, PORT, c->name,
	    c->name);
	reconcile_child_add(
	    res,
	    "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': %s, 'labels': {" LABELS "}},"
	    " 'spec': {'clusterIP': 'None', 'selector': {'app.kubernetes.io/instance': %s},"
	    "  'ports': [{'name': 'database', 'port': %d, 'protocol': 'TCP', 'targetPort': %d}]}}",
	    c->name, c->name, c->name, PORT, PORT);
}

/* ---- what runs ---- */

static void look_at_set(struct reconcile_request *req, struct cluster *c)
{
	c->set = reconcile_child(req, "StatefulSet.apps/v1", c->name);
	c->ready = reconcile_int(c->set, "status.readyReplicas", 0);
	const char *config =
	    reconcile_text(c->set, "spec.template.metadata.annotations['database.example.com/config']", "");
	c->current = reconcile_int(c->set, "spec.replicas", -1) == c->replicas &&
		     strcmp(config, c->config) == 0 &&
		     reconcile_int(c->set, "status.observedGeneration", -1) ==
			 reconcile_int(c->set, "metadata.generation", 0);
}

/* The primary stays while it is ready; else the lowest ready ordinal is elected. A StatefulSet starts them in
 * order, so the ready ones are 0 to ready - 1. */
static void elect(struct reconcile_response *res, struct cluster *c)
{
	const char *primary = reconcile_text(c->object, "status.primary", "");
	size_t n = strlen(c->name);
	int64_t ordinal = -1;
	if (strncmp(primary, c->name, n) == 0 && primary[n] == '-')
		sscanf(primary + n + 1, "%ld", &ordinal);
	if (ordinal >= 0 && ordinal < c->ready && ordinal < c->replicas)
		return;
	if (c->ready == 0) {
		reconcile_status(res, "primary", "null");
		return;
	}
	reconcile_status(res, "primary", "'%s-0'", c->name);
	reconcile_event(res, "Normal", "PrimaryElected", "%s-0 is the primary", c->name);
}

static void tell_conditions(struct reconcile_response *res, const struct cluster *c)
{
	bool all = c->current && c->ready >= c->replicas;
	long long ready = (long long)c->ready, replicas = (long long)c->replicas;
	reconcile_condition(res, "Ready", all ? RECONCILE_TRUE : RECONCILE_FALSE,
			    all ? "AllReady" : "NotAllReady", "%lld of %lld replicas are ready", ready,
			    replicas);
	reconcile_condition(res, "Progressing", all ? RECONCILE_FALSE : RECONCILE_TRUE,
			    all ? "Complete" : "RollingOut",
			    all		 ? "as specified"
			    : c->current ? "replicas are starting"
					 : "the StatefulSet is being changed");
	bool degraded = c->current && c->ready > 0 && !all;
	reconcile_condition(res, "Degraded", degraded ? RECONCILE_TRUE : RECONCILE_FALSE,
			    degraded ? "ReplicasMissing" : "AsExpected", "%lld of %lld replicas are ready",
			    ready, replicas);
}

/* The first replica that is ready is where a database initializes itself: done once, and written down. */
static void follow(struct reconcile_response *res, struct cluster *c)
{
	bool bootstrapped = reconcile_bool(c->object, "status.bootstrapped", false);
	if (!bootstrapped && c->ready == 0) { /* nothing is wrong: it takes its time */
		reconcile_condition(res, "Ready", RECONCILE_FALSE, "Bootstrapping",
				    "the first replica is not ready yet");
		reconcile_condition(res, "Progressing", RECONCILE_TRUE, "Bootstrapping",
				    "the first replica is starting");
		reconcile_condition(res, "Degraded", RECONCILE_FALSE, "AsExpected",
				    "the cluster is starting");
		reconcile_requeue_after_ms(res, BOOTSTRAP_MS);
		return;
	}
	if (!bootstrapped) {
		reconcile_status(res, "bootstrapped", "true");
		reconcile_event(res, "Normal", "Bootstrapped", "%s-0 was initialized", c->name);
	}
	reconcile_status(res, "readyReplicas", "%lld", (long long)c->ready);
	elect(res, c);
	tell_conditions(res, c);
}

/* ---- the reconciler ---- */

/* A real bug behind a field of the specification, for the demo: a pointer that points nowhere. */
static int crash(void)
{
	const struct cluster *volatile nowhere = NULL;
	return (int)nowhere->replicas;
}

static int reconcile(struct reconcile_request *req, struct reconcile_response *res, void *context)
{
	(void)context;
	struct cluster c = {.object = reconcile_object(req), .name = reconcile_name(req)};
	if (!reconcile_exists(c.object))
		return 0; /* gone, and its children go with it */
	if (reconcile_finalizing(req)) {
		/* Here what lies outside of the cluster would be given back: a DNS name, a bucket with
		 * backups. */
		reconcile_event(res, "Normal", "CleanedUp", "the database is given up");
		reconcile_children_managed(res); /* none: prune deletes what is there */
		reconcile_finalized(res);
		return 0;
	}
	if (reconcile_bool(c.object, "spec.crash", false))
		return crash();
	c.replicas = reconcile_int(c.object, "spec.replicas", 1);
	if (c.replicas < 1 || c.replicas > 100) {
		reconcile_condition(res, "Ready", RECONCILE_FALSE, "InvalidSpec",
				    "spec.replicas must be 1 to 100");
		return reconcile_error(res, RECONCILE_TERMINAL, "InvalidSpec",
				       "spec.replicas is %lld: it must be 1 to 100", (long long)c.replicas);
	}
	if (find_settings(req, res, &c) < 0 || find_password(req, res, &c) < 0)
		return -1;
	digest(reconcile_json(c.settings), c.config);
	look_at_set(req, &c);
	add_children(res, &c);
	follow(res, &c);
	return 0;
}

int main(int argc, char **argv)
{
	return reconcile_main(argc, argv, &(struct reconcile_handler){.reconcile = reconcile});
}
