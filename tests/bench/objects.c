#include "objects.h"
#include <stdio.h>

/* splitmix64: each object has its own sequence. */
struct random {
	uint64_t state;
};
static uint64_t next(struct random *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}
static struct random seeded(uint64_t kind, uint64_t i)
{
	struct random r = {kind * UINT64_C(0x2545f4914f6cdd1d) + i};
	r.state = next(&r);
	return r;
}
static unsigned below(struct random *r, unsigned n)
{
	return (unsigned)(next(r) % n);
}
enum { POD = 1, DATABASE, OWNER, IMAGE, WORD, STATUS };

static void put_digits(struct buf *out, struct random *r, const char *digits, unsigned base, size_t n)
{
	while (n--)
		buf_putc(out, digits[below(r, base)]);
}
static void put_hex(struct buf *out, struct random *r, size_t n)
{
	put_digits(out, r, "0123456789abcdef", 16, n);
}
/* As Kubernetes makes suffixes: no vowels. */
static void put_suffix(struct buf *out, struct random *r, size_t n)
{
	put_digits(out, r, "bcdfghjklmnpqrstvwxz2456789", 27, n);
}
static void put_base64(struct buf *out, struct random *r, size_t n)
{
	put_digits(out, r, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 64, n);
}
static void put_uid(struct buf *out, struct random *r)
{
	static const unsigned parts[] = {8, 4, 4, 4, 12};
	for (size_t k = 0; k < ARRAY_SIZE(parts); k++) {
		if (k)
			buf_putc(out, '-');
		put_hex(out, r, parts[k]);
	}
}
static void put_time(struct buf *out, struct random *r)
{
	char text[21];
	buf_puts(out, format_rfc3339((int64_t)(1750000000 + next(r) % 20000000), text));
}
static void put_address(struct buf *out, struct random *r)
{
	buf_printf(out, "10.%u.%u.%u", below(r, 256), below(r, 256), below(r, 256));
}
/* Word number w of a language of its own, two to four syllables. */
static void put_word(struct buf *out, unsigned w)
{
	struct random r = seeded(WORD, w);
	for (unsigned n = 2 + below(&r, 3); n--;) {
		buf_putc(out, "bcdfghklmnprstvz"[below(&r, 16)]);
		buf_putc(out, "aeiou"[below(&r, 5)]);
		if (below(&r, 3) == 0)
			buf_putc(out, "nrst"[below(&r, 4)]);
	}
}
/* Some words are much more frequent than others, as in any text. */
static void put_text(struct buf *out, struct random *r, unsigned words)
{
	for (unsigned n = 0; n < words; n++) {
		if (n)
			buf_putc(out, ' ');
		put_word(out, below(r, 2) ? below(r, 300) : below(r, 12000));
	}
}
static const char *const teams[] = {"payments", "search",  "checkout", "identity",
				    "billing",	"catalog", "shipping", "media"};

static void place_of(uint64_t kind, uint32_t i, const char *what, char namespace[64], char name[64])
{
	struct random r = seeded(kind, i / 100);
	struct buf b = {0};
	unsigned n = below(&r, OBJECTS_NAMESPACES);
	snprintf(namespace, 64, "%s-%s", teams[n % ARRAY_SIZE(teams)],
		 n % 3 == 0   ? "prod"
		 : n % 3 == 1 ? "staging"
			      : "dev");
	if (n >= 24)
		snprintf(namespace, 64, "team-%02u", n);
	put_word(&b, below(&r, 400));
	buf_printf(&b, "-%s-", what);
	put_suffix(&b, &r, 9);
	buf_putc(&b, '-');
	r = seeded(kind + 100, i);
	put_suffix(&b, &r, 5);
	buf_printf(&b, "%x", i % 256);
	snprintf(name, 64, "%s", buf_str(&b));
	buf_done(&b);
}
void objects_pod_name(uint32_t i, char namespace[64], char name[64])
{
	place_of(POD, i, "api", namespace, name);
}
void objects_custom_name(uint32_t i, char namespace[64], char name[64])
{
	place_of(DATABASE, i, "db", namespace, name);
}

void objects_owner(uint32_t i, char uid[37])
{
	struct random r = seeded(OWNER, i / 100);
	struct buf b = {0};
	put_uid(&b, &r);
	snprintf(uid, 37, "%s", buf_str(&b));
	buf_done(&b);
}

static void put_metadata(struct buf *out, struct random *r, uint32_t i, uint64_t version,
			 const char *namespace, const char *name, const char *owner_version,
			 const char *owner_kind)
{
	char owner[37];
	objects_owner(i, owner);
	size_t stem = strlen(name) - 5;
	const char *team = teams[below(r, ARRAY_SIZE(teams))];
	buf_printf(out,
		   "\"metadata\":{\"name\":\"%s\",\"generateName\":\"%.*s-\",\"namespace\":\"%s\",\"uid\":\"",
		   name, (int)stem, name, namespace);
	put_uid(out, r);
	buf_printf(out, "\",\"resourceVersion\":\"%llu\",\"generation\":%u,\"creationTimestamp\":\"",
		   (unsigned long long)version, 1 + below(r, 9));
	put_time(out, r);
	buf_printf(out,
		   "\",\"labels\":{\"app.kubernetes.io/name\":\"%.*s\",\"app.kubernetes.io/"
		   "version\":\"%u.%u.%u\",\"example.com/team\":\"%s\",",
		   (int)(stem - 10), name, below(r, 4), below(r, 30), below(r, 20), team);
	buf_puts(out, "\"pod-template-hash\":\"");
	put_suffix(out, r, 10);
	buf_puts(out, "\"},\"annotations\":{\"checksum/config\":\"");
	put_hex(out, r, 64);
	buf_puts(out, "\",\"example.com/deployed-by\":\"");
	put_word(out, below(r, 200));
	buf_printf(out, "@example.com\",\"kubectl.kubernetes.io/restartedAt\":\"");
	put_time(out, r);
	buf_printf(out,
		   "\"},\"ownerReferences\":[{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"%.*s\","
		   "\"uid\":\"%s\",\"controller\":true,\"blockOwnerDeletion\":true}]}",
		   owner_version, owner_kind, (int)stem - 1, name, owner);
}

static void put_image(struct buf *out, unsigned image, bool digest)
{
	struct random r = seeded(IMAGE, image);
	buf_puts(out, "registry.example.com/");
	put_word(out, image % 50);
	buf_putc(out, '/');
	put_word(out, image);
	if (!digest) {
		buf_printf(out, ":%u.%u.%u", below(&r, 4), below(&r, 30), below(&r, 20));
		return;
	}
	buf_puts(out, "@sha256:");
	put_hex(out, &r, 64);
}

static void put_environment(struct buf *out, struct random *r, unsigned n)
{
	static const char *const names[] = {
	    "DATABASE_URL", "CACHE_ADDR", "LOG_LEVEL",	"FEATURE_FLAGS", "OTEL_EXPORTER_OTLP_ENDPOINT",
	    "REGION",	    "QUEUE_URL",  "SENTRY_DSN", "BUILD_SHA",	 "REQUEST_TIMEOUT"};
	for (unsigned k = 0; k < n; k++) {
		buf_printf(out, "%s{\"name\":\"%s\",\"value\":\"", k ? "," : "",
			   names[k % ARRAY_SIZE(names)]);
		switch (k) {
		case 0:
		case 6:
			put_word(out, below(r, 3000));
			buf_puts(out, "://");
			put_word(out, below(r, 3000));
			buf_puts(out, ".svc.cluster.local:");
			buf_printf(out, "%u/", 1024 + below(r, 60000));
			put_word(out, below(r, 3000));
			break;
		case 7:
		case 8:
			put_hex(out, r, 40);
			break;
		default:
			put_text(out, r, 1 + below(r, 3));
		}
		buf_puts(out, "\"}");
	}
	buf_puts(out, ",{\"name\":\"POD_NAME\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\","
		      "\"fieldPath\":\"metadata.name\"}}}");
}

static void put_container(struct buf *out, struct random *r, unsigned n, const char *token)
{
	buf_puts(out, "{\"name\":\"");
	put_word(out, below(r, 400));
	buf_puts(out, "\",\"image\":\"");
	put_image(out, below(r, 300), false);
	buf_puts(out, "\",\"args\":[\"--config=/etc/app/config.yaml\",\"--zone=");
	put_word(out, below(r, 100));
	buf_printf(out,
		   "\",\"--port=%u\"],\"ports\":[{\"name\":\"http\",\"containerPort\":%u,\"protocol\":"
		   "\"TCP\"}],\"env\":[",
		   8000 + below(r, 1000), 8000 + below(r, 1000));
	put_environment(out, r, n);
	buf_printf(out,
		   "],\"resources\":{\"limits\":{\"cpu\":\"%u\",\"memory\":\"%uMi\"},\"requests\":{\"cpu\":"
		   "\"%um\",\"memory\":\"%uMi\"}},",
		   3 + below(r, 8), 64 * (30 + below(r, 60)), 50 * (1 + below(r, 60)),
		   32 * (1 + below(r, 60)));
	buf_printf(out,
		   "\"volumeMounts\":[{\"name\":\"config\",\"mountPath\":\"/etc/"
		   "app\"},{\"name\":\"kube-api-access-%s\",\"readOnly\":true,\"mountPath\":\"/var/run/"
		   "secrets/kubernetes.io/serviceaccount\"}],",
		   token);
	buf_printf(out,
		   "\"readinessProbe\":{\"httpGet\":{\"path\":\"/"
		   "healthz\",\"port\":\"http\",\"scheme\":\"HTTP\"},\"timeoutSeconds\":%u,\"periodSeconds\":"
		   "%u,\"successThreshold\":1,\"failureThreshold\":3},",
		   1 + below(r, 5), 5 + below(r, 25));
	buf_puts(
	    out,
	    "\"terminationMessagePath\":\"/dev/"
	    "termination-log\",\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":\"IfNotPresent\"}");
}

static void put_pod_status(struct buf *out, struct random *r, unsigned containers)
{
	static const char *const types[] = {"Initialized", "Ready", "ContainersReady", "PodScheduled"};
	buf_puts(out, "\"status\":{\"phase\":\"Running\",\"conditions\":[");
	for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
		buf_printf(
		    out,
		    "%s{\"type\":\"%s\",\"status\":\"True\",\"lastProbeTime\":null,\"lastTransitionTime\":\"",
		    k ? "," : "", types[k]);
		put_time(out, r);
		buf_puts(out, "\"}");
	}
	buf_puts(out, "],\"hostIP\":\"");
	put_address(out, r);
	buf_puts(out, "\",\"podIP\":\"");
	put_address(out, r);
	buf_puts(out, "\",\"startTime\":\"");
	put_time(out, r);
	buf_puts(out, "\",\"containerStatuses\":[");
	for (unsigned k = 0; k < containers; k++) {
		unsigned image = below(r, 300);
		buf_printf(out, "%s{\"name\":\"", k ? "," : "");
		put_word(out, below(r, 400));
		buf_puts(out, "\",\"state\":{\"running\":{\"startedAt\":\"");
		put_time(out, r);
		buf_printf(out, "\"}},\"lastState\":{},\"ready\":true,\"restartCount\":%u,\"image\":\"",
			   below(r, 20));
		put_image(out, image, false);
		buf_puts(out, "\",\"imageID\":\"");
		put_image(out, image, true);
		buf_puts(out, "\",\"containerID\":\"containerd://");
		put_hex(out, r, 64);
		buf_puts(out, "\",\"started\":true}");
	}
	buf_puts(out, "],\"qosClass\":\"Burstable\"}");
}

void objects_pod(struct buf *out, uint32_t i, uint64_t version)
{
	char namespace[64], name[64], token[6];
	struct random r = seeded(POD + 200, i), status = seeded(STATUS + version, i);
	struct buf t = {0};
	objects_pod_name(i, namespace, name);
	put_suffix(&t, &r, 5);
	snprintf(token, sizeof token, "%s", buf_str(&t));
	buf_done(&t);
	buf_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",");
	/* of a kind that no API server has: its collector leaves the pods alone */
	put_metadata(out, &r, i, version, namespace, name, "apps.example.com/v1", "ReplicaSet");
	buf_printf(out,
		   ",\"spec\":{\"volumes\":[{\"name\":\"config\",\"configMap\":{\"name\":\"%.20s-config\","
		   "\"defaultMode\":420}},",
		   name);
	buf_printf(
	    out,
	    "{\"name\":\"kube-api-access-%s\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{"
	    "\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca.crt\","
	    "\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}}],\"defaultMode\":420}}],\"containers\":[",
	    token);
	put_container(out, &r, 7 + below(&r, 4), token);
	buf_printf(out,
		   "],\"restartPolicy\":\"Always\",\"terminationGracePeriodSeconds\":%u,\"dnsPolicy\":"
		   "\"ClusterFirst\",\"serviceAccountName\":\"",
		   30 + below(&r, 60));
	put_word(out, below(&r, 400));
	buf_puts(out, "\",\"nodeName\":\"ip-");
	buf_printf(out, "10-%u-%u-%u.eu-central-1.compute.internal", below(&r, 8), below(&r, 256),
		   below(&r, 256));
	buf_puts(out, "\",\"securityContext\":{\"runAsUser\":");
	buf_printf(
	    out,
	    "%u},\"schedulerName\":\"default-scheduler\",\"tolerations\":[{\"key\":\"node.kubernetes.io/"
	    "not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],"
	    "\"priority\":0,\"enableServiceLinks\":true},",
	    1000 + below(&r, 60000));
	put_pod_status(out, &status, 1);
	buf_putc(out, '}');
}

static void put_users(struct buf *out, struct random *r, unsigned n)
{
	for (unsigned k = 0; k < n; k++) {
		buf_printf(out, "%s{\"name\":\"", k ? "," : "");
		put_word(out, below(r, 12000));
		buf_puts(out, "\",\"secretRef\":{\"name\":\"");
		put_word(out, below(r, 12000));
		buf_puts(out, "-credentials\",\"key\":\"password\"},\"grants\":[\"");
		put_word(out, below(r, 300));
		buf_printf(out, ".%s\"],\"connectionLimit\":%u}", below(r, 2) ? "readwrite" : "readonly",
			   below(r, 500));
	}
}

static void put_history(struct buf *out, struct random *r, unsigned n)
{
	static const char *const reasons[] = {"BackupSucceeded", "Resized", "FailoverCompleted",
					      "ConfigReloaded"};
	for (unsigned k = 0; k < n; k++) {
		buf_printf(out, "%s{\"time\":\"", k ? "," : "");
		put_time(out, r);
		buf_printf(out, "\",\"reason\":\"%s\",\"durationSeconds\":%u,\"location\":\"s3://backups/",
			   reasons[below(r, 4)], below(r, 4000));
		put_uid(out, r);
		buf_puts(out, "\",\"message\":\"");
		put_text(out, r, 6 + below(r, 6));
		buf_puts(out, "\"}");
	}
}

void objects_custom(struct buf *out, uint32_t i, uint64_t version)
{
	char namespace[64], name[64];
	struct random r = seeded(DATABASE + 200, i), status = seeded(STATUS + 1000 + version, i);
	objects_custom_name(i, namespace, name);
	buf_puts(out, "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Database\",");
	put_metadata(out, &r, i, version, namespace, name, "example.com/v1", "Tenant");
	buf_printf(out,
		   ",\"spec\":{\"engine\":\"postgres\",\"version\":\"%u.%u\",\"replicas\":%u,\"storage\":{"
		   "\"size\":\"%uGi\",\"class\":\"",
		   12 + below(&r, 5), below(&r, 10), 1 + below(&r, 5), 10 * (1 + below(&r, 100)));
	put_word(out, below(&r, 20));
	buf_puts(out, "\"},\"description\":\"");
	put_text(out, &r, 50);
	buf_puts(out, "\",\"tls\":{\"secretName\":\"");
	put_word(out, below(&r, 12000));
	buf_puts(out, "-tls\",\"caBundle\":\"");
	put_base64(out, &r, 300);
	buf_puts(out, "\"},\"parameters\":{");
	for (unsigned k = 0; k < 20; k++) {
		buf_printf(out, "%s\"", k ? "," : "");
		put_word(out, k);
		buf_puts(out, "_");
		put_word(out, k + 31);
		buf_printf(out, "\":\"%u%s\"", below(&r, 100000), below(&r, 2) ? "kB" : "ms");
	}
	buf_puts(out, "},\"users\":[");
	put_users(out, &r, 14);
	buf_printf(out, "],\"backup\":{\"schedule\":\"%u %u * * *\",\"retention\":\"%ud\",\"bucket\":\"",
		   below(&r, 60), below(&r, 24), 7 + below(&r, 80));
	put_word(out, below(&r, 12000));
	buf_printf(out, "\"},\"allowedRanges\":[\"");
	for (unsigned k = 0; k < 12; k++) {
		put_address(out, &r);
		buf_puts(out, k < 11 ? "/32\",\"" : "/32\"");
	}
	buf_printf(out,
		   "]},\"status\":{\"phase\":\"Ready\",\"observedGeneration\":%u,\"endpoint\":\"%s.%s.db."
		   "example.com:5432\",\"conditions\":[",
		   1 + below(&status, 9), name, namespace);
	for (unsigned k = 0; k < 4; k++) {
		static const char *const types[] = {"Ready", "Replicating", "BackedUp", "Reachable"};
		buf_printf(out, "%s{\"type\":\"%s\",\"status\":\"%s\",\"reason\":\"Checked\",\"message\":\"",
			   k ? "," : "", types[k], below(&status, 9) ? "True" : "False");
		put_text(out, &status, 8);
		buf_puts(out, "\",\"lastTransitionTime\":\"");
		put_time(out, &status);
		buf_puts(out, "\"}");
	}
	buf_puts(out, "],\"history\":[");
	put_history(out, &status, 11);
	buf_puts(out, "]}}");
}
