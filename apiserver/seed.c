#include "seed.h"
#include "api.h"

void seed_namespaces(struct storage *s, int64_t now)
{
	static const char *const names[] = {"default", "kube-system"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(free_ptr) char *body = xasprintf("{\"metadata\":{\"name\":\"%s\"}}", names[i]);
		struct api_request in = {.method = "POST",
					 .uri = span_of("/api/v1/namespaces"),
					 .body = span_of(body),
					 .content_type = "application/json",
					 .accept = "",
					 .user_agent = "reconciled-apiserver",
					 .now = now};
		struct api_response out;
		api_handle(s, &in, &out);
		api_response_done(&out);
	}
}
