#include "key_name.h"
#include "names.h"

int key_name_parse(const char *text, struct key_name *ret, struct err *err)
{
	const char *first = strchr(text, '/'), *second = first ? strchr(first + 1, '/') : NULL;
	if (!second)
		return err_set(err, -EINVAL,
			       "%.300s is no key: write CONTROLLER/NAMESPACE/NAME, or CONTROLLER//NAME for "
			       "one without a namespace",
			       text);
	struct key_name k = {
	    {text, (size_t)(first - text)}, {first + 1, (size_t)(second - first - 1)}, span_of(second + 1)};
	if (!kube_is_dns_label(k.controller))
		return err_set(err, -EINVAL, "%.300s: \"" SPAN_FMT "\" is no controller's name", text,
			       SPAN_ARG(k.controller));
	if (k.namespace.len && !kube_is_dns_label(k.namespace))
		return err_set(err, -EINVAL, "%.300s: \"" SPAN_FMT "\" is no namespace's name", text,
			       SPAN_ARG(k.namespace));
	/* Objects of some kinds (RBAC) have names that are no DNS names, but none has a slash. */
	if (!k.name.len || k.name.len > NAME_MAX_LEN || memchr(k.name.at, '/', k.name.len))
		return err_set(err, -EINVAL, "%.300s: \"%.300s\" is no object's name", text, k.name.at);
	*ret = k;
	return 0;
}
