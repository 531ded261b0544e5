#include "buf.h"
#include "kubeconfig.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/reconciled-unit.XXXXXX";

static void set_up(void)
{
	cr_assert(mkdtemp(folder));
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
}

static void tear_down(void)
{
	_cleanup_(free_ptr) char *command = xasprintf("rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(kubeconfig, .init = set_up, .fini = tear_down);

static char *write_file(const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

/* A file with one cluster, context and user; cluster and user are the insides of flow mappings. */
static int load(const char *cluster, const char *user, struct kubeconfig *ret, struct err *err)
{
	_cleanup_(free_ptr) char *text =
	    xasprintf("apiVersion: v1\nkind: Config\n"
		      "clusters:\n- {name: main, cluster: {%s}}\n"
		      "contexts:\n- {name: main, context: {cluster: main, user: main, namespace: shop}}\n"
		      "current-context: main\n"
		      "users:\n- {name: main, user: {%s}}\n",
		      cluster, user);
	_cleanup_(free_ptr) char *path = write_file("config", text);
	return kubeconfig_load(path, NULL, ret, err);
}

#define SERVER "server: \"https://127.0.0.1:6443\""
#define CA     SERVER ", certificate-authority-data: RFVNTVktQ0EtUEVN"

static int load_text(const char *text, struct kubeconfig *ret, struct err *err)
{
	_cleanup_(free_ptr) char *path = write_file("config", text);
	return kubeconfig_load(path, NULL, ret, err);
}

static void assert_refused(const char *cluster, const char *user, const char *line, const char *word)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	cr_assert_eq(load(cluster, user, &k, &err), -EINVAL, "{%s} {%s} was accepted", cluster, user);
	_cleanup_(free_ptr) char *place = xasprintf("%s/config:%s:", folder, line);
	cr_assert(strstr(err.text, place), "no %s in: %s", place, err.text);
	cr_assert(strstr(err.text, word), "no \"%s\" in: %s", word, err.text);
}

Test(kubeconfig, token)
{
	struct kubeconfig k = {0}, copy = {0};
	struct err err = {0};
	cr_assert_eq(load(CA, "token: dummy-token", &k, &err), 0, "%s", err.text);
	kubeconfig_copy(&copy, &k);
	kubeconfig_done(&k);
	cr_assert_str_eq(copy.server, "https://127.0.0.1:6443");
	cr_assert_str_eq(copy.namespace, "shop");
	cr_assert_str_eq(copy.ca_data, "DUMMY-CA-PEM");
	cr_assert_str_eq(copy.token, "dummy-token");
	cr_assert(!copy.ca_file && !copy.token_file && !copy.cert_file && !copy.warnings && !copy.insecure);
	kubeconfig_done(&copy);
}

Test(kubeconfig, relative_paths_start_at_the_file)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	_cleanup_(free_ptr) char *sub = xasprintf("%s/sub", folder);
	_cleanup_(free_ptr) char *link = xasprintf("%s/link", folder);
	cr_assert_eq(mkdir(sub, 0700), 0);
	_cleanup_(free_ptr) char *path = write_file(
	    "sub/real",
	    "clusters: [{name: a, cluster: {server: 'https://h', certificate-authority: pki/ca.crt}}]\n"
	    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
	    "users: [{name: a, user: {client-certificate: ./pki/c.crt, client-key: ../x/c.key, tokenFile: "
	    "/abs/t}}]\n"
	    "current-context: a\n");
	cr_assert_eq(symlink("sub/real", link), 0);
	_cleanup_(free_ptr) char *ca = xasprintf("%s/pki/ca.crt", sub);
	_cleanup_(free_ptr) char *key = xasprintf("%s/../x/c.key", sub);
	cr_assert_eq(kubeconfig_load(path, NULL, &k, &err), 0, "%s", err.text);
	cr_assert_str_eq(k.ca_file, ca);
	cr_assert_str_eq(k.key_file, key);
	cr_assert_str_eq(k.token_file, "/abs/t");
	kubeconfig_done(&k);
	/* Through a link: beside the link. A relative name of the file itself: absolute all the same. */
	_cleanup_(free_ptr) char *beside_link = xasprintf("%s/pki/ca.crt", folder);
	cr_assert_eq(kubeconfig_load(link, NULL, &k, &err), 0);
	cr_assert_str_eq(k.ca_file, beside_link);
	kubeconfig_done(&k);
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(kubeconfig_load("sub/real", NULL, &k, &err), 0);
	cr_assert_str_eq(k.ca_file, ca);
	kubeconfig_done(&k);
	cr_assert_eq(chdir("/"), 0);
}

Test(kubeconfig, server_forms)
{
	static const struct {
		const char *cluster, *want;
	} rows[] = {
	    {"server: \"https://127.0.0.1:6443/k8s/clusters/c-x1/\"",
	     "https://127.0.0.1:6443/k8s/clusters/c-x1"},
	    {"server: \"https://[::1]:6443\"", "https://[::1]:6443"},
	    {"server: \"127.0.0.1:6443\", certificate-authority-data: RFVNTVktQ0EtUEVN",
	     "https://127.0.0.1:6443"},
	    {"server: \"127.0.0.1:8080\"", "http://127.0.0.1:8080"},
	    {"server: \"http://localhost:8080///\"", "http://localhost:8080"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kubeconfig k = {0};
		struct err err = {0};
		cr_assert_eq(load(rows[i].cluster, "token: t", &k, &err), 0, "%s", err.text);
		cr_assert_str_eq(k.server, rows[i].want);
		kubeconfig_done(&k);
	}
	assert_refused("server: \"ftp://h\"", "", "4", "is not an address");
	assert_refused("server: \"https://\"", "", "4", "is not an address");
	assert_refused("server: \"https://u:p@h\"", "", "4", "is not an address");
	assert_refused("", "", "4", "server: missing");
	assert_refused("server: [a]", "", "4", "a text is wanted");
}

Test(kubeconfig, data_forms)
{
	static const char *const forms[] = {
	    "|\n        RFVNTVktQ0Et\n        UEVN\n",
	    "!!binary |\n        UkZWTlRWa3RR\n        MEV0ClVFVk4=\n",
	    "\"RFVNTVktQ0EtUEVN\"\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_(free_ptr) char *text =
		    xasprintf("clusters:\n- name: main\n  cluster:\n    server: https://h\n    "
			      "certificate-authority-data: %s"
			      "contexts: [{name: main, context: {cluster: main}}]\ncurrent-context: main\n",
			      forms[i]);
		struct kubeconfig k = {0};
		struct err err = {0};
		cr_assert_eq(load_text(text, &k, &err), 0, "%s", err.text);
		cr_assert_str_eq(k.ca_data, "DUMMY-CA-PEM");
		kubeconfig_done(&k);
	}
	assert_refused(SERVER ", certificate-authority-data: \"%%%%\"", "", "4",
		       "certificate-authority-data: not a base64 text");
	assert_refused(SERVER ", certificate-authority-data: \"QUJD=\"", "", "4", "not a base64 text");
	assert_refused(SERVER ", certificate-authority-data: \"QQBC\"", "", "4",
		       "not a base64 text"); /* holds a NUL */
}

Test(kubeconfig, json_bom_anchors_extensions)
{
	static const char *const texts[] = {
	    "{\"kind\":\"Config\",\"apiVersion\":\"v1\",\"current-context\":\"main\","
	    "\"clusters\":[{\"name\":\"main\",\"cluster\":{\"server\":\"https:\\/\\/127.0.0.1:6443\"}}],"
	    "\"contexts\":[{\"name\":\"main\",\"context\":{\"cluster\":\"main\",\"user\":\"main\"}}],"
	    "\"users\":[{\"name\":\"main\",\"user\":{\"token\":\"dummy\\u002dtoken\"}}]}",
	    "\xef\xbb\xbf"
	    "apiVersion: v1\r\nkind: Config\r\nclusters:\r\n- {name: main, cluster: {server: "
	    "\"https://127.0.0.1:6443\"}}\r\n"
	    "contexts:\r\n- {name: main, context: {cluster: main, user: main}}\r\ncurrent-context: main\r\n"
	    "users:\r\n- {name: main, user: {token: dummy-token}}\r\n",
	    "clusters:\n- {name: main, cluster: &c {server: \"https://127.0.0.1:6443\"}}\n- {name: second, "
	    "cluster: *c}\n"
	    "contexts:\n- {name: main, context: {cluster: second, user: main}}\ncurrent-context: main\n"
	    "users:\n- {name: main, user: {token: dummy-token}}\n",
	    "preferences: {colors: true}\nextensions: [{name: x, extension: {a: b}}]\n"
	    "clusters:\n- {name: main, cluster: {server: \"https://127.0.0.1:6443\", future: {a: [1]}, "
	    "extensions: []}}\n"
	    "contexts:\n- {name: main, context: {cluster: main, user: main}}\ncurrent-context: main\n"
	    "users:\n- {name: main, user: {token: dummy-token}}\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct kubeconfig k = {0};
		struct err err = {0};
		cr_assert_eq(load_text(texts[i], &k, &err), 0, "%zu: %s", i, err.text);
		cr_assert_str_eq(k.server, "https://127.0.0.1:6443");
		cr_assert_str_eq(k.token, "dummy-token");
		kubeconfig_done(&k);
	}
}

Test(kubeconfig, credentials)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	cr_assert_eq(load(CA ", tls-server-name: kube.example.test, proxy-url: \"http://p:3128\", "
			     "disable-compression: true",
			  "token: stale, tokenFile: token.txt", &k, &err),
		     0, "%s", err.text);
	_cleanup_(free_ptr) char *file = xasprintf("%s/token.txt", folder);
	cr_assert_str_eq(k.token_file, file);
	cr_assert_str_eq(k.token, "stale");
	cr_assert_str_eq(k.tls_server_name, "kube.example.test");
	cr_assert_str_eq(k.proxy_url, "http://p:3128");
	cr_assert(k.disable_compression);
	kubeconfig_done(&k);
	cr_assert_eq(load(CA, "username: jane, password: \"p:w%20\xc3\xbc\\\"\"", &k, &err), 0, "%s",
		     err.text);
	cr_assert_str_eq(k.password, "p:w%20\xc3\xbc\"");
	kubeconfig_done(&k);
	cr_assert_eq(load(CA, "", &k, &err), 0, "%s", err.text);
	cr_assert(!k.token && !k.user);
	kubeconfig_done(&k);
	cr_assert_eq(load(SERVER ", insecure-skip-tls-verify: true", "", &k, &err), 0, "%s", err.text);
	cr_assert(k.insecure && strstr(k.warnings[0], "insecure-skip-tls-verify"));
	kubeconfig_done(&k);
	/* Data wins over a file, and says so. */
	cr_assert_eq(load(CA ", certificate-authority: /nonexistent/ca.crt", "", &k, &err), 0, "%s",
		     err.text);
	cr_assert(k.ca_data && !k.ca_file && strstr(k.warnings[0], "/nonexistent/ca.crt"));
	kubeconfig_done(&k);
}

Test(kubeconfig, refusals)
{
	assert_refused(CA, "client-certificate-data: RFVNTVk=", "9", "without client-key");
	assert_refused(CA, "client-key-data: RFVNTVk=", "9", "without client-certificate");
	assert_refused(CA ", insecure-skip-tls-verify: true", "", "4", "leave out one");
	assert_refused(CA ", insecure-skip-tls-verify: yes", "", "4", "true or false");
	assert_refused(CA, "token: t, username: u", "9", "leave out one");
	assert_refused(CA, "exec: {apiVersion: client.authentication.k8s.io/v1, command: x}", "9",
		       "interactiveMode: must be given");
	assert_refused(CA, "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}", "9",
		       "client.authentication.k8s.io/v1 or");
	assert_refused(CA, "exec: {command: x}", "9", "exec.apiVersion: \"\" found");
	assert_refused(CA, "exec: {apiVersion: client.authentication.k8s.io/v1beta1}", "9",
		       "exec.command: missing");
	assert_refused(CA,
		       "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x, "
		       "interactiveMode: Maybe}",
		       "9", "\"Maybe\" found");
	assert_refused(CA,
		       "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x, env: {a: b}}",
		       "9", "exec.env: a list");
	assert_refused(CA,
		       "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x, env: [{value: "
		       "b}]}",
		       "9", "exec.env: {name: ..., value: ...}");
	assert_refused(CA, "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x, args: [{}]}",
		       "9", "a text is wanted");
	assert_refused(CA, "exec: x", "9", "exec: {apiVersion");
	assert_refused(CA, "auth-provider: {name: gcp}", "9", "\"gcp\": removed");
	assert_refused(CA, "token: t, as-groups: [a]", "9", "as-groups without as");
	assert_refused(CA, "token: t, as-uid: a", "9", "as-uid without as");
	assert_refused(CA, "token: t, as-user-extra: {a: [b]}", "9", "as-user-extra without as");
	assert_refused(CA, "token: t, as: jane, as-groups: ops", "9", "a list of texts");
	assert_refused(CA, "token: t, as: \"jane\\r\\nX: y\"", "9", "control character");
	assert_refused(CA, "token: t, as: jane, as-user-extra: {a: b}", "9", "a list of texts");
	assert_refused(CA, "token: t, as: jane, as-user-extra: {a: [\"\"]}", "9", "empty text");
	assert_refused(SERVER ", certificate-authority-data: \"-----BEGIN CERTIFICATE-----\"", "", "4",
		       "this is PEM, and base64 of it is wanted");
	assert_refused(CA ", proxy-url: \"ftp://127.0.0.1:1080\"", "", "4", "or socks5://");
	assert_refused(CA ", proxy-url: \"127.0.0.1:1080\"", "", "4", "or socks5://");
}

Test(kubeconfig, contexts)
{
	static const struct {
		const char *text, *word;
	} rows[] = {
	    {"clusters: [{name: a, cluster: {server: 'https://h'}}]\ncontexts: [{name: one, context: "
	     "{cluster: a}}, {name: two, context: "
	     "{cluster: a}}]\n",
	     "current-context: missing: set it to one of the contexts: one, two"},
	    {"clusters: [{name: a, cluster: {server: 'https://h'}}]\ncontexts: [{name: one, context: "
	     "{cluster: gone}}]\ncurrent-context: one\n",
	     "context \"one\" names cluster \"gone\""},
	    {"clusters: [{name: a, cluster: {server: 'https://h'}}]\ncontexts: [{name: one, context: "
	     "{cluster: a, user: gone}}]\n"
	     "current-context: one\n",
	     "names user \"gone\""},
	    {"clusters: [{name: a, cluster: {server: 'https://h'}}]\ncontexts: []\ncurrent-context: one\n",
	     "there is no context \"one\""},
	    {"clusters: [{name: a, cluster: {server: 'https://h'}}, {name: a, cluster: {server: "
	     "'https://twin.invalid'}}]\n"
	     "contexts: [{name: one, context: {cluster: a}}]\ncurrent-context: one\n",
	     "clusters: duplicate name \"a\""},
	    {"clusters: {}\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n",
	     "a list is wanted"},
	    {"kind: Pod\nclusters: [{name: a}]\n", "this is not a kubeconfig"},
	    {"apiVersion: v2\nclusters: [{name: a}]\n", "apiVersion: \"v2\""},
	    {"[]\n", "a mapping is wanted"},
	    {"a: [\n", "config:"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kubeconfig k = {0};
		struct err err = {0};
		cr_assert_eq(load_text(rows[i].text, &k, &err), -EINVAL, "%zu was accepted", i);
		cr_assert(strstr(err.text, rows[i].word), "no \"%s\" in: %s", rows[i].word, err.text);
		cr_assert(strstr(err.text, folder), "no file in: %s", err.text);
	}
}

/* Every beginning of a good file is either good, refused or empty: it never crashes and never leaks. */
Test(kubeconfig, cut_anywhere)
{
	const char *whole =
	    "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: &c {server: \"https://h\", "
	    "certificate-authority-data: !!binary UVE9PQ==}\n- {name: b, cluster: *c}\n"
	    "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
	    "users:\n- {name: a, user: {token: t, tokenFile: f, client-certificate-data: \"QUJD\", "
	    "client-key-data: QUJD}}\n";
	for (size_t n = 0; n <= strlen(whole); n++) {
		_cleanup_(free_ptr) char *text = span_dup((struct span){whole, n});
		struct kubeconfig k = {0};
		struct err err = {0};
		int r = load_text(text, &k, &err);
		cr_assert(r == 0 || (r == -EINVAL && *err.text), "%zu: %d %s", n, r, err.text);
		cr_assert(r == 0 || !k.server, "untouched on failure");
		cr_assert(r == 0 || n < strlen(whole), "%s", err.text);
		kubeconfig_done(&k);
	}
}

#define MINIMAL(server)                                                                                      \
	"clusters: [{name: a, cluster: {server: '" server                                                    \
	"'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"

Test(kubeconfig, sources_in_order)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	_cleanup_(free_ptr) char *given = write_file("given", MINIMAL("https://given"));
	_cleanup_(free_ptr) char *configured = write_file("configured", MINIMAL("https://configured"));
	_cleanup_(free_ptr) char *env = write_file("env", MINIMAL("https://env"));
	_cleanup_(free_ptr) char *empty = write_file("empty", "");
	_cleanup_(free_ptr) char *nulls =
	    write_file("nulls", "kind: Config\nclusters: null\ncontexts: null\nusers: null\n");
	setenv("KUBECONFIG", env, 1);
	cr_assert_eq(kubeconfig_load(given, configured, &k, &err), 0);
	cr_assert_str_eq(k.server, "https://given");
	cr_assert_str_eq(k.source, given);
	kubeconfig_done(&k);
	cr_assert_eq(kubeconfig_load(NULL, configured, &k, &err), 0);
	cr_assert_str_eq(k.server, "https://configured");
	kubeconfig_done(&k);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), 0);
	cr_assert_str_eq(k.server, "https://env");
	kubeconfig_done(&k);
	_cleanup_(free_ptr) char *odd = xasprintf("::%s:", env);
	setenv("KUBECONFIG", odd, 1);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), 0);
	kubeconfig_done(&k);
	const char *nothing[] = {empty, nulls, "/nonexistent/kubeconfig"};
	for (size_t i = 0; i < ARRAY_SIZE(nothing); i++) {
		setenv("KUBECONFIG", nothing[i], 1);
		cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), -ENOENT);
		cr_assert(strstr(err.text, nothing[i]) && strstr(err.text, "--kubeconfig") &&
			      strstr(err.text, "in-cluster"),
			  "%s", err.text);
		cr_assert_eq(kubeconfig_load(nothing[i], NULL, &k, &err), -EINVAL,
			     "named, so it must say something");
		cr_assert(strstr(err.text, nothing[i]), "%s", err.text);
	}
	cr_assert_eq(kubeconfig_load(folder, NULL, &k, &err), -EISDIR);
}

/* Whole entries, the first file that has the name wins; paths belong to the file that names them. */
Test(kubeconfig, list_is_merged)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	_cleanup_(free_ptr) char *sub = xasprintf("%s/sub", folder);
	cr_assert_eq(mkdir(sub, 0700), 0);
	_cleanup_(free_ptr) char *a = write_file("a", "current-context: main\nclusters: null\n");
	_cleanup_(free_ptr) char *b = write_file(
	    "sub/b",
	    "clusters: [{name: main, cluster: {server: 'https://b', certificate-authority: ca.crt}}]\n"
	    "contexts: [{name: main, context: {cluster: main, user: main}}]\ncurrent-context: loser\n");
	_cleanup_(free_ptr) char *c = write_file(
	    "c",
	    "clusters: [{name: main, cluster: {server: 'https://loser.invalid', insecure-skip-tls-verify: "
	    "true, proxy-url: 'http://loser.invalid'}}]\n"
	    "contexts: [{name: main, context: {cluster: main, user: nobody, namespace: wrong}}]\n"
	    "users: [{name: main, user: {tokenFile: token}}]\n");
	_cleanup_(free_ptr) char *empty = write_file("empty", "");
	_cleanup_(free_ptr) char *list = xasprintf("%s:%s/gone:%s::%s:%s:", a, folder, b, empty, c);
	_cleanup_(free_ptr) char *ca = xasprintf("%s/ca.crt", sub);
	_cleanup_(free_ptr) char *token = xasprintf("%s/token", folder);
	_cleanup_(free_ptr) char *source = xasprintf("%s:%s:%s", a, b, c);
	setenv("KUBECONFIG", list, 1);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), 0, "%s", err.text);
	cr_assert_str_eq(k.server, "https://b");
	cr_assert_str_eq(k.ca_file, ca);
	cr_assert_str_eq(k.token_file, token);
	cr_assert(!k.insecure && !k.proxy_url && !k.namespace);
	cr_assert_str_eq(k.source, source);
	cr_assert(!strcmp(k.files[0], a) && !strcmp(k.files[1], b) && !strcmp(k.files[2], c) && !k.files[3]);
	cr_assert(strstr(k.warnings[0], "/gone: no such file: passed over"), "%s", k.warnings[0]);
	cr_assert(strstr(k.warnings[1], "/empty: the file is empty: passed over") && !k.warnings[2]);
	kubeconfig_done(&k);
	/* An explicit path is one file, whatever its name. */
	cr_assert_eq(kubeconfig_load(list, NULL, &k, &err), -EINVAL);
	cr_assert(strstr(err.text, "No such file"), "%s", err.text);
	/* What is wrong is said with the file that says it. */
	static const struct {
		const char *text, *word;
	} rows[] = {
	    {"contexts: [{name: main, context: {cluster: gone}}]\n",
	     "/first:1:34: context \"main\" names cluster \"gone\", which is not in any of the files"},
	    {"clusters: [{name: x}]\nusers: {}\n", "/first:2:8: users: a list is wanted"},
	    {"clusters: [{\n", "/first:2"},
	    {"kind: Pod\n", "/first:1:7: kind: \"Pod\" found"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(free_ptr) char *first = write_file("first", rows[i].text);
		_cleanup_(free_ptr) char *two = xasprintf("%s:%s", first, list);
		setenv("KUBECONFIG", two, 1);
		cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), -EINVAL, "%zu was accepted", i);
		cr_assert(strstr(err.text, rows[i].word), "no \"%s\" in: %s", rows[i].word, err.text);
	}
	/* Nobody says which context: those of all files are named. */
	_cleanup_(free_ptr) char *none = xasprintf("%s:%s", c, c);
	setenv("KUBECONFIG", none, 1);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), -EINVAL);
	cr_assert(strstr(err.text, "one of the contexts: main, main"), "%s", err.text);
	struct buf many = {0};
	for (int i = 0; i < 40; i++)
		buf_printf(&many, "%s:", c);
	setenv("KUBECONFIG", buf_str(&many), 1);
	buf_done(&many);
	cr_assert_eq(kubeconfig_load(NULL, NULL, &k, &err), -EINVAL);
	cr_assert(strstr(err.text, "more than 32 files"), "%s", err.text);
}

Test(kubeconfig, impersonation)
{
	static const char *const want[] = {"Impersonate-User: jane",
					   "Impersonate-Uid: 42",
					   "Impersonate-Group: ops",
					   "Impersonate-Group: team a/b",
					   "Impersonate-Extra-example.test%2Fscope: read",
					   "Impersonate-Extra-example.test%2Fscope: x,y",
					   "Impersonate-Extra-a%25b%20%C3%BC: 1"};
	struct kubeconfig k = {0};
	struct err err = {0};
	cr_assert_eq(
	    load(CA,
		 "token: t, as: jane, as-uid: \"42\", as-groups: [ops, \"team a/b\"], as-user-extra: "
		 "{\"example.test/scope\": [read, \"x,y\"], \"a%b \xc3\xbc\": [1], none: []}",
		 &k, &err),
	    0, "%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		cr_assert_str_eq(k.impersonate[i], want[i]);
	cr_assert(!k.impersonate[ARRAY_SIZE(want)]);
	kubeconfig_done(&k);
}

Test(kubeconfig, in_cluster)
{
	struct kubeconfig k = {0};
	struct err err = {0};
	cr_assert_eq(kubeconfig_in_cluster(folder, &k, &err), -ENOENT);
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	cr_assert_eq(kubeconfig_in_cluster(folder, &k, &err), -ENOENT);
	cr_assert(strstr(err.text, "/token"), "%s", err.text);
	_cleanup_(free_ptr) char *token = write_file("token", "abc\n");
	_cleanup_(free_ptr) char *ca = write_file("ca.crt", "pem");
	_cleanup_(free_ptr) char *ns = write_file("namespace", "shop\n");
	cr_assert_not_null(ns);
	cr_assert_eq(kubeconfig_in_cluster(folder, &k, &err), 0, "%s", err.text);
	cr_assert_str_eq(k.server, "https://[fd00::1]:443");
	cr_assert_str_eq(k.token_file, token);
	cr_assert_str_eq(k.ca_file, ca);
	cr_assert_str_eq(k.namespace, "shop");
	cr_assert_str_eq(k.source, "in-cluster");
	kubeconfig_done(&k);
}
