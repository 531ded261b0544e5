/* Names as the Kubernetes API wants them. Pure. */
#pragma once
#include "base.h"

bool kube_is_dns_label(struct span s);	    /* RFC 1123: a-z 0-9 -, at most 63 */
bool kube_is_dns_subdomain(struct span s);  /* labels with dots between, at most 253 */
bool kube_is_qualified_name(struct span s); /* label, annotation and finalizer names: [prefix/]name */
bool kube_is_label_value(
    struct span s); /* empty, or at most 63 of A-Z a-z 0-9 - _ . with a letter or digit at both ends */
