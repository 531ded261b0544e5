typedef int wire_empty;
