/* Names as the Kubernetes API wants them. Pure. */
#pragma once
#include "base.h"

bool kube_is_dns_label(struct span s);	    /* RFC 1123: a-z 0-9 -, at most 63 */
bool kube_is_dns_subdomain(struct span s);  /* labels with dots between, at most 253 */
bool kube_is_qualified_name(struct span s); /* label, annotation and finalizer names: [prefix/]name */
bool kube_is_label_value(
    struct span s); /* empty, or at most 63 of A-Z a-z 0-9 - _ . with a letter or digit at both ends */
/* The least that every kind asks of a name or namespace (path segment names): valid UTF-8, not empty, no control
 * characters, no '/' and no '%', neither "." nor "..". What is no such name can be no object's. */
bool kube_is_path_segment(struct span s);
