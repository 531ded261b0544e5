/* What a credential plugin prints: a token that is taken can stand in a header, and what is refused is not quoted. */
#include "exec_plugin.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static char version[] = "client.authentication.k8s.io/v1";
	struct kubeconfig k = {.exec_api_version = version};
	struct exec_credential c = {0};
	struct err err = {0};
	int r = exec_credential_parse(&k, (struct span){len ? (const char *)bytes : "", len}, &c, &err);
	if (r) {
		FUZZ_CHECK(r == -EINVAL && *err.text && !strstr(err.text, "SECRET"), "%d, \"%s\"", r,
			   err.text);
		FUZZ_CHECK(!c.token && !c.cert && !c.key, "something is left behind");
		return 0;
	}
	FUZZ_CHECK((c.token || c.cert) && !c.cert == !c.key, "nothing to show");
	for (const char *p = c.token; p && *p; p++)
		FUZZ_CHECK((unsigned char)*p > 0x20 && *p != 0x7f, "a token that ends its header");
	exec_credential_done(&c);
	return 0;
}

void fuzz_seeds(void (*put)(const char *name, struct span bytes))
{
	(void)put;
}
