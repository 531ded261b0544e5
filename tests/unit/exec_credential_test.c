#include "exec_plugin.h"
#include <criterion/criterion.h>

static struct kubeconfig config(void)
{
	return (struct kubeconfig){.server = (char *)(uintptr_t) "https://h:6443",
				   .exec_api_version = (char *)(uintptr_t) "client.authentication.k8s.io/v1"};
}

#define ANSWER(status)                                                                                       \
	"{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":" status \
	"}"

Test(exec_credential, good_answers)
{
	struct kubeconfig k = config();
	struct exec_credential c = {0};
	struct err err = {0};
	cr_assert_eq(exec_credential_parse(&k, span_of(ANSWER("{\"token\":\"t\"}")), &c, &err), 0, "%s",
		     err.text);
	cr_assert(!strcmp(c.token, "t") && !c.cert && c.expires_s == 0);
	exec_credential_done(&c);
	cr_assert_eq(exec_credential_parse(
			 &k,
			 span_of("\n" ANSWER("{\"expirationTimestamp\":\"2026-09-30T14:00:30+02:00\","
					     "\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY\","
					     "\"token\":null,\"future\":{}}") "\n"),
			 &c, &err),
		     0, "%s", err.text);
	cr_assert(!c.token && !strcmp(c.cert, "CERT") && !strcmp(c.key, "KEY") && c.expires_s == 1790769630);
	exec_credential_done(&c);
}

/* None of the texts may hold what was printed: SECRET stands in each. */
Test(exec_credential, refusals)
{
	static const struct {
		const char *out, *word;
	} rows[] = {
	    {"", "printed nothing"},
	    {" \n", "printed nothing"},
	    {"SECRET\n" ANSWER("{\"token\":\"SECRET\"}"), "does not begin with a JSON object"},
	    {ANSWER("{\"token\":\"SECRET\"}") "SECRET", "no JSON object, or something follows"},
	    {"{\"SECRET\":", "no JSON object"},
	    {"[\"SECRET\"]", "no ExecCredential"},
	    {"{\"apiVersion\":\"client.authentication.k8s.io/"
	     "v1beta1\",\"kind\":\"ExecCredential\",\"status\":{"
	     "\"token\":\"SECRET\"}}",
	     "another apiVersion than the kubeconfig asks for (client.authentication.k8s.io/v1)"},
	    {"{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"SECRET\"}}", "another apiVersion"},
	    {"{\"kind\":\"Config\",\"token\":\"SECRET\"}", "no ExecCredential"},
	    {ANSWER("null"), "no status"},
	    {ANSWER("\"SECRET\""), "no status"},
	    {ANSWER("{}"), "neither a token nor a certificate"},
	    {ANSWER("{\"token\":\"\"}"), "neither a token nor a certificate"},
	    {ANSWER("{\"token\":1}"), "status.token is no text"},
	    {ANSWER("{\"token\":\"SECRET SECRET\"}"), "white space"},
	    {ANSWER("{\"token\":\"SECRET\\r\\nX: y\"}"), "white space"},
	    {ANSWER("{\"clientCertificateData\":\"SECRET\"}"), "only one of"},
	    {ANSWER("{\"clientKeyData\":\"SECRET\",\"token\":\"SECRET\"}"), "only one of"},
	    {ANSWER("{\"token\":\"SECRET\",\"expirationTimestamp\":\"tomorrow\"}"), "expirationTimestamp"},
	};
	struct kubeconfig k = config();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct exec_credential c = {0};
		struct err err = {0};
		cr_assert_eq(exec_credential_parse(&k, span_of(rows[i].out), &c, &err), -EINVAL,
			     "accepted: %s", rows[i].out);
		cr_assert(strstr(err.text, rows[i].word), "no \"%s\" in: %s", rows[i].word, err.text);
		cr_assert(!strstr(err.text, "SECRET"), "%s", err.text);
		cr_assert(!c.token && !c.cert && !c.key);
	}
}

Test(exec_credential, info)
{
	struct kubeconfig k = config();
	struct buf out = {0};
	exec_info(&k, "PEM", "http://p", &out);
	cr_assert_str_eq(buf_str(&out),
			 "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
			 "v1\",\"spec\":{\"interactive\":false}}");
	buf_reset(&out);
	k.exec_cluster_info = k.insecure = k.disable_compression = true;
	k.tls_server_name = (char *)(uintptr_t) "n\"";
	k.exec_cluster_config = (char *)(uintptr_t) "{\"a\":1}";
	exec_info(&k, "PEM", "http://p", &out);
	cr_assert_str_eq(
	    buf_str(&out),
	    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{"
	    "\"cluster\":{\"server\":\"https://h:6443\",\"tls-server-name\":\"n\\\"\","
	    "\"insecure-skip-tls-verify\":true,\"certificate-authority-data\":\"UEVN\",\"proxy-url\":"
	    "\"http://p\",\"disable-compression\":true,\"config\":{\"a\":1}},\"interactive\":false}}");
	buf_done(&out);
}
