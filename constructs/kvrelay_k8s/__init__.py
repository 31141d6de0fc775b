"""cdk8s charts: each holds the Kubernetes objects of one piece."""
