"""EKS: clusters, node groups, add-ons, access entries and pod identities, and their Kubernetes API."""
