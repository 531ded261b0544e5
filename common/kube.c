typedef int kube_empty;
