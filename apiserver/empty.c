/* Replaced by the first module. */
typedef int apiserver_empty;
