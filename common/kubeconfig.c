typedef int kubeconfig_empty;
