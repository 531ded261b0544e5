/* Kubeconfigs, a list of one or two (a NUL byte between them): what is read can be copied and has what a client needs;
 * what is refused says the file, and leaves nothing behind. */
#include "fuzz.h"
#include "kubeconfig_private.h"

static void check_line(const char *line)
{
	FUZZ_CHECK(strncmp(line, "Impersonate-", 12) == 0 && strstr(line, ": "), "header \"%s\"", line);
	for (const char *p = line; *p; p++)
		FUZZ_CHECK((unsigned char)*p >= 0x20 && *p != 0x7f, "a header with a control character");
}

static void check_read(const struct kubeconfig *k)
{
	FUZZ_CHECK(k->server && strstr(k->server, "://") && !strpbrk(k->server, " \r\n"), "no server");
	FUZZ_CHECK(!(k->ca_file && k->ca_data) && !(k->insecure && (k->ca_file || k->ca_data)),
		   "two authorities");
	FUZZ_CHECK(!(k->cert_file || k->cert_data) == !(k->key_file || k->key_data),
		   "half a client certificate");
	FUZZ_CHECK(!k->password || k->user, "a password without a user");
	FUZZ_CHECK(!k->exec_command ||
		       (k->exec_api_version && k->exec_timeout_ms > 0 && !k->token && !k->user),
		   "a plugin beside a token, or without its version");
	for (char **line = k->impersonate; line && *line; line++)
		check_line(*line);
	for (char **env = k->exec_env; env && *env; env++)
		FUZZ_CHECK(strchr(*env, '='), "env \"%s\"", *env);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct span text = {(const char *)bytes, len};
	struct kubeconfig_file files[2] = {{.path = "/a"}, {.path = "/b"}};
	const char *cut = len ? memchr(bytes, 0, len) : NULL;
	size_t first = cut ? (size_t)(cut - text.at) : len, n = 0;
	struct span parts[2] = {{text.at, first}, {cut ? cut + 1 : NULL, cut ? len - first - 1 : 0}};
	struct kubeconfig k = {0}, copy;
	struct err err = {0};
	int r = 0;
	for (int i = 0; i < (cut ? 2 : 1) && !r; i++) {
		files[n].path = i ? "/b" : "/a";
		r = kubeconfig_file_parse(&files[n], parts[i].at ? parts[i] : (struct span){"", 0}, &err);
		n += !r && files[n].root;
	}
	if (!r && n && !(r = kubeconfig_merge(files, n, &k, &err))) {
		kubeconfig_copy(&copy, &k);
		check_read(&copy);
		kubeconfig_done(&copy);
	}
	FUZZ_CHECK(!r || (r == -EINVAL && *err.text == '/'), "%d, \"%s\"", r, err.text);
	kubeconfig_done(&k);
	yaml_doc_free(files[0].docs);
	yaml_doc_free(files[1].docs);
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	(void)put;
}
