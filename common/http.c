typedef int http_empty;
