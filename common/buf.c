typedef int buf_empty;
