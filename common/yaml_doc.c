typedef int yaml_doc_empty;
