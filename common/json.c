typedef int json_empty;
