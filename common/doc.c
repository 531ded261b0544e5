typedef int doc_empty;
