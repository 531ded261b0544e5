/* Which proxy the environment wants for a connection, by the rules of Go's net/http (and so of kubectl), which are
 * not libcurl's: HTTPS_PROXY or https_proxy for https, HTTP_PROXY or http_proxy for http (not where REQUEST_METHOD
 * says that this is a CGI program), no ALL_PROXY; never for localhost and loopback addresses; NO_PROXY or no_proxy
 * names who is reached directly. The upper-case name wins where both are set. Pure but for getenv. */
#pragma once
#include "base.h"

/* "http://proxy:3128", owned by the caller; NULL: no proxy. tls: the server speaks https; host: without
 * brackets. A value that is no proxy's URL gets http:// in front, as Go does it. */
char *proxy_from_environment(bool tls, const char *host, const char *port);
/* Does the list say "directly"? Its items, with ',' between them: *, an address, a network as 10.0.0.0/8, a domain
 * (itself and all below it), .domain or *.domain (all below it); addresses and domains maybe with :PORT. */
bool proxy_is_bypassed(const char *no_proxy, const char *host, const char *port);
/* http, https, socks5 and socks5h: what common/http.h can use. */
bool proxy_scheme_known(const char *url);
