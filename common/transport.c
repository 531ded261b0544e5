typedef int transport_empty;
