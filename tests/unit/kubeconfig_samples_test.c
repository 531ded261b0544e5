/* The files of tests/kubeconfigs, each with one oddity from the field: what comes of each. Whether the good ones
 * connect is proc/kubeconfigs_test.sh's. */
#include "kubeconfig.h"
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static char folder[PATH_MAX];

static void set_up(void)
{
	char relative[PATH_MAX - 1];
	const char *src = getenv("SRC");
	snprintf(relative, sizeof relative, "%s/tests/kubeconfigs", src ? src : ".");
	cr_assert(realpath(relative, folder), "%s is not there", relative);
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	cr_assert_eq(chdir("/"), 0); /* nothing depends on it */
}

TestSuite(kubeconfig_samples, .init = set_up);

/* "FOLDER" in a wanted text stands for the samples' folder. */
static char *expand(const char *text)
{
	const char *at = strstr(text, "FOLDER");
	return at ? xasprintf("%.*s%s%s", (int)(at - text), text, folder, at + 6) : xstrdup(text);
}

static void assert_text(const char *sample, const char *what, const char *got, const char *want)
{
	_cleanup_(free_ptr) char *text = want ? expand(want) : NULL;
	cr_assert(text ? got && !strcmp(got, text) : !got, "%s: %s is \"%s\", \"%s\" is wanted", sample, what,
		  got ? got : "(none)", text ? text : "(none)");
}

#define DEFAULT_SERVER "https://127.0.0.1:6443"

Test(kubeconfig_samples, accepted)
{
	static const struct {
		const char *sample, *server, *ca_data, *token;
		bool no_warning;
	} rows[] = {
	    {"01-token.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"02-relative-paths/config.yaml", DEFAULT_SERVER, NULL, NULL, true},
	    {"04-exec-plugin/config.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", NULL, true},
	    {"06-exec-v1beta1-without-interactivemode.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", NULL, true},
	    {"08-exec-missing-binary.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", NULL, true},
	    {"10-tls-server-name.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"11-proxy-url.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"12-proxy-url-socks5.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"15-insecure.yaml", DEFAULT_SERVER, NULL, "dummy-token", false},
	    {"17-user-without-credentials.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", NULL, true},
	    {"18-basic-auth.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", NULL, true},
	    {"19-token-and-tokenfile.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "stale-token-must-lose", true},
	    {"20-data-wrapped-literal.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"21-data-binary-tag.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"22-config.json", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"23-path-prefix.yaml", DEFAULT_SERVER "/k8s/clusters/c-x1", "DUMMY-CA-PEM", "dummy-token", true},
	    {"24-ipv6.yaml", "https://[::1]:6443", "DUMMY-CA-PEM", "dummy-token", true},
	    {"25-no-scheme.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"26-bom-crlf.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"28-extensions-and-unknown.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"31-impersonate.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"32-disable-compression.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"33-anchors.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", true},
	    {"35-data-wins-over-file.yaml", DEFAULT_SERVER, "DUMMY-CA-PEM", "dummy-token", false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kubeconfig k = {0};
		struct err err = {0};
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, rows[i].sample);
		cr_assert_eq(kubeconfig_load(path, NULL, &k, &err), 0, "%s: %s", rows[i].sample, err.text);
		assert_text(rows[i].sample, "server", k.server, rows[i].server);
		assert_text(rows[i].sample, "CA", k.ca_data, rows[i].ca_data);
		assert_text(rows[i].sample, "token", k.token, rows[i].token);
		assert_text(rows[i].sample, "namespace", k.namespace, "shop");
		cr_assert_eq(!k.warnings, rows[i].no_warning, "%s: %s", rows[i].sample,
			     k.warnings ? k.warnings[0] : "no warning");
		cr_assert(!k.warnings || !k.warnings[1], "%s: one warning is enough", rows[i].sample);
		kubeconfig_done(&k);
	}
}

/* What is odd about each: one text of the result. */
#define DETAILS(X)                                                                                           \
	X("02-relative-paths/config.yaml", ca_file, "FOLDER/02-relative-paths/pki/ca.crt")                   \
	X("02-relative-paths/config.yaml", cert_file, "FOLDER/02-relative-paths/./pki/client.crt")           \
	X("02-relative-paths/config.yaml", key_file,                                                         \
	  "FOLDER/02-relative-paths/../02-relative-paths/pki/client.key")                                    \
	X("04-exec-plugin/config.yaml", exec_command, "FOLDER/04-exec-plugin/./bin/fake-credentials")        \
	X("04-exec-plugin/config.yaml", exec_args[1], "main cluster")                                        \
	X("04-exec-plugin/config.yaml", exec_args[4], NULL)                                                  \
	X("04-exec-plugin/config.yaml", exec_env[0], "FAKE_MODE=token")                                      \
	X("04-exec-plugin/config.yaml", exec_install_hint,                                                   \
	  "fake-credentials is not installed. It comes with this folder.")                                   \
	X("06-exec-v1beta1-without-interactivemode.yaml", exec_api_version,                                  \
	  "client.authentication.k8s.io/v1beta1")                                                            \
	X("06-exec-v1beta1-without-interactivemode.yaml", exec_command,                                      \
	  "FOLDER/04-exec-plugin/bin/fake-credentials")                                                      \
	X("08-exec-missing-binary.yaml", exec_command, "fake-credentials-that-nobody-has")                   \
	X("08-exec-missing-binary.yaml", exec_install_hint, "get it from the internal package feed")         \
	X("10-tls-server-name.yaml", tls_server_name, "kube.example.test")                                   \
	X("11-proxy-url.yaml", proxy_url, "http://127.0.0.1:3128")                                           \
	X("12-proxy-url-socks5.yaml", proxy_url, "socks5://127.0.0.1:1080")                                  \
	X("18-basic-auth.yaml", user, "jane")                                                                \
	X("18-basic-auth.yaml", password, "p:w%20\xc3\xbc\"")                                                \
	X("19-token-and-tokenfile.yaml", token_file, "FOLDER/token.txt")                                     \
	X("31-impersonate.yaml", impersonate[0], "Impersonate-User: jane")                                   \
	X("31-impersonate.yaml", impersonate[1], "Impersonate-Uid: 42")                                      \
	X("31-impersonate.yaml", impersonate[2], "Impersonate-Group: ops")                                   \
	X("31-impersonate.yaml", impersonate[3], "Impersonate-Group: team a/b")                              \
	X("31-impersonate.yaml", impersonate[4], "Impersonate-Extra-example.test%2Fscope: read")             \
	X("31-impersonate.yaml", impersonate[5], "Impersonate-Extra-example.test%2Fscope: x,y")              \
	X("31-impersonate.yaml", impersonate[6], NULL)                                                       \
	X("35-data-wins-over-file.yaml", ca_file, NULL)

Test(kubeconfig_samples, details){
#define X(sample, field, want)                                                                               \
	{                                                                                                    \
		struct kubeconfig k = {0};                                                                   \
		struct err err = {0};                                                                        \
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, sample);                         \
		cr_assert_eq(kubeconfig_load(path, NULL, &k, &err), 0, "%s", err.text);                      \
		assert_text(sample, #field, k.field, want);                                                  \
		kubeconfig_done(&k);                                                                         \
	}
    DETAILS(X)
#undef X
}

Test(kubeconfig_samples, flags)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	_cleanup_(free_ptr) char *plugin = expand("FOLDER/04-exec-plugin/config.yaml");
	_cleanup_(free_ptr) char *plain = expand("FOLDER/32-disable-compression.yaml");
	_cleanup_(free_ptr) char *insecure = expand("FOLDER/15-insecure.yaml");
	cr_assert_eq(kubeconfig_load(plugin, NULL, &k, &err), 0);
	cr_assert(k.exec_cluster_info && k.exec_timeout_ms == KUBECONFIG_EXEC_TIMEOUT_MS);
	kubeconfig_done(&k);
	cr_assert_eq(kubeconfig_load(plain, NULL, &k, &err), 0);
	cr_assert(k.disable_compression && !k.insecure);
	kubeconfig_done(&k);
	cr_assert_eq(kubeconfig_load(insecure, NULL, &k, &err), 0);
	cr_assert(k.insecure && strstr(k.warnings[0], "insecure-skip-tls-verify"));
	kubeconfig_done(&k);
}

Test(kubeconfig_samples, refused)
{
	static const struct {
		const char *sample, *words[3];
	} rows[] = {
	    {"05-exec-v1-without-interactivemode.yaml", {"interactiveMode: must be given"}},
	    {"07-exec-interactive-always.yaml", {"Always", "terminal"}},
	    {"09-auth-provider.yaml", {"\"gcp\"", "exec plugin"}},
	    {"13-no-current-context.yaml", {"current-context", "main, other"}},
	    {"14-dangling-context.yaml", {"\"gone\"", "\"main\"", "14-dangling-context.yaml:"}},
	    {"16-insecure-with-ca.yaml", {"insecure-skip-tls-verify", "certificate-authority"}},
	    {"27-duplicate-names.yaml", {"duplicate name \"main\""}},
	    {"29-empty.yaml", {"no configuration", "empty"}},
	    {"30-null-lists.yaml", {"no configuration", "empty"}},
	    {"34-cert-without-key.yaml", {"client-certificate without client-key"}},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kubeconfig k = {0};
		struct err err = {0};
		_cleanup_(free_ptr) char *path = xasprintf("%s/%s", folder, rows[i].sample);
		cr_assert_eq(kubeconfig_load(path, NULL, &k, &err), -EINVAL, "%s was accepted",
			     rows[i].sample);
		cr_assert(strstr(err.text, rows[i].sample), "%s", err.text);
		for (size_t w = 0; w < ARRAY_SIZE(rows[i].words) && rows[i].words[w]; w++)
			cr_assert(strstr(err.text, rows[i].words[w]), "no \"%s\" in: %s", rows[i].words[w],
				  err.text);
	}
}

/* As a list: what is empty is passed over. */
Test(kubeconfig_samples, merged)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	_cleanup_(free_ptr) char *list = xasprintf(
	    "%1$s/29-empty.yaml:%1$s/03-merge/a-only-current-context.yaml:%1$s/03-merge/no-such-file:"
	    "%1$s/03-merge/b-cluster-and-context.yaml::%1$s/30-null-lists.yaml:%1$s/03-merge/"
	    "c-user-and-losing-twins.yaml",
	    folder);
	setenv("KUBECONFIG", list, 1);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), 0, "%s", err.text);
	assert_text("03-merge", "server", k.server, DEFAULT_SERVER);
	assert_text("03-merge", "token", k.token, "dummy-token");
	assert_text("03-merge", "namespace", k.namespace, "shop");
	cr_assert(!k.insecure && k.files[2] && !k.files[3]);
	cr_assert(k.warnings[0] && k.warnings[1] && k.warnings[2] && !k.warnings[3]);
	kubeconfig_done(&k);
	_cleanup_(free_ptr) char *nothing = xasprintf("%1$s/29-empty.yaml:%1$s/30-null-lists.yaml", folder);
	setenv("KUBECONFIG", nothing, 1);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), -ENOENT);
	cr_assert(strstr(err.text, "29-empty.yaml: empty") && strstr(err.text, "in-cluster"), "%s", err.text);
}
