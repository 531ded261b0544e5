typedef int cache_empty;
