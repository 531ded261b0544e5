/* Replaced by the first module. */
typedef int workers_empty;
