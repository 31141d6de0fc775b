"""The embedded defaults: emulated AWS, local Kubernetes, CPU serving."""
