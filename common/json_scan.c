typedef int json_scan_empty;
